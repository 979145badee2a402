"""Head size, rotary dims and cache dtypes together: what the format family can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from octave_gen.formats import FAMILIES, Family
from octave_gen.formats.octave.layout import BLOCK_DIMS, MAX_HEAD_SIZE
from octave_gen.spec.report import Problem

NEEDS = ("family", "cache_dtypes", "head_size", "rotary_dims")


def check_shape(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of keys that are right one by one; ``values`` holds those, and without all four nothing is judged.

    A shape that the family refuses for each of its dtypes is wrong itself; else every dtype that cannot hold it is.
    """
    if any(key not in values for key in NEEDS):
        return
    family, head_size = FAMILIES[values["family"]], values["head_size"]
    reasons = _refusals(family, head_size, values["rotary_dims"])
    fitting = [name for name, reason in reasons.items() if reason is None]
    if not fitting:
        sizes = range(BLOCK_DIMS, MAX_HEAD_SIZE + 1, BLOCK_DIMS)
        possible = [str(size) for size in sizes if None in _refusals(family, head_size, size).values()]
        allowed = ", ".join(possible) or f"none with head_size {head_size}"
        yield Problem("rotary_dims", str(next(iter(reasons.values()))), allowed)
        return
    for index, name in enumerate(values["cache_dtypes"]):
        reason = reasons.get(name, f"not a dtype of the family {family.name}")
        if reason:
            yield Problem(f"cache_dtypes[{index}]", f"{name}: {reason}", ", ".join(fitting))


def _refusals(family: Family, head_size: int, rotary_dims: int) -> dict[str, str | None]:
    return {dtype.name: family.refuse(head_size, rotary_dims, dtype) for dtype in family.cache_dtypes}
