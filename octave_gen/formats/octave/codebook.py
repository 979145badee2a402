"""The Octave codebooks: int8 tables and decision thresholds. Needs no torch.

Relation of the tables to the Lloyd-Max centroids of N(0, 1): the multiplier is the largest integer that keeps the
outermost centroid within int8, MULT = floor(127 / c_max), and an entry is round(MULT * c). All 24 entries follow it;
the rounding moves MULT * c by at most 0.461 (3 bit) and 0.431 (4 bit) of a table step. A threshold is the midpoint of
two neighbouring entries, so both quantizer and dequantizer need only the table.
"""

from __future__ import annotations

import struct
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


def cuts(bits: int) -> tuple[tuple[float, float, float], ...]:
    """The thresholds in units of rms: (c, h, step) of each, fp32 numbers.

    fp32(fp32(x / rms) * LUT_MULT) exceeds the threshold where fp32(x / rms) > c. h is half the way from c to the next
    fp32 number, so that the condition is x / rms > c + h in real numbers: the product of an fp32 rms with those 25 bits
    is no fp32 number, and x / rms is never halfway. fp32(p + step * p) is the fp32 number below p, for a normal p of
    c's sign. The cut at zero is (0, 0, 0): the real one, 2**-150, is no fp32 number.
    """
    return tuple(_cut(limit, LUT_MULT[bits]) for limit in thresholds(bits))


def _cut(limit: float, multiplier: int) -> tuple[float, float, float]:
    if limit == 0:
        return 0.0, 0.0, 0.0
    cut = _fp32(limit / multiplier)
    while _fp32(cut * multiplier) <= limit:
        cut = _next_fp32(cut, 1)
    while _fp32(cut * multiplier) > limit:
        cut = _next_fp32(cut, -1)
    return cut, (_next_fp32(cut, 1) - cut) / 2, -(2.0**-24) if cut > 0 else 1.5 * 2.0**-24


def _fp32(x: float) -> float:
    """x rounded to fp32; the products above are exact in fp64."""
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def _next_fp32(x: float, direction: int) -> float:
    """The fp32 number next to x, which is not 0, above (direction 1) or below (-1)."""
    (word,) = struct.unpack("<i", struct.pack("<f", x))
    return float(struct.unpack("<f", struct.pack("<i", word + (direction if x > 0 else -direction)))[0])


def lookup_dwords(bits: int) -> tuple[int, ...]:
    """The table as little-endian dwords of four int8, code 0 in the low byte of the first: the operands of v_perm_b32.

    For 3 bits (low, high) are src1 and src0 of one v_perm_b32 whose selector bytes are the codes; for 4 bits dwords 0
    and 1 serve codes 0-7, dwords 2 and 3 codes 8-15.
    """
    raw = bytes(value & 0xFF for value in LUT[bits])
    return tuple(int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4))


def c_constants() -> str:
    """The codebooks as members of a C++ struct: numbers, dwords, and rows of four floats for the 3-bit codes, then the
    4-bit ones: a code's value, and the cut above it (see `cuts`).
    """
    text = render_c_ints({"lut_one": LUT_ONE, "lut3_mult": LUT_MULT[3], "lut4_mult": LUT_MULT[4]})
    text += "".join(
        f"static constexpr unsigned {c_name(name)} = 0x{value:08x}u;\n" for name, value in _dwords().items()
    )
    rows = [(value, *cut) for bits in LUT for value, cut in zip(LUT[bits], (*cuts(bits), (0.0, 0.0, 0.0)), strict=True)]
    body = ",\n".join(
        f"    {{{float(value).hex()}f, {c.hex()}f, {h.hex()}f, {step.hex()}f}}" for value, c, h, step in rows
    )
    text += f"static constexpr float kCodebook[{len(rows)}][4] = {{\n{body}}};\n"
    return text


def _dwords() -> dict[str, int]:
    lut3, lut4 = lookup_dwords(3), lookup_dwords(4)
    names = ("lut3_lo", "lut3_hi", "lut4_dword0", "lut4_dword1", "lut4_dword2", "lut4_dword3")
    return dict(zip(names, lut3 + lut4, strict=True))
