"""Why a variant does not exist, told from its name, and which variants are nearest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Final

from octave_gen import arch as archs
from octave_gen.errors import did_you_mean
from octave_gen.formats import CACHE_DTYPES, ENCODERS, FAMILIES, family_of
from octave_gen.kernels import KINDS, kind_of
from octave_gen.kernels.base import MAX_GROUP, SCALARS, KernelKind, Shape
from octave_gen.plan import Variant

SCHEME: Final = (
    f"<kind>_<dtype>_h<head>r<rotary>_<encoder>_g<group>_q<query group>_<{'|'.join(SCALARS.values())}>_<tier>_<arch>"
)
NEAREST: Final = 3
LONGEST: Final = 200
"""Characters of a name that are compared; the search takes time with the square of the length."""

_NAME: Final = re.compile(
    r"(?P<subject>[a-z][a-z0-9_]*?)_h(?P<head_size>[0-9]{1,6})(?:r(?P<rotary_dims>[0-9]{1,6}))?"
    r"(?:_(?P<encoder>[a-z]+))??(?:_g(?P<gqa_group>[0-9]{1,6}))?(?:_q(?P<query_group>[0-9]{1,6}))?"
    r"(?:_(?P<scalar>[a-z0-9]+))?_(?P<tier>[a-z0-9]+)_(?P<arch>[a-z]+[0-9][0-9a-f]*)"
)
_NUMBERS: Final = ("head_size", "rotary_dims", "gqa_group", "query_group")
_PARTS: Final = {
    "cache_dtype": "a cache dtype",
    "rotary_dims": "r<rotary dims>",
    "encoder": "an encoder",
    "gqa_group": "g<GQA group>",
    "query_group": "q<query group>",
}


@dataclass(frozen=True)
class Miss:
    """A name that no variant of the plan has. ``reasons``: why, at least one; ``hint``: what to do, if anything helps;
    ``nearest``: names that exist, the nearest first."""

    name: str
    reasons: tuple[str, ...]
    hint: str | None
    nearest: tuple[str, ...]


@dataclass(frozen=True)
class _Name:
    """A name taken apart; numbers as int, parts that it leaves out as None."""

    kind: str
    scalar: str | None
    tier: str
    arch: str
    head_size: int
    cache_dtype: str | None
    rotary_dims: int | None
    gqa_group: int | None
    query_group: int | None
    encoder: str | None

    def shape(self, family: str) -> Shape:
        return Shape(
            family=family,
            head_size=self.head_size,
            scalar=self.scalar or "",
            cache_dtype=self.cache_dtype,
            rotary_dims=self.rotary_dims,
            gqa_group=self.gqa_group,
            query_group=self.query_group,
            encoder=self.encoder,
        )


def _parse(name: str) -> _Name | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    kind, cache_dtype = _kind_and_dtype(match["subject"])
    encoder, scalar = match["encoder"], match["scalar"]
    if encoder is None and scalar in ENCODERS:  # the query dtype is what the name leaves out
        encoder, scalar = scalar, None
    numbers = {field: int(match[field]) if match[field] else None for field in _NUMBERS}
    return _Name(
        kind=kind,
        scalar=scalar,
        tier=match["tier"],
        arch=match["arch"],
        head_size=int(match["head_size"]),
        cache_dtype=cache_dtype,
        rotary_dims=numbers["rotary_dims"],
        gqa_group=numbers["gqa_group"],
        query_group=numbers["query_group"],
        encoder=encoder,
    )


def _kind_and_dtype(subject: str) -> tuple[str, str | None]:
    """The parts before the head, either of which may be unknown: then the first word is the kind."""
    known = next((dtype for dtype in CACHE_DTYPES if subject.endswith(f"_{dtype}")), None)
    kind = kind_of(f"{subject}_") or (subject.removesuffix(f"_{known}") if known else subject.partition("_")[0])
    return kind, subject[len(kind) + 1 :] or None


def explain(name: str, planned: Sequence[Variant]) -> Miss:
    """Why ``planned`` holds no variant ``name``: which part of the name does not exist, or which tier refuses it."""
    parts = _parse(name)
    if parts is None:
        return Miss(name, (f"it is no variant name; the scheme is {SCHEME}",), None, _similar(name, planned))
    nearest = _nearest(parts, planned)
    same_unit = tuple(variant.name for variant in planned if variant.unit == name)
    if same_unit:
        return Miss(name, ("it names a source file and its code object, not a kernel",), None, same_unit)
    impossible = tuple(_impossible(parts))
    if impossible:
        return Miss(name, impossible, None, nearest)
    twin = _twin(parts, planned)
    if twin is not None:
        reason = f"its slots do not depend on the rotary dims: {twin} is the same kernel"
        return Miss(name, (reason,), f"take {twin}", nearest)
    hint = "a spec that asks for it builds it: `octave-gen build --spec FILE`"
    return Miss(name, (f"it could exist, but no spec asks for it{_given(parts, planned)}",), hint, nearest)


def _impossible(parts: _Name) -> Iterator[str]:
    kind = KINDS.get(parts.kind)
    if kind is None:
        known = tuple(KINDS)
        yield f"there is no kernel kind {parts.kind!r}{did_you_mean(parts.kind, known)}; kinds: {', '.join(known)}"
    else:
        yield from _wrong_parts(parts, kind)
    if parts.scalar not in SCALARS.values():
        names = tuple(SCALARS.values())
        problem = (
            f"there is no query dtype {parts.scalar!r}{did_you_mean(parts.scalar, names, limit=1)}"
            if parts.scalar
            else "the query dtype is missing"
        )
        yield f"{problem}; query dtypes: {', '.join(names)}"
    if parts.cache_dtype is not None and parts.cache_dtype not in CACHE_DTYPES:
        known = tuple(CACHE_DTYPES)
        near = did_you_mean(parts.cache_dtype, known)
        yield f"there is no cache dtype {parts.cache_dtype!r}{near}; cache dtypes: {', '.join(known)}"
    if parts.encoder is not None and parts.encoder not in ENCODERS:
        near = did_you_mean(parts.encoder, ENCODERS)
        yield f"there is no encoder {parts.encoder!r}{near}; encoders: {', '.join(ENCODERS)}"
    for what, value in (("GQA group", parts.gqa_group), ("query group", parts.query_group)):
        if value is not None and not 1 <= value <= MAX_GROUP:
            yield f"a {what} is 1 to {MAX_GROUP}, not {value}"
    yield from _refused_by_format(parts)
    unknown_arch = archs.refusal(parts.arch)
    if unknown_arch:
        yield unknown_arch
    if kind is not None:
        yield from _refused_by_tier(parts, kind)


def _wrong_parts(parts: _Name, kind: KernelKind) -> Iterator[str]:
    for field, spelling in _PARTS.items():
        present = getattr(parts, field) is not None
        if present and field not in kind.fields:
            yield f"{kind.name} does not depend on {spelling}: its names have no such part"
        if not present and field in kind.fields:
            yield f"{kind.name} depends on {spelling}: the name lacks it"


def _refused_by_format(parts: _Name) -> Iterator[str]:
    if parts.cache_dtype in CACHE_DTYPES and parts.rotary_dims is not None:
        dtype = CACHE_DTYPES[parts.cache_dtype]
        reason = family_of(dtype).refuse(parts.head_size, parts.rotary_dims, dtype)
        if reason:
            yield reason


def _refused_by_tier(parts: _Name, kind: KernelKind) -> Iterator[str]:
    tiers = {tier.name: tier for tier in kind.tiers}
    chip = archs.ARCHS.get(parts.arch)
    if parts.tier not in tiers:
        yield f"{kind.name} has no tier {parts.tier!r}; tiers: {', '.join(tiers)}"
    elif chip is not None and parts.tier not in chip.tiers:
        yield f"{chip.name} offers no tier {parts.tier!r}; tiers: {', '.join(chip.tiers)}"
    elif chip is not None and not any(True for _ in _wrong_parts(parts, kind)):
        dtype = CACHE_DTYPES.get(parts.cache_dtype or "")
        families = (dtype.family,) if dtype else tuple(FAMILIES)
        reasons = [tiers[parts.tier].refuse(parts.shape(family), chip) for family in families]
        if all(reasons):
            yield from dict.fromkeys(str(reason) for reason in reasons)


def _twin(parts: _Name, planned: Sequence[Variant]) -> str | None:
    """The variant that differs from the name in its rotary dims alone, and has the same slots."""
    if parts.rotary_dims is None or parts.cache_dtype is None:
        return None
    dtype = CACHE_DTYPES[parts.cache_dtype]
    family = family_of(dtype)
    layout = family.layout(dtype, parts.head_size, parts.rotary_dims)
    for variant in planned:
        rotary_dims = variant.shape.rotary_dims
        other = replace(parts.shape(family.name), rotary_dims=rotary_dims)
        if rotary_dims in (None, parts.rotary_dims) or variant.shape != other:
            continue
        same_place = (variant.kind.name, variant.tier.name, variant.arch.name) == (parts.kind, parts.tier, parts.arch)
        if same_place and family.layout(dtype, parts.head_size, rotary_dims) == layout:
            return variant.name
    return None


def _given(parts: _Name, planned: Sequence[Variant]) -> str:
    """What the specs ask for in the first part that is not among theirs, all parts before it being equal."""
    left = [variant for variant in planned if variant.kind.name == parts.kind]
    for field in (*_NUMBERS[:2], "cache_dtype", "encoder", *_NUMBERS[2:], "scalar", "tier", "arch"):
        values = {_value(variant, field) for variant in left}
        wanted = getattr(parts, field)
        if wanted not in values:
            word = field.replace("_", " ")
            return f": {word} {wanted}, and the specs have {', '.join(map(str, sorted(values, key=_order)))}"
        left = [variant for variant in left if _value(variant, field) == wanted]
    return ""


def _value(variant: Variant, field: str) -> str | int | None:
    if field in ("tier", "arch"):
        name: str = getattr(variant, field).name
        return name
    value: str | int | None = getattr(variant.shape, field)
    return value


def _order(value: str | int | None) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (0, str(value))


def _nearest(parts: _Name, planned: Sequence[Variant]) -> tuple[str, ...]:
    """The variants with the fewest other parts, then with the nearest numbers."""

    def distance(variant: Variant) -> tuple[int, int, str]:
        fields = ("cache_dtype", "encoder", *_NUMBERS, "scalar", "tier", "arch")
        pairs = [(getattr(parts, field), _value(variant, field)) for field in fields]
        other = sum(mine != its for mine, its in pairs) + 4 * (variant.kind.name != parts.kind)
        apart = sum(abs(mine - its) for mine, its in pairs if isinstance(mine, int) and isinstance(its, int))
        return other, apart, variant.name

    return tuple(variant.name for variant in sorted(planned, key=distance)[:NEAREST])


def _similar(name: str, planned: Sequence[Variant]) -> tuple[str, ...]:
    """The variants that share the most parts with ``name``, then the most alike."""
    parts = set(name.split("_"))

    def likeness(variant: Variant) -> tuple[int, float]:
        shared = len(parts.intersection(variant.name.split("_")))
        return shared, SequenceMatcher(None, name[:LONGEST], variant.name).ratio()

    return tuple(variant.name for variant in sorted(planned, key=likeness, reverse=True)[:NEAREST])
