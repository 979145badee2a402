"""The three helpers of the guides' division sequence: V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP.

Source: their descriptions in AMD's CDNA3 and RDNA3 instruction set architecture reference guides. Where the guides'
text cannot be meant literally, the reading is stated at the function; with it the whole sequence (scale, reciprocal,
Newton steps, scale back, fix up) gives the correctly rounded quotient, which the tests check. A reciprocal that is off
by one ULP changes that only for divisors whose significand is all ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from octave_gen.isa import floats
from octave_gen.isa.types import Array


@dataclass(frozen=True)
class _Format:
    """``shift``: binary places that scaling moves; ``far``: exponent difference near overflow; ``tiny``: largest
    biased exponent of a numerator that is scaled up; ``under``: exponent difference below which a quotient is 0.
    """

    mantissa: int
    bias: int
    shift: int
    far: int
    tiny: int
    under: int


_F32 = _Format(mantissa=23, bias=127, shift=64, far=96, tiny=23, under=-150)
_F64 = _Format(mantissa=52, bias=1023, shift=128, far=768, tiny=53, under=-1075)


def _format(dtype: np.dtype[Any]) -> _Format:
    return _F32 if dtype == np.float32 else _F64


def _exponent(value: Array) -> Array:
    """The biased exponent, int32."""
    form = _format(value.dtype)
    bits = floats.raw(value)
    field: Array = (bits >> bits.dtype.type(form.mantissa)) & bits.dtype.type(2 * form.bias + 1)
    return field.astype(np.int32)


def _denormal_ratio(a: Array, b: Array) -> Array:
    """Whether the exact ``a / b`` lies below the normal range of the format and is not zero."""
    (a_part, a_power), (b_part, b_power) = np.frexp(a), np.frexp(b)
    significand = np.abs(a_part.astype(np.float64) / b_part)  # within (0.5, 2); rounding cannot bring it to 1
    power = a_power - b_power + (_format(a.dtype).bias - 1)
    below: Array = (power < 0) | ((power == 0) & (significand < 1))
    below &= (a != 0) & np.isfinite(b)
    return below


def scale(value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """V_DIV_SCALE: ``value`` (one of the other two operands) made fit for Newton steps, and the mask for V_DIV_FMAS.

    The guides compare ``1 / denominator`` and the quotient with "DENORM": read as below the normal range of the
    operands' own format, and not zero. Where both are, the guides scale the denominator up, which would overflow every
    time: read as down.
    """
    form = _format(value.dtype)
    up, down = (np.ldexp(value, power) for power in (form.shift, -form.shift))
    of_denominator, of_numerator = value == denominator, value == numerator
    zero = (numerator == 0) | (denominator == 0)
    far = _exponent(numerator) - _exponent(denominator) >= form.far
    denormal = np.abs(denominator) < floats.least_normal(value.dtype)
    small_inverse = _denormal_ratio(np.ones_like(denominator), denominator)
    small_quotient = _denormal_ratio(numerator, denominator)
    tiny = _exponent(numerator) <= form.tiny
    cases: list[tuple[Array, Array, bool]] = [
        (zero, np.full_like(value, np.nan), False),
        (far, np.where(of_denominator, up, value), True),
        (denormal, up, False),
        (small_inverse & small_quotient, np.where(of_denominator, down, value), True),
        (small_inverse, down, False),
        (small_quotient, np.where(of_numerator, up, value), True),
        (tiny, up, False),
    ]
    conditions = np.broadcast_arrays(*(case for case, _, _ in cases))
    scaled = np.select(conditions, [result for _, result, _ in cases], default=value)
    return scaled.astype(value.dtype), np.select(conditions, [flag for _, _, flag in cases], default=False)


def fused_scaled(a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """V_DIV_FMAS: ``a * b + c``, where ``scaled`` multiplied by the power of two that V_DIV_SCALE took out, and rounded
    once.

    The guides write a factor of 2**32 (2**64 for double precision) for all cases; the factor that undoes V_DIV_SCALE
    is 2**64 (2**128) for a quotient ``c`` of 2 and more and its inverse below.
    """
    form = _format(a.dtype)
    power = np.where(scaled, np.where(_exponent(c) > form.bias, form.shift, -form.shift), 0)
    if a.dtype == np.float64:
        return floats.scaled_fma_f64(a, b, c, power)
    plain = floats.fused_multiply_add(a, b, c)
    if not scaled.any():
        return plain
    exact = floats.round_to_odd(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return np.where(scaled, np.ldexp(exact, power).astype(np.float32), plain)


def fix_up(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """V_DIV_FIXUP: the special cases of a division, else ``quotient`` with the sign of the operands.

    A quotient beyond the format turns the Newton steps into NaN; like the guides' OVERFLOW case it becomes infinity.
    """
    kind = quotient.dtype.type
    infinite, nan = np.full_like(quotient, np.inf), np.full_like(quotient, np.nan)
    size = np.abs(quotient)
    size = np.where(np.isnan(size), infinite, size)
    if quotient.dtype != np.float16:
        under = _exponent(numerator) - _exponent(denominator) < _format(quotient.dtype).under
        size = np.where(under, kind(0), size)
    size = np.where(np.isinf(denominator) | (numerator == 0), kind(0), size)
    size = np.where((denominator == 0) | np.isinf(numerator), infinite, size)
    both_zero = (denominator == 0) & (numerator == 0)
    both_infinite = np.isinf(denominator) & np.isinf(numerator)
    size = np.where(both_zero | both_infinite | np.isnan(denominator) | np.isnan(numerator), nan, size)
    negative = np.signbit(denominator) ^ np.signbit(numerator)
    return np.where(negative, -size, size)
