"""The keys of a spec of edition 1 as data, and the check of a table against them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import gcd
from typing import Any

from octave_gen import arch
from octave_gen.arch import Arch
from octave_gen.errors import did_you_mean
from octave_gen.formats import CACHE_DTYPES, ENCODERS, FAMILIES
from octave_gen.kernels import KINDS, KernelKind
from octave_gen.kernels.base import MAX_GROUP, SCALARS
from octave_gen.spec.report import Problem, show_key
from octave_gen.spec.shape import chips_of, dims_of, families_of, kinds_of, possible_heads
from octave_gen.spec.unsupported import unsupported
from octave_gen.spec.values import Check, Integer, ListOf, Positive, Tables, Word

EDITION = 1


@dataclass(frozen=True)
class Field:
    """A key and what it can hold. ``fix``: what to write where the key is missing or wrong; ``default``: the value of a
    missing list, none if empty."""

    key: str
    check: Check
    required: bool = True
    fix: str | None = None
    default: tuple[str, ...] = ()


def _arch_refusal(name: str) -> str | None:
    """The reason for a chip that octave-gen knows and does not support."""
    reason = arch.UNSUPPORTED.get(name)
    return f"{name} is not supported: {reason}" if reason else None


_EVERY = "leave the key out to select every {}"
_GROUPS = Integer(1, MAX_GROUP)
_ARCH = Word("arch", tuple(arch.ARCHS), refusal=_arch_refusal)
_CACHE_DTYPE = Word("cache dtype", tuple(CACHE_DTYPES))
_ENCODER = Word("encoder", ENCODERS)
_KERNEL = Word("kernel", tuple(KINDS))


def spec_fields(table: Mapping[str, Any]) -> tuple[Field, ...]:
    """The keys of a spec. The dims of a head depend on the family and the chips that ``table`` names, right or wrong as
    it may be."""
    families = families_of(table)
    sizes = dims_of(families)
    dims = Integer(sizes[0], sizes[-1], multiple=gcd(*sizes))
    return (
        Field("edition", Integer(EDITION, EDITION), fix=f"write edition = {EDITION} as the first line"),
        Field("family", Word("format family", tuple(FAMILIES))),
        Field("cache_dtypes", ListOf(_CACHE_DTYPE)),
        Field("encoders", ListOf(_ENCODER, if_empty=_EVERY.format("encoder")), required=False, default=ENCODERS),
        Field("head_size", replace(dims, offered=possible_heads(families, chips_of(table), kinds_of(table)))),
        Field("rotary_dims", dims),
        Field("gqa_groups", ListOf(_GROUPS)),
        Field("query_groups", ListOf(_GROUPS)),
        Field("query_dtypes", ListOf(Word("query dtype", tuple(SCALARS)))),
        Field("archs", ListOf(_ARCH)),
        Field("kernels", ListOf(_KERNEL, if_empty=_EVERY.format("kernel")), required=False),
        Field("budget", Tables(), fix="write a [[budget]] for every kernel on every arch of the spec"),
    )


SELECTORS = (
    Field("kernel", _KERNEL),
    Field("arch", _ARCH),
    Field("cache_dtypes", ListOf(_CACHE_DTYPE, if_empty=_EVERY.format("cache dtype")), required=False),
    Field("gqa_groups", ListOf(_GROUPS, if_empty=_EVERY.format("group")), required=False),
    Field("query_groups", ListOf(_GROUPS, if_empty=_EVERY.format("group")), required=False),
    Field("encoders", ListOf(_ENCODER, if_empty=_EVERY.format("encoder")), required=False),
)


def tiers_field(kind: KernelKind | None, chip: Arch | None) -> Field:
    """The selector by tier: the tiers of ``kind`` that ``chip`` offers; of every kind or chip where it is not known."""
    kinds = (kind,) if kind else tuple(KINDS.values())
    chips = (chip,) if chip else tuple(arch.ARCHS.values())
    names = dict.fromkeys(tier.name for one in kinds for place in chips for tier in one.tiers_on(place))
    return Field("tiers", ListOf(Word("tier", tuple(names)), if_empty=_EVERY.format("tier")), required=False)


@dataclass(frozen=True)
class Resource:
    """A bound of a budget: a field of ``model.Budget``, its least value, and the most a chip has (None: no limit)."""

    key: str
    low: int
    most: Callable[[Arch], int | None]
    required: bool = True

    def field(self, chip: Arch | None) -> Field:
        """The key and its range on ``chip``; on a chip that is not known only the type and the least value count."""
        bounds = Integer(self.low, self.most(chip), chip=chip.name) if chip else Integer(self.low)
        return Field(self.key, bounds, self.required)


RESOURCES = (
    Resource("vgprs", 1, lambda chip: chip.max_vgprs),
    Resource("agprs", 0, lambda chip: chip.max_vgprs // 2 if chip.unified_registers else 0),
    Resource("sgprs", 1, lambda chip: chip.max_sgprs),
    Resource("lds_bytes", 0, lambda chip: chip.max_workgroup_lds),
    Resource("occupancy", 1, lambda chip: chip.max_waves_per_simd),
    Resource("vgpr_spills", 0, lambda chip: None, required=False),
    Resource("sgpr_spills", 0, lambda chip: None, required=False),
    Resource("scratch_bytes", 0, lambda chip: None, required=False),
)


WORK = {
    "store": "slot",
    "rotate": "vector",
    "decode": "token",
    "reduce": "split",
    "prefill_prefix": "token",
    "prefill_chunk": "key",
}
"""The unit of work that the kernels of a kind are counted per: a slot stored, a vector rotated, a token of context read
for one kv head, a KV split merged into one row; for prefill 128 query vectors of a kv head meeting one token, of the
packed prefix or of the chunk (its key)."""

COUNTS = ("valu", "clocks")
"""The fields of ``model.CountedBudget``."""


def count_key(count: str, kernel: str) -> str:
    """The key of a counted budget, such as ``valu_per_token`` for decode."""
    return f"{count}_per_{WORK[kernel]}"


def count_fields(kernel: str | None) -> tuple[Field, ...]:
    """The keys of counted budgets: those of ``kernel``, or of every kernel when it is not known."""
    kernels = (kernel,) if kernel else tuple(WORK)
    return tuple(Field(count_key(count, name), Positive(), required=False) for name in kernels for count in COUNTS)


@dataclass(frozen=True)
class Checked:
    """A table after its check. ``values``: the keys whose value is right. ``doubtful``: keys that are wrong, missing or
    misspelt; what depends on them is not judged, so that one mistake is reported once."""

    values: Mapping[str, Any]
    doubtful: frozenset[str]
    problems: tuple[Problem, ...]


def check_table(table: Mapping[str, Any], fields: Sequence[Field], prefix: str = "") -> Checked:
    """Checks the keys of ``table`` against ``fields``: unknown ones first, then each field in order.

    prefix: what stands before a key in the report, such as ``budget[2].``.
    """
    problems, misspelt = _unknown_keys(table, tuple(field.key for field in fields), prefix)
    values: dict[str, Any] = {}
    doubtful = set(misspelt)
    for field in fields:
        found = [replace(p, fix=p.fix or field.fix) for p in _field_problems(table, field, prefix, misspelt)]
        problems += found
        if found:
            doubtful.add(field.key)
        elif field.key in table:
            values[field.key] = table[field.key]
        elif field.default:
            values[field.key] = list(field.default)
    return Checked(values, frozenset(doubtful), tuple(problems))


def _field_problems(table: Mapping[str, Any], field: Field, prefix: str, misspelt: set[str]) -> Iterator[Problem]:
    if field.key in table:
        yield from field.check.problems(prefix + field.key, table[field.key])
    elif field.required and field.key not in misspelt:
        yield Problem(prefix + field.key, "missing", field.check.allowed)


def _unknown_keys(table: Mapping[str, Any], known: tuple[str, ...], prefix: str) -> tuple[list[Problem], set[str]]:
    """The problems of unknown keys, and the known keys that they probably stand for."""
    problems: list[Problem] = []
    misspelt: set[str] = set()
    for key in table:
        if key in known:
            continue
        reason = None if prefix else unsupported(key)
        if reason:
            problems.append(Problem(show_key(key), reason))
            continue
        absent = tuple(k for k in known if k not in table)
        misspelt.update(get_close_matches(key.lower(), absent, n=1))
        near = did_you_mean(key.lower(), absent, limit=1) or did_you_mean(key.lower(), known)
        problems.append(Problem(prefix + show_key(key), f"unknown key{near}", ", ".join(known)))
    return problems, misspelt
