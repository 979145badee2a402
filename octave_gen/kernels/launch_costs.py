"""What launches cost, as counted from the shipped kernels: the figures that the choice of KV splits rests on.

The figures are the lines of ``launch_costs.csv`` beside this module. ``python -m octave_gen.profile.recount`` counts
them anew from a build; a test compares a variant with a fresh count.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from octave_gen.errors import OctaveError

FILE = Path(__file__).with_suffix(".csv")
ANY = "*"
"""In the column of the cache dtype: all of them."""
RECOUNT = "python -m octave_gen.profile.recount"


@dataclass(frozen=True)
class LaunchCosts:
    """One kernel: which it is, and what its workgroups take.

    rows: query vectors that a workgroup serves. waves: of a workgroup; occupancy: per SIMD. The work of a workgroup is
    a number of passes over ``units`` of it each (tokens of context; KV splits for reduce) and what comes before and
    after. ``*_issue``: clocks for which it keeps the SIMDs of its CU (gfx11: WGP) busy; ``*_latency``: clocks that it
    takes when it has them to itself and memory answers after 1000.
    """

    kind: str
    arch: str
    tier: str
    head_size: int
    cache_dtype: str
    rows: int
    waves: int
    occupancy: int
    units: int
    launch_issue: float
    pass_issue: float
    launch_latency: float
    pass_latency: float

    @property
    def key(self) -> tuple[str, str, str, int, str, int, int]:
        return self.kind, self.arch, self.tier, self.head_size, self.cache_dtype, self.rows, self.waves


def read(file: Path = FILE) -> list[LaunchCosts]:
    """The lines of a file of :func:`write`."""
    with file.open(newline="", encoding="utf-8") as lines:
        return [_parsed(line) for line in csv.DictReader(lines)]


def write(costs: Iterable[LaunchCosts], file: Path = FILE) -> None:
    """Writes the lines in a fixed order."""
    names = [field.name for field in fields(LaunchCosts)]
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_shown(getattr(one, name)) for name in names] for one in sorted(costs, key=lambda c: c.key))


def _shown(value: str | float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _parsed(line: dict[str, str]) -> LaunchCosts:
    types = {field.name: {"int": int, "float": float, "str": str}[str(field.type)] for field in fields(LaunchCosts)}
    values: dict[str, Any] = {name: types[name](text) for name, text in line.items()}
    return LaunchCosts(**values)


@cache
def _table() -> dict[tuple[str, str, str], list[LaunchCosts]]:
    table: dict[tuple[str, str, str], list[LaunchCosts]] = {}
    for one in read():
        table.setdefault((one.kind, one.arch, one.tier), []).append(one)
    return table


@cache
def launch_costs(
    kind: str, arch: str, tier: str, head_size: int, cache_dtype: str, rows: int, waves: int
) -> LaunchCosts:
    """The figures for a kernel: of the next larger number of rows that was counted, and of the nearest head size.

    Raises OctaveError where the tier was not counted on the chip with so many waves a workgroup.
    """
    lines = _table().get((kind, arch, tier), ())
    counted = [c for c in lines if c.cache_dtype in (cache_dtype, ANY) and c.waves == waves]
    if not counted:
        raise OctaveError(
            f"the {tier} tier of {kind} with {waves} waves was not counted on {arch} for {cache_dtype}",
            where=str(FILE),
            hint=RECOUNT,
        )
    nearest = min((c.head_size for c in counted), key=lambda head: (abs(head - head_size), head))
    of_head = sorted((c for c in counted if c.head_size == nearest), key=lambda c: c.rows)
    return next((c for c in of_head if c.rows >= rows), of_head[-1])
