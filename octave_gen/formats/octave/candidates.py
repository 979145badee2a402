"""What the encoder `search` chooses from, as integers and exact fp32 numbers; `search` states the arithmetic. Needs no
torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from octave_gen.formats.octave.codebook import LUT, thresholds

ROUNDING = Fraction(1, 8)
"""A bin begins where |q| / s does, but |q| / s is |y| rounded to quarters: 1/8 below."""
RANK_BITS = 4
"""A kernel keeps the rank of the candidate in these low bits of the metric."""


def steps_per_unit(dims: int) -> int:
    """s: the steps of q in a unit of the codebook, so that the sum of |q| over a block of so many dims has 16 bits."""
    return 4 if dims <= 256 else 2


@dataclass(frozen=True)
class Candidates:
    """Candidate c has the factor numerators[c] / denominator; of equally good ones the first is taken.

    bins: of the histogram, each ``width`` units of the codebook wide; the last holds all that is larger, too.
    """

    numerators: tuple[int, ...]
    denominator: int
    bins: int
    width: int = 1

    @property
    def factors(self) -> tuple[float, ...]:
        """fp32 numbers where the denominator is a power of two."""
        return tuple(numerator / self.denominator for numerator in self.numerators)

    def starts(self, bits: int) -> tuple[tuple[int, ...], ...]:
        """For each candidate the first bin above each positive threshold, ascending."""
        limits = [Fraction(limit) for limit in thresholds(bits) if limit > 0]
        factors = [Fraction(numerator, self.denominator) for numerator in self.numerators]
        return tuple(
            tuple(min(round((limit * factor + ROUNDING) / self.width), self.bins - 1) for limit in limits)
            for factor in factors
        )


CANDIDATES = Candidates((*range(32, 40), *range(24, 32)), 32, bins=128)
"""1 first, so that a search that finds nothing better is nearly the plain encoder."""


def gains(bits: int) -> tuple[tuple[int, int], ...]:
    """(l, l^2) of the smallest positive level l of the codebook, then what each next level has more of both."""
    levels = [(level, level * level) for level in LUT[bits] if level > 0]
    return (levels[0], *((b - a, d - c) for (a, c), (b, d) in pairwise(levels)))


_INTEGERS = 1.5 * 2.0**23
"""What a kernel adds to x * r: fp32 numbers lie one apart there."""


def c_constants() -> str:
    """The tables as members of a C++ struct, each for the 3-bit codes, then the 4-bit ones; rows are filled up with 0.

    kSearchStarts: of each candidate its `starts`, as offsets in bytes. kSearchGains: `gains`, the level's in the lower
    half of a word, the square's in the upper one. kSearchRows: of each code its value and the threshold above it, what
    is added before the threshold is rounded, and what the integer threshold counts from.
    """
    starts = [[_row([4 * start for start in row]) for row in CANDIDATES.starts(bits)] for bits in LUT]
    words = [_row([square << 16 | level for level, square in gains(bits)]) for bits in LUT]
    rows = [
        (float(value), limit, *_rounding_and_base(limit))
        for bits in LUT
        for value, limit in zip(LUT[bits], (*thresholds(bits), 0.0), strict=True)
    ]
    tables = {
        f"unsigned short kSearchStarts[{len(starts)}][{len(CANDIDATES.numerators)}][8]": [
            ",\n     ".join(table).join("{}") for table in starts
        ],
        f"unsigned kSearchGains[{len(words)}][8]": words,
        f"float kSearchRows[{len(rows)}][4]": [", ".join(f"{x.hex()}f" for x in row).join("{}") for row in rows],
    }
    return "".join(
        f"static constexpr {name} = {{\n    {(',' + chr(10) + '    ').join(body)}}};\n" for name, body in tables.items()
    )


def _row(numbers: list[int]) -> str:
    return ", ".join(map(str, (*numbers, *(0,) * (8 - len(numbers))))).join("{}")


def _rounding_and_base(limit: float) -> tuple[float, float]:
    """Integers above s * t exceed s * t - 1, those above -s * t exceed it as it is; those above 0 exceed 0."""
    if limit == 0:
        return 0.0, _INTEGERS
    return (float(ROUNDING), _INTEGERS - 1) if limit > 0 else (-float(ROUNDING), _INTEGERS)
