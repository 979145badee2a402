"""What to say when no loaded kernel serves a call: what exists nearest, and how to get the missing one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from octave_gen import arch as archs
from octave_gen.errors import OctaveError
from octave_gen.formats import CACHE_DTYPES, family_of
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import FLYDSL, SCALARS, Shape
from octave_gen.kernels.flydsl.tiers import EXTRA
from octave_gen.runtime.library import LoadedVariant, VariantKey

_NEAREST = 3
_CHOICES = (
    ("gqa_group",),
    ("query_group",),
    ("encoder",),
    ("query_dtype",),
    ("cache_dtype", "slot_bytes"),
    ("head_size", "slot_bytes"),
    ("tier",),
    ("arch",),
)
"""Fields that change together when one thing is chosen otherwise; the first names it."""
ON_CPU = "pass CPU tensors, which the reference serves"
"""What to do on a chip without kernels."""


def missing_kernel(key: VariantKey, loaded: Sequence[LoadedVariant]) -> OctaveError:
    """The error for a call that needs ``key`` while the kernels ``loaded`` are there."""
    unsupported = archs.refusal(key.arch)
    reason = unsupported or _refusal(key)
    lines = [f"no loaded library holds the kernel {describe(key)}"]
    lines += [f"  {line}" for line in _near(key, loaded)]
    if reason:
        hint = ON_CPU if unsupported else None
        return OctaveError("\n".join([*lines, f"  and none can be built: {reason}"]), where=key.kind, hint=hint)
    name = shipped_name(key)
    extra = f"with flydsl ({EXTRA}), " if _in_flydsl(key) else ""
    if name:
        hint = f"{extra}`{archs.build_command(key.arch)}` builds {name}; then octave_gen.load({key.arch!r})"
    else:
        hint = (
            "no shipped spec holds it: write one with these values (octave_gen/specs/*.toml show how), run "
            f"{extra}`{archs.build_command(key.arch)} --spec FILE --out DIR`, then "
            f"octave_gen.load({key.arch!r}, out=DIR)"
        )
    return OctaveError("\n".join(lines), where=key.kind, hint=hint)


def describe(key: VariantKey) -> str:
    """``decode: octave_k3v3, head_size 256, rotary_dims 64, …``, without what the kind does not depend on."""
    parts = [key.cache_dtype, f"head_size {key.head_size}"]
    rotary = _rotary_dims(key)
    if rotary:
        parts.append(f"rotary_dims {rotary}")
    choices = ("gqa_group", "query_group", "encoder")
    parts += [f"{name} {getattr(key, name)}" for name in choices if getattr(key, name) is not None]
    parts += [key.query_dtype, f"{key.tier} tier"]
    return f"{key.kind} on {key.arch}: " + ", ".join(part for part in parts if part)


def shipped_name(key: VariantKey) -> str | None:
    """The name of the shipped specs' variant for ``key``, or None when no shipped spec holds one."""
    from octave_gen import manifest, plan, spec

    for variant in plan.variants(spec.shipped(), on_request=True):
        shape = variant.shape
        found = VariantKey(
            arch=variant.arch.name,
            kind=variant.kind.name,
            tier=variant.tier.name,
            query_dtype=next(dtype for dtype, scalar in SCALARS.items() if scalar == shape.scalar),
            head_size=shape.head_size,
            cache_dtype=shape.cache_dtype,
            slot_bytes=manifest.slot_bytes(variant),
            gqa_group=shape.gqa_group,
            query_group=shape.query_group,
            encoder=shape.encoder,
        )
        if found == key:
            return variant.name
    return None


def _near(key: VariantKey, loaded: Sequence[LoadedVariant]) -> Iterator[str]:
    if not loaded:
        yield "nothing is loaded: call octave_gen.load()"
        return
    same_kind = [variant for variant in loaded if variant.key.kind == key.kind]
    found = False
    for names in _CHOICES:
        others = [
            variant.key
            for variant in same_kind
            if replace(variant.key, **{name: getattr(key, name) for name in names}) == key
        ]
        others.sort(key=lambda other: tuple(getattr(other, name) for name in names))
        values = dict.fromkeys(
            _value(other, names[0]) for other in others if _value(other, names[0]) != _value(key, names[0])
        )
        if values:
            found = True
            named = f"; a call names it: encoder={next(iter(values))!r}" if names == ("encoder",) else ""
            yield f"loaded with other {names[0]}: {', '.join(values)}{named}"
    if not found:
        nearest = sorted(same_kind or loaded, key=lambda variant: (_distance(key, variant.key), variant.name))
        yield "nearest loaded: " + ", ".join(variant.name for variant in nearest[:_NEAREST])


def _value(key: VariantKey, name: str) -> str:
    value = str(getattr(key, name))
    rotary = _rotary_dims(key) if name == "head_size" else None
    return f"{value} with rotary_dims {rotary}" if rotary else value


def _distance(key: VariantKey, other: VariantKey) -> int:
    """In how many values they differ; another chip counts more than all others together."""
    differing = [name for name, value in asdict(key).items() if value != getattr(other, name)]
    return len(differing) + len(asdict(key)) * ("arch" in differing)


def _rotary_dims(key: VariantKey) -> int | None:
    if key.cache_dtype is None or key.slot_bytes is None:
        return None
    dtype = CACHE_DTYPES[key.cache_dtype]
    return family_of(dtype).layout_of_slot(key.head_size, key.slot_bytes, dtype.fmt).rotary_dims


def _refusal(key: VariantKey) -> str | None:
    """Why no spec can ask for the kernel: its tier or its format does not hold the shape; or None.

    Where no other tier of the chip holds the shape either, each says why.
    """
    from octave_gen.kernels.base import MAX_GROUP

    chip = archs.get(key.arch)
    tiers = {tier.name: tier for tier in KINDS[key.kind].tiers_on(chip)}
    if key.tier not in tiers:
        return f"{key.kind} has no {key.tier} tier on {chip.name}"
    for name in ("gqa_group", "query_group"):
        if not 1 <= (getattr(key, name) or 1) <= MAX_GROUP:
            return f"a {name} is 1 to {MAX_GROUP}"
    dtype = CACHE_DTYPES[key.cache_dtype] if key.cache_dtype else None
    rotary = _rotary_dims(key)
    refused = family_of(dtype).refuse(key.head_size, rotary, dtype) if dtype and rotary else None
    shape = Shape(
        family=dtype.family if dtype else "",
        head_size=key.head_size,
        scalar=SCALARS[key.query_dtype],
        cache_dtype=key.cache_dtype,
        rotary_dims=rotary,
        gqa_group=key.gqa_group,
        query_group=key.query_group,
        encoder=key.encoder,
    )
    reasons = {name: tier.refuse(shape, chip) for name, tier in tiers.items()}
    asked = reasons.pop(key.tier)
    return refused or (asked and "; ".join([asked, *(map(str, reasons.values()) if all(reasons.values()) else ())]))


def _in_flydsl(key: VariantKey) -> bool:
    return any(tier.name == key.tier and tier.language == FLYDSL for tier in KINDS[key.kind].tiers)
