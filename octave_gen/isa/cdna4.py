"""Vector instructions that gfx950 has and gfx942 has not.

Source of the semantics: the vector instruction descriptions of AMD's CDNA4 instruction set architecture reference
guide. Its conversions from and to fp8, fp6 and fp4 with a scale (``v_cvt_scalef32_*``) and with stochastic rounding
(``v_cvt_sr_*``) are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from octave_gen.isa import bits, floats
from octave_gen.isa.packed import dot_f32_bf16, widen_bf16
from octave_gen.isa.types import BF16, BF16X2, F16X2, F32, I32, U16, U32, Array, Operation, table


def _by_table(a: Array, b: Array, c: Array, *, table: int) -> Array:
    """V_BITOP3: bit ``4 a + 2 b + c`` of ``table``, for every bit of the operands."""
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
    for number in range(8):
        if table >> number & 1:
            result |= (a if number & 4 else ~a) & (b if number & 2 else ~b) & (c if number & 1 else ~c)
    return result


def _shifted_bytes(kind: Any) -> Callable[[Array, Array, Array], Array]:
    """V_ASHR_PK: both numbers shifted right by ``count`` and saturated to ``kind``, the first into the low byte."""

    def byte(a: Array, count: Array) -> Array:
        held = bits.saturate(bits.shift_right(a, count).astype(np.int64), np.dtype(kind))
        wide: Array = held.view(np.uint8).astype(np.uint16)
        return wide

    return lambda a, b, count: byte(a, count) | byte(b, count) << np.uint16(8)


def _next_random(a: Array) -> Array:
    """V_PRNG_B32: a step of a shift register with linear feedback."""
    stepped: Array = (a << np.uint32(1)) ^ np.where(a >> np.uint32(31), np.uint32(197), np.uint32(0))
    return stepped


def narrow_bf16(a: Array) -> Array:
    """The bits of float32 numbers rounded to bfloat16, to nearest even; a NaN stays one and becomes quiet."""
    word = np.ascontiguousarray(a).view(np.uint32)
    odd = word >> np.uint32(16) & np.uint32(1)
    rounded = word + np.uint32(0x7FFF) + odd >> np.uint32(16)
    quiet = word >> np.uint32(16) | np.uint32(0x40)
    narrowed: Array = np.where(np.isnan(a), quiet, rounded).astype(np.uint16)
    return narrowed


def _missing_wins(extreme: Callable[[Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
    """V_MINIMUM3 and V_MAXIMUM3 (IEEE 754-2019): NaN where any operand is one."""

    def choose(a: Array, b: Array, c: Array) -> Array:
        missing = np.isnan(a) | np.isnan(b) | np.isnan(c)
        return np.where(missing, a.dtype.type(np.nan), extreme(extreme(a, b), c))

    return choose


_BITS = {
    "v_bitop3_b32": Operation(U32, (U32, U32, U32), _by_table, truth_table=True),
    # 16-bit results: the guide writes no more than these bits, and LLVM counts on nothing in the other half.
    "v_bitop3_b16": Operation(U16, (U16, U16, U16), _by_table, truth_table=True, keeps_half=True),
    "v_ashr_pk_i8_i32": Operation(U16, (I32, I32, U32), _shifted_bytes(np.int8), keeps_half=True),
    "v_ashr_pk_u8_i32": Operation(U16, (I32, I32, U32), _shifted_bytes(np.uint8), keeps_half=True),
    "v_prng_b32": Operation(U32, (U32,), _next_random),
}

_FLOATS = {
    "v_cvt_f32_bf16": Operation(F32, (BF16,), widen_bf16),
    "v_cvt_pk_bf16_f32": Operation(U32, (F32, F32), lambda a, b: bits.halves(narrow_bf16(a), narrow_bf16(b))),
    "v_cvt_pk_f16_f32": Operation(
        U32, (F32, F32), lambda a, b: bits.halves(a.astype(np.float16), b.astype(np.float16))
    ),
    "v_dot2c_f32_bf16": Operation(F32, (BF16X2, BF16X2), dot_f32_bf16, reads_destination=True),
    "v_minimum3_f32": Operation(F32, (F32, F32, F32), _missing_wins(floats.minimum)),
    "v_maximum3_f32": Operation(F32, (F32, F32, F32), _missing_wins(floats.maximum)),
    "v_pk_minimum3_f16": Operation(F16X2, (F16X2, F16X2, F16X2), _missing_wins(floats.minimum)),
    "v_pk_maximum3_f16": Operation(F16X2, (F16X2, F16X2, F16X2), _missing_wins(floats.maximum)),
}

OPERATIONS = table({**_BITS, **_FLOATS})
