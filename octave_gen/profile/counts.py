"""What a kernel executes: sums over a launch, and averages for one unit of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from octave_gen.arch import MATRIX_LAYOUTS, QUARTER_RATE_MULTIPLIES
from octave_gen.isa import Counters


@dataclass(frozen=True)
class Counts:
    """Instructions are counted once for each wave that executes them.

    valu: all vector arithmetic but matrix instructions; transcendental and multiply (32-bit integer ones) are those of
    them at a quarter of the rate. vmem_bytes, lds_bytes: what the active lanes ask for. lds_clocks: for which the
    banks of the LDS are busy, one access after another. matrix: by mnemonic.
    """

    valu: float = 0.0
    transcendental: float = 0.0
    multiply: float = 0.0
    salu: float = 0.0
    smem: float = 0.0
    vmem: float = 0.0
    vmem_bytes: float = 0.0
    lds: float = 0.0
    lds_bytes: float = 0.0
    lds_clocks: float = 0.0
    branch: float = 0.0
    barrier: float = 0.0
    other: float = 0.0
    matrix: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, counters: Counters) -> Counts:
        """The sums of one launch."""
        kinds, names = counters.instructions, counters.histogram
        matrix = {name: float(count) for name, count in names.items() if name in MATRIX_LAYOUTS}
        assert sum(matrix.values()) == kinds["matrix"]
        return cls(
            valu=kinds["valu"] + kinds["transcendental"],
            transcendental=kinds["transcendental"],
            multiply=sum(count for name, count in names.items() if name in QUARTER_RATE_MULTIPLIES),
            salu=kinds["salu"],
            smem=kinds["smem"],
            vmem=kinds["vmem"],
            vmem_bytes=counters.vmem_bytes,
            lds=kinds["lds"],
            lds_bytes=counters.lds_bytes,
            lds_clocks=counters.lds_cycles,
            branch=kinds["branch"],
            barrier=kinds["barrier"],
            other=kinds["other"],
            matrix=matrix,
        )

    @property
    def matrices(self) -> float:
        """All matrix instructions."""
        return sum(self.matrix.values())

    def __sub__(self, other: Counts) -> Counts:
        return self._with(other, -1.0)

    def _with(self, other: Counts, factor: float) -> Counts:
        """``self + factor * other``."""
        plain = {
            item.name: getattr(self, item.name) + factor * getattr(other, item.name)
            for item in fields(self)
            if item.name != "matrix"
        }
        names = sorted({*self.matrix, *other.matrix})
        matrix = {name: self.matrix.get(name, 0.0) + factor * other.matrix.get(name, 0.0) for name in names}
        return Counts(**plain, matrix=matrix)

    def times(self, factor: float) -> Counts:
        return Counts()._with(self, factor)


@dataclass(frozen=True)
class Counted:
    """``each``: one unit of work; ``prologue``: what a launch executes whatever its length."""

    each: Counts
    prologue: Counts


def by_difference(shorter: Counts, longer: Counts, lengths: tuple[int, int]) -> Counted:
    """Splits two launches of one kernel, which hold ``lengths`` units of work, into prologue and units of work.

    What the longer launch executes beyond the shorter is its further units, so prologue and epilogue cancel.
    """
    few, many = lengths
    share = 1.0 / (many - few)
    return Counted((longer - shorter).times(share), (shorter.times(many) - longer.times(few)).times(share))
