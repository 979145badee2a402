"""The Octave codebooks: int8 tables, decision thresholds, and the Lloyd-Max quantizer they come from. Needs no torch.

Relation of the tables to the Lloyd-Max centroids of N(0, 1): the multiplier is the largest integer that keeps the outermost
centroid within int8, MULT = floor(127 / c_max), and an entry is round(MULT * c). All 24 entries follow it; the rounding moves no
centroid by more than 0.46/59 (3 bit) and 0.45/46 (4 bit) of a standard deviation. A threshold is the midpoint of two
neighbouring entries, so both quantizer and dequantizer need only the table.
"""

from __future__ import annotations

import math

LUT_ONE = 64  # a stored scale s and code c stand for LUT[c] * s / LUT_ONE

# int8 value of each code; codes ascend with the value
LUT: dict[int, tuple[int, ...]] = {
    3: (-127, -79, -45, -14, 14, 45, 79, 127),
    4: (-126, -95, -74, -58, -43, -30, -18, -6, 6, 18, 30, 43, 58, 74, 95, 126),
}

# what one standard deviation is in units of the table
LUT_MULT: dict[int, int] = {3: 59, 4: 46}


def thresholds(bits: int) -> tuple[float, ...]:
    """The 2**bits - 1 decision thresholds, ascending, exact in binary; a code is the number of them strictly below y."""
    table = LUT[bits]
    return tuple((a + b) / 2 for a, b in zip(table, table[1:], strict=False))


def lookup_dwords(bits: int) -> tuple[int, ...]:
    """The table as little-endian dwords of four int8, code 0 in the low byte of the first: the operands of v_perm_b32.

    For 3 bits (low, high) are src1 and src0 of one v_perm_b32 whose selector bytes are the codes; for 4 bits dwords 0 and 1 serve
    codes 0-7, dwords 2 and 3 codes 8-15.
    """
    raw = bytes(value & 0xFF for value in LUT[bits])
    return tuple(int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4))


def template_constants() -> dict[str, int]:
    """The codebooks' numbers for templates; the order is fixed. Dwords are unsigned 32-bit."""
    lut3, lut4 = lookup_dwords(3), lookup_dwords(4)
    return {
        "lut_one": LUT_ONE,
        "lut3_mult": LUT_MULT[3],
        "lut4_mult": LUT_MULT[4],
        "lut3_lo": lut3[0],
        "lut3_hi": lut3[1],
        "lut4_dword0": lut4[0],
        "lut4_dword1": lut4[1],
        "lut4_dword2": lut4[2],
        "lut4_dword3": lut4[3],
    }


def lloyd_max(levels: int, tolerance: float = 1e-13) -> tuple[list[float], float]:
    """The Lloyd-Max quantizer of N(0, 1): ascending centroids and the mean squared error, in float64.

    Lloyd's iteration: boundaries are midpoints, a centroid is the mean of its cell, (pdf(a) - pdf(b)) / (cdf(b) - cdf(a)); at the
    fixed point the distortion is 1 - sum of p_i * c_i**2. `levels` is even: the positive half is solved, the other mirrored.
    """
    half = levels // 2
    centroids = [(2 * i + 1) * 2.0 / half for i in range(half)]
    while True:
        edges = [0.0, *((a + b) / 2 for a, b in zip(centroids, centroids[1:], strict=False)), math.inf]
        mass = [_upper_tail(a) - _upper_tail(b) for a, b in zip(edges, edges[1:], strict=False)]
        moved = [(_pdf(a) - _pdf(b)) / p for a, b, p in zip(edges, edges[1:], mass, strict=False)]
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
