"""Head size, rotary dims and cache dtypes together: what the format family and the kernels' tiers can hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from octave_gen.arch import ARCHS, Arch
from octave_gen.formats import FAMILIES, Family
from octave_gen.kernels import KINDS, KernelKind
from octave_gen.kernels.base import SCALARS, Shape
from octave_gen.spec.report import Problem

NEEDS = ("family", "cache_dtypes", "head_size", "rotary_dims")


def families_of(table: Mapping[str, Any]) -> tuple[Family, ...]:
    """The family that a spec names, or every family where it names none that exists."""
    name = table.get("family")
    return (FAMILIES[name],) if isinstance(name, str) and name in FAMILIES else tuple(FAMILIES.values())


def chips_of(table: Mapping[str, Any]) -> tuple[Arch, ...]:
    """The chips that a spec names, or every chip where it names none that exists."""
    names = table.get("archs")
    named = tuple(ARCHS[n] for n in names if isinstance(n, str) and n in ARCHS) if isinstance(names, list) else ()
    return named or tuple(ARCHS.values())


def kinds_of(table: Mapping[str, Any]) -> tuple[KernelKind, ...]:
    """The kernel kinds that a spec asks for: all where it names none that exists."""
    names = table.get("kernels")
    named = tuple(kind for name, kind in KINDS.items() if name in names) if isinstance(names, list) else ()
    return named or tuple(KINDS.values())


def dims_of(families: Sequence[Family]) -> list[int]:
    """What head_size and rotary_dims can be in one of the families, ascending; not every pair of them is a shape."""
    return sorted(
        {dims for family in families for dims in range(family.block_dims, family.max_head_size + 1, family.block_dims)}
    )


def possible_heads(families: Sequence[Family], chips: Sequence[Arch], kinds: Sequence[KernelKind]) -> tuple[int, ...]:
    """The head sizes that one of the families stores with some rotary dims and that every kind has a tier for."""
    return tuple(
        head_size
        for head_size in dims_of(families)
        if any(_possible_rotary(f, head_size) and not _refusals_of_tiers(f, head_size, chips, kinds) for f in families)
    )


def check_shape(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of keys that are right one by one; ``values`` holds those, and what depends on another is not judged.

    A head that no tier holds is wrong itself; else a shape that the family refuses for each of its dtypes is, in its
    rotary dims; else every dtype that cannot hold it is.
    """
    if "family" not in values or "head_size" not in values:
        return
    family, head_size = FAMILIES[values["family"]], values["head_size"]
    chips, kinds = chips_of(values), kinds_of(values)
    unheld = _refusals_of_tiers(family, head_size, chips, kinds)
    if unheld:
        held = [kind.name for kind in kinds if not _refusals_of_tiers(family, head_size, chips, (kind,))]
        fix = f"to leave the others out, write kernels = {json.dumps(held)}" if held else None
        yield Problem("head_size", "; ".join(unheld), _list(possible_heads((family,), chips, kinds)), fix)
        return
    if any(key not in values for key in NEEDS):
        return
    reasons = _refusals(family, head_size, values["rotary_dims"])
    fitting = [name for name, reason in reasons.items() if reason is None]
    if not fitting:
        allowed = _list(_possible_rotary(family, head_size)) or f"none with head_size {head_size}"
        yield Problem("rotary_dims", str(next(iter(reasons.values()))), allowed)
        return
    for index, name in enumerate(values["cache_dtypes"]):
        reason = reasons.get(name, f"not a dtype of the family {family.name}")
        if reason:
            yield Problem(f"cache_dtypes[{index}]", f"{name}: {reason}", ", ".join(fitting))


def _refusals(family: Family, head_size: int, rotary_dims: int) -> dict[str, str | None]:
    return {dtype.name: family.refuse(head_size, rotary_dims, dtype) for dtype in family.cache_dtypes}


def _possible_rotary(family: Family, head_size: int) -> list[int]:
    return [dims for dims in dims_of((family,)) if None in _refusals(family, head_size, dims).values()]


def _refusals_of_tiers(
    family: Family, head_size: int, chips: Sequence[Arch], kinds: Sequence[KernelKind]
) -> tuple[str, ...]:
    """The kinds that have no tier for the head on one of the chips, even with groups of 1 and whatever the dtype, and
    why, reason by reason."""
    found: dict[str | None, dict[str, None]] = {}
    for kind, chip in product(kinds, chips):
        smallest = Shape(family.name, head_size, next(iter(SCALARS.values())))
        values = {"rotary_dims": family.block_dims, "gqa_group": 1, "query_group": 1}
        chosen: dict[str, Any] = {name: value for name, value in values.items() if name in kind.fields}
        reasons = [
            tier.refuse(replace(smallest, **chosen, cache_dtype=name), chip)
            for tier in kind.tiers_on(chip)
            for name in ([d.name for d in family.cache_dtypes] if "cache_dtype" in kind.fields else [None])
        ]
        for reason in reasons if all(reasons) else []:
            found.setdefault(reason, {})[kind.name] = None
    return tuple(f"{', '.join(kinds)}: {reason}" for reason, kinds in found.items())


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
