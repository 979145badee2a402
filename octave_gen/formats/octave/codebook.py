"""The Octave codebooks: int8 tables, decision thresholds, and the Lloyd-Max quantizer they come from. Needs no torch.

Relation of the tables to the Lloyd-Max centroids of N(0, 1): the multiplier is the largest integer that keeps the
outermost centroid within int8, MULT = floor(127 / c_max), and an entry is round(MULT * c). All 24 entries follow it;
the rounding moves MULT * c by at most 0.461 (3 bit) and 0.431 (4 bit) of a table step. A threshold is the midpoint of
two neighbouring entries, so both quantizer and dequantizer need only the table.
"""

from __future__ import annotations

import math
from itertools import pairwise

from octave_gen.formats.base import c_name, render_c_ints

LUT_ONE = 64  # a stored scale s and code c stand for LUT[c] * s / LUT_ONE

# int8 value of each code; codes ascend with the value
LUT: dict[int, tuple[int, ...]] = {
    3: (-127, -79, -45, -14, 14, 45, 79, 127),
    4: (-126, -95, -74, -58, -43, -30, -18, -6, 6, 18, 30, 43, 58, 74, 95, 126),
}

# what one standard deviation is in units of the table
LUT_MULT: dict[int, int] = {3: 59, 4: 46}


def thresholds(bits: int) -> tuple[float, ...]:
    """The 2**bits - 1 decision thresholds, ascending, exact; a code is the number of them strictly below y."""
    table = LUT[bits]
    return tuple((a + b) / 2 for a, b in pairwise(table))


def lookup_dwords(bits: int) -> tuple[int, ...]:
    """The table as little-endian dwords of four int8, code 0 in the low byte of the first: the operands of v_perm_b32.

    For 3 bits (low, high) are src1 and src0 of one v_perm_b32 whose selector bytes are the codes; for 4 bits dwords 0
    and 1 serve codes 0-7, dwords 2 and 3 codes 8-15.
    """
    raw = bytes(value & 0xFF for value in LUT[bits])
    return tuple(int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4))


def c_constants() -> str:
    """The codebooks as members of a C++ struct: numbers, dwords, then thresholds and int8 tables as arrays."""
    text = render_c_ints({"lut_one": LUT_ONE, "lut3_mult": LUT_MULT[3], "lut4_mult": LUT_MULT[4]})
    text += "".join(
        f"static constexpr unsigned {c_name(name)} = 0x{value:08x}u;\n" for name, value in _dwords().items()
    )
    for bits, table in LUT.items():
        limits = ", ".join(f"{limit}f" for limit in thresholds(bits))
        entries = ", ".join(map(str, table))
        text += f"static constexpr float {c_name(f'thresholds{bits}')}[{len(table) - 1}] = {{{limits}}};\n"
        text += f"static constexpr signed char {c_name(f'lut{bits}')}[{len(table)}] = {{{entries}}};\n"
    return text


def _dwords() -> dict[str, int]:
    lut3, lut4 = lookup_dwords(3), lookup_dwords(4)
    names = ("lut3_lo", "lut3_hi", "lut4_dword0", "lut4_dword1", "lut4_dword2", "lut4_dword3")
    return dict(zip(names, lut3 + lut4, strict=True))


def lloyd_max(levels: int, tolerance: float = 1e-13) -> tuple[list[float], float]:
    """The Lloyd-Max quantizer of N(0, 1): ascending centroids and the mean squared error, in float64.

    Lloyd's iteration: boundaries are midpoints, a centroid is the mean of its cell, (pdf(a) - pdf(b)) / (cdf(b) -
    cdf(a)); at the fixed point the distortion is 1 - sum of p_i * c_i**2. `levels` is even: the positive half is
    solved, the other mirrored.
    """
    half = levels // 2
    centroids = [(2 * i + 1) * 2.0 / half for i in range(half)]
    while True:
        edges = [0.0, *((a + b) / 2 for a, b in pairwise(centroids)), math.inf]
        mass = [_upper_tail(a) - _upper_tail(b) for a, b in pairwise(edges)]
        moved = [(_pdf(a) - _pdf(b)) / p for (a, b), p in zip(pairwise(edges), mass, strict=True)]
        step = max(abs(new - old) for new, old in zip(moved, centroids, strict=True))
        centroids = moved
        if step < tolerance:
            break
    distortion = 1.0 - 2.0 * sum(p * c * c for p, c in zip(mass, centroids, strict=True))
    return [-c for c in reversed(centroids)] + centroids, distortion


def _pdf(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _upper_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2
