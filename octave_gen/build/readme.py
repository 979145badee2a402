"""The tables of README.md that the plan, the archs and the settings decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from octave_gen import settings
from octave_gen.arch import ARCHS
from octave_gen.build.blocks import Blocks, table
from octave_gen.evidence import evidence_words
from octave_gen.kernels.base import SCALARS
from octave_gen.manifest import slot_bytes
from octave_gen.plan import Variant
from octave_gen.spec.fields import WORK

FILE_NAME: Final = "README.md"

_COLUMNS: Final = (
    "kernel",
    "cache dtype",
    "slot bytes",
    "head",
    "rotary",
    "encoders",
    "GQA groups",
    "query groups",
    "query dtypes",
    "tier",
    "arch",
)
_COUNTED_GROUP: Final = 6
_COUNTED_DTYPE: Final = "fp16"
_COUNTED_COLUMNS: Final = ("kernel", "per", "arch", "tier", "encoder", "query group", "VALU", "clocks", "HBM clocks")
_MERGED: Final = ("query dtypes", "encoders", "GQA groups", "query groups", "tier", "arch")
"""Columns that may hold several values, in the order in which rows that agree on all others are merged."""

Row = tuple[tuple[str, ...], ...]


def variant_table(planned: Iterable[Variant]) -> str:
    """Rows that are full products of their cells; together they are exactly the plan."""
    rows: list[Row] = [_row(variant) for variant in planned]
    for column in _MERGED:
        at = _COLUMNS.index(column)
        merged: dict[Row, tuple[str, ...]] = {}
        for row in rows:
            others = (*row[:at], *row[at + 1 :])
            merged[others] = (*merged.get(others, ()), *row[at])
        rows = [(*others[:at], _sorted(values), *others[at:]) for others, values in merged.items()]
    return table(_COLUMNS, [[", ".join(cell) for cell in row] for row in rows])


def _row(variant: Variant) -> Row:
    shape, size = variant.shape, slot_bytes(variant)
    cells = (
        variant.kind.name,
        shape.cache_dtype,
        size,
        shape.head_size,
        shape.rotary_dims,
        shape.encoder,
        shape.gqa_group,
        shape.query_group,
        shape.scalar,
        variant.tier.name,
        variant.arch.name,
    )
    return tuple(("",) if cell is None else (str(cell),) for cell in cells)


def _sorted(values: Sequence[str]) -> tuple[str, ...]:
    """Numbers by value, words in the order of the plan."""
    unique = tuple(dict.fromkeys(values))
    return tuple(sorted(unique, key=int)) if all(value.isdecimal() for value in unique) else unique


def counted_table(planned: Iterable[Variant]) -> str:
    """The counted budgets of the largest head with gqa_group 6 and fp16 queries, cache dtypes side by side; beside
    the clocks those that HBM takes for the slot that is read."""
    rows: dict[tuple[str, ...], list[Variant]] = {}
    for variant in _counted(planned):
        kind, shape = variant.kind.name, variant.shape
        choices = (shape.encoder or "", str(shape.query_group or ""))
        key = (kind, WORK[kind], variant.arch.name, variant.tier.name, *choices)
        rows.setdefault(key, []).append(variant)
    return table(_COUNTED_COLUMNS, [[*key, *_counts(group)] for key, group in rows.items()])


def counted_legend(planned: Iterable[Variant]) -> str:
    """Which variants the counted table is of, and in which order the figures of a cell are; empty where there are
    none."""
    variants = _counted(planned)
    if not variants:
        return ""
    heads = ", ".join(dict.fromkeys(str(variant.shape.head_size) for variant in variants))
    dtypes = " / ".join(dict.fromkeys(v.shape.cache_dtype for v in variants if v.shape.cache_dtype))
    return (
        f"Heads of {heads} with GQA groups of {_COUNTED_GROUP}, {_COUNTED_DTYPE}; cache dtypes {dtypes}, one figure "
        "where one bound holds for all.\n"
    )


def _counted(planned: Iterable[Variant]) -> list[Variant]:
    scalar = SCALARS[_COUNTED_DTYPE]
    variants = [v for v in planned if v.shape.scalar == scalar and v.shape.gqa_group in (None, _COUNTED_GROUP)]
    largest = max((variant.shape.head_size for variant in variants), default=0)
    return [v for v in variants if v.shape.head_size == largest and v.counted.clocks is not None]


def _counts(variants: Sequence[Variant]) -> list[str]:
    reads = WORK[variants[0].kind.name] == "token"
    hbm = [(slot_bytes(v) or 0) / v.arch.costs.hbm_bytes for v in variants if reads]
    bounds = ([v.counted.valu for v in variants], [v.counted.clocks for v in variants])
    texts = [["–" if bound is None else f"{bound:g}" for bound in column] for column in bounds]
    texts.append([f"{clocks:.0f}" if clocks >= 100 else f"{clocks:.3g}" for clocks in hbm])
    return [" / ".join(text if len(set(text)) > 1 else text[:1]) for text in texts]


def arch_table() -> str:
    """The supported chips and what is known of their kernels."""
    head = ("arch", "family", "product", "wave", "tiers", "evidence")
    chips = ARCHS.values()
    return table(
        head, [[c.name, c.family, c.product, str(c.wave_size), ", ".join(c.tiers), evidence_words(c)] for c in chips]
    )


def environment_table() -> str:
    """The environment variables that are read."""
    return table(("variable", "meaning"), [[f"`{name}`", text] for name, text in settings.VARIABLES.items()])


def blocks(planned: Sequence[Variant]) -> Blocks:
    """The README's blocks."""
    return {
        "variants": lambda: variant_table(planned),
        "counted": lambda: "\n".join(filter(None, (counted_legend(planned), counted_table(planned)))),
        "archs": arch_table,
        "environment": environment_table,
    }
