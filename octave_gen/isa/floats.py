"""Exact floating point pieces: fused multiply-add, minimum and maximum, denormal rules, the last bit.

Results are IEEE 754 with one rounding to nearest even and denormals kept, which is the mode that clang gives kernels
on both chips (FP_ROUND 0, FP_DENORM 3 for all widths; MODE register in the "Shader programming model" chapters of
AMD's CDNA3 and RDNA3 instruction set architecture reference guides). The payload of a NaN result is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from octave_gen.isa.types import Array

_UNSIGNED: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def raw(value: Array) -> Array:
    """The bits, as an unsigned integer of the same size."""
    return value.view(_UNSIGNED[value.dtype.itemsize])


def least_normal(dtype: np.dtype[Any]) -> Any:
    """The smallest normal number of the format, in it."""
    return np.finfo(dtype).smallest_normal


def flush(value: Array) -> Array:
    """Denormals become zeros of the same sign."""
    return np.where(np.abs(value) < least_normal(value.dtype), np.copysign(value.dtype.type(0), value), value)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` rounded once, for float16, float32 or float64.

    The product is exact in float64, the sum is rounded already. That is harmless for float16: either the sum is exact,
    or it lies nearer to one half-precision number than any tie. For float32 it can land on a tie, or on the coarser
    grid of the denormals; those sums are rounded to odd, which keeps every further rounding right (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums", 2008).
    """
    if a.dtype == np.float64:
        return scaled_fma_f64(a, b, c, 0)
    total: Array = np.multiply(a, b, dtype=np.float64) + c
    result: Array = total.astype(a.dtype)
    if a.dtype == np.float32:
        doubtful = _twice_rounded(total, result)
        if doubtful.any():
            a, b, c = (np.broadcast_to(x, result.shape)[doubtful].astype(np.float64) for x in (a, b, c))
            result[doubtful] = round_to_odd(a * b, c).astype(np.float32)
    return result


def _twice_rounded(total: Array, result: Array) -> Array:
    """Where float32 ``result`` may differ from the sum that float64 ``total`` stands for, rounded once."""
    small: Array = np.abs(result) <= least_normal(result.dtype)
    if small.any():
        small &= total != 0
    small |= (raw(total) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    return small


def round_to_odd(a: Array, b: Array) -> Array:
    """``a + b`` in float64; an inexact sum becomes the neighbour with an odd significand."""
    total = a + b
    error = _sum_error(a, b, total)
    even = (raw(total) & np.uint64(1)) == 0
    away = np.where((error > 0) == (total > 0), np.int64(1), np.int64(-1))
    odd = (total.view(np.int64) + away).view(np.float64)
    return np.where(np.isfinite(total) & (error != 0) & even, odd, total)


def _sum_error(a: Array, b: Array, total: Array) -> Array:
    """What ``total = a + b`` lost, exactly (Knuth)."""
    part = total - a
    error: Array = (a - (total - part)) + (b - part)
    return error


def scaled_fma_f64(a: Array, b: Array, c: Array, exponent: Array | int) -> Array:
    """``(a * b + c) * 2**exponent`` of float64, rounded once.

    Error-free transformations serve where no partial product can leave the normal range (Boldo and Melquiond); all
    other elements are computed as fractions, one by one.
    """
    a, b, c, power = np.broadcast_arrays(a, b, c, np.asarray(exponent))
    result = _transformed_fma(a, b, c)
    size = [np.abs(x) for x in (a, b, c)]
    plain = (power == 0) & ((size[2] == 0) | ((size[2] > 2.0**-900) & (size[2] < 2.0**900)))
    for factor in size[:2]:
        plain &= (factor > 2.0**-400) & (factor < 2.0**400)
    finite = np.isfinite(a) & np.isfinite(b)
    easy = ~finite | ~np.isfinite(c) | (((a == 0) | (b == 0)) & (power == 0))
    result = np.where(plain, result, np.where(finite & ~np.isfinite(c), c, a * b + c))
    for index in np.argwhere(~plain & ~easy):
        at = tuple(index)
        result[at] = _rounded_fraction(float(a[at]), float(b[at]), float(c[at]), int(power[at]))
    return result


def _split(value: Array) -> tuple[Array, Array]:
    """Two halves of at most 26 bits whose sum is ``value`` (Veltkamp)."""
    scaled = value * 134217729.0
    high = scaled - (scaled - value)
    return high, value - high


def _transformed_fma(a: Array, b: Array, c: Array) -> Array:
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    low = c + lost
    low_error = _sum_error(c, lost, low)
    high = product + low
    rounded: Array = high + round_to_odd(_sum_error(product, low, high), low_error)
    return rounded


def _rounded_fraction(a: float, b: float, c: float, exponent: int) -> float:
    exact = (Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** exponent
    if exact == 0:
        return a * b + c  # a zero with the sign that IEEE gives it
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def signaling(value: Array) -> Array:
    """Whether a value is a NaN whose quiet bit is clear."""
    quiet = raw(value).dtype.type(1 << (np.finfo(value.dtype).nmant - 1))
    result: Array = np.isnan(value) & ((raw(value) & quiet) == 0)
    return result


def _extreme(a: Array, b: Array, choose: Callable[..., Array], join: Callable[..., Array]) -> Array:
    """V_MIN_F32 and its kin with the IEEE bit of MODE set: -0 is below +0, a quiet NaN loses against a number, a
    signaling NaN wins (and becomes quiet). ``join`` makes the right zero of two by their sign bits.
    """
    result = choose(a, b)
    missing = np.isnan(result)
    result = np.where(a == b, join(raw(a), raw(b)).view(a.dtype), result)
    if missing.any():
        result = np.where(np.isnan(b), a, np.where(np.isnan(a), b, result))
        result = np.where(signaling(a) | signaling(b), a.dtype.type(np.nan), result)
    return result


def minimum(a: Array, b: Array) -> Array:
    """V_MIN of two float arrays."""
    return _extreme(a, b, np.minimum, np.bitwise_or)


def maximum(a: Array, b: Array) -> Array:
    """V_MAX of two float arrays."""
    return _extreme(a, b, np.maximum, np.bitwise_and)


def median(a: Array, b: Array, c: Array) -> Array:
    """V_MED3: the minimum where an operand is NaN, else the larger of the two that remain without the largest."""
    larger = maximum(a, b)
    largest = maximum(larger, c)
    rest = np.where(largest == a, maximum(b, c), np.where(largest == b, maximum(a, c), larger))
    missing = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(missing, minimum(minimum(a, b), c), rest) if missing.any() else rest


def perturb(result: Array, steps: Array) -> Array:
    """``result`` of a transcendental instruction moved by ``steps`` (-1, 0 or 1) units in the last place.

    The guides promise 1 ULP; this shows whether a kernel depends on more. Zeros, denormals, infinities, NaNs and powers
    of two stay: 2**n, the reciprocal or the square root of a power of two are exact in the guides' examples. No step
    leaves the normal range.
    """
    bits, mantissa = raw(result), np.finfo(result.dtype).nmant
    kind = bits.dtype.type
    fraction = bits & kind((1 << mantissa) - 1)
    moved = (bits + steps.astype(bits.dtype)).view(result.dtype)
    size = np.abs(moved)
    stays = (fraction == 0) | ~np.isfinite(moved) | (size < least_normal(result.dtype)) | ~np.isfinite(result)
    return np.where(stays | (np.abs(result) < least_normal(result.dtype)), result, moved)
