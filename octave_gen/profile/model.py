"""The issue model: for how many clocks of one CU each part of the chip is busy with one unit of work.

It counts and does not time: no latency, no waits, no cache, no efficiency of HBM. An instruction keeps its SIMD busy
for the clocks that ``arch.IssueCosts`` states, the work is spread over all SIMDs of the CU, and the parts of the chip
run side by side (but VALU and matrix instructions, on chips where those share their SIMD).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from octave_gen.arch import MATRIX_LAYOUTS, IssueCosts
from octave_gen.profile.counts import Counts

STATEMENT: Final = "A counted issue model, not timing: latency, waits, caches and the efficiency of HBM are not in it."


@dataclass(frozen=True)
class Clocks:
    """Clocks of one CU for one unit of work.

    hbm: for the bytes that the work must move, at the CU's share of the bandwidth; valu: vector instructions, of which
    transcendental are; lds: the larger of bytes and bank conflicts; overlap: whether matrix work runs beside valu.
    """

    hbm: float
    valu: float
    transcendental: float
    matrix: float
    lds: float
    overlap: bool

    @property
    def terms(self) -> dict[str, float]:
        """The parts of the chip that run side by side, by name."""
        if self.overlap:
            return {"HBM": self.hbm, "VALU": self.valu, "matrix": self.matrix, "LDS": self.lds}
        name = "VALU+matrix" if self.matrix else "VALU"
        return {"HBM": self.hbm, name: self.valu + self.matrix, "LDS": self.lds}

    @property
    def bound(self) -> str:
        """The name of the largest term; HBM where another is no larger."""
        terms = self.terms
        return max(terms, key=lambda name: terms[name])

    @property
    def issue(self) -> float:
        """What the CU needs beside HBM when VALU and matrix instructions do not overlap."""
        return max(self.valu + self.matrix, self.lds)

    @property
    def share(self) -> float:
        """The share of the HBM roofline, 1 when nothing takes longer than HBM."""
        return self.hbm / max(self.terms.values())

    @property
    def share_without_overlap(self) -> float:
        """The same, with VALU and matrix instructions one after another."""
        return self.hbm / max(self.hbm, self.issue)


def clocks(counts: Counts, least_bytes: float, costs: IssueCosts) -> Clocks:
    """The model's clocks for ``counts`` of one unit of work that must move ``least_bytes`` of HBM."""
    slow = counts.transcendental + counts.multiply
    matrix = sum(number * costs.matrix(MATRIX_LAYOUTS[name]) for name, number in counts.matrix.items())
    return Clocks(
        hbm=least_bytes / costs.hbm_bytes,
        valu=((counts.valu - slow) * costs.valu + slow * costs.quarter_rate) / costs.simds,
        transcendental=counts.transcendental * costs.quarter_rate / costs.simds,
        matrix=matrix / costs.simds,
        lds=max(counts.lds_bytes / costs.lds_bytes, counts.lds_clocks),
        overlap=costs.matrix_overlaps_valu,
    )
