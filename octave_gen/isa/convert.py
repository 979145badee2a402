"""Conversions between number formats.

Source of the semantics: the V_CVT descriptions of AMD's CDNA3 and RDNA3 instruction set architecture reference guides:
float to integer truncates (unless the name says otherwise), saturates, and turns NaN into 0; everything else rounds to
nearest even. V_CVT_PK_U8_F32 alone rounds its integer by MODE, that is to nearest even here. The conversions from and
to normalized integers, fp8 and bf8 are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from octave_gen.isa import bits
from octave_gen.isa.types import F16, F32, F64, I16, I32, U16, U32, Array, Operation, Type, table


def _integer(kind: Type, rounding: Callable[[Array], Array] = np.trunc) -> Callable[[Array], Array]:
    """Float to integer ``kind``."""
    limits = np.iinfo(kind.dtype)

    def convert(a: Array) -> Array:
        wide = np.clip(rounding(a).astype(np.float64), limits.min, limits.max)
        return np.where(np.isnan(wide), 0, wide).astype(np.int64).astype(kind.dtype)

    return convert


def _float(kind: Type) -> Callable[[Array], Array]:
    return lambda a: a.astype(kind.dtype)


def _byte(position: int) -> Operation:
    shift = np.uint32(8 * position)
    return Operation(F32, (U32,), lambda a: ((a >> shift) & np.uint32(0xFF)).astype(np.float32))


def _offset(a: Array) -> Array:
    """V_CVT_OFF_F32_I4: the low four bits as a signed number of sixteenths."""
    nibble = ((a & np.uint32(15)) ^ np.uint32(8)).astype(np.float32)
    sixteenths: Array = (nibble - np.float32(8)) / np.float32(16)
    return sixteenths


def toward_zero_f16(a: Array) -> Array:
    """float32 to float16 rounded toward zero; an overflow stops at the largest finite number."""
    nearest = a.astype(np.float16)
    beyond = (np.abs(nearest.astype(np.float32)) > np.abs(a)) & np.isfinite(a)
    return (nearest.view(np.uint16) - beyond.astype(np.uint16)).view(np.float16)


def _pair(convert: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """Both operands converted to 16 bits, the first into the low half."""
    return lambda a, b: bits.halves(convert(a), convert(b))


def _narrow(kind: Type) -> Callable[[Array], Array]:
    return lambda a: bits.saturate(a.astype(np.int64), kind.dtype)


_to_byte = _integer(U32, np.rint)


def _insert_byte(a: Array, position: Array, old: Array) -> Array:
    """V_CVT_PK_U8_F32: ``a`` as a byte, put into byte ``position`` of ``old``."""
    shift = (position & np.uint32(3)) << np.uint32(3)
    byte = np.minimum(_to_byte(a), np.uint32(0xFF))
    merged: Array = (old & ~(np.uint32(0xFF) << shift)) | (byte << shift)
    return merged


_TO_FLOAT = {
    "v_cvt_f32_i32": Operation(F32, (I32,), _float(F32)),
    "v_cvt_f32_u32": Operation(F32, (U32,), _float(F32)),
    "v_cvt_f64_i32": Operation(F64, (I32,), _float(F64)),
    "v_cvt_f64_u32": Operation(F64, (U32,), _float(F64)),
    "v_cvt_f16_i16": Operation(F16, (I16,), _float(F16)),
    "v_cvt_f16_u16": Operation(F16, (U16,), _float(F16)),
    "v_cvt_f32_f16": Operation(F32, (F16,), _float(F32)),
    "v_cvt_f16_f32": Operation(F16, (F32,), _float(F16)),
    "v_cvt_f64_f32": Operation(F64, (F32,), _float(F64)),
    "v_cvt_f32_f64": Operation(F32, (F64,), _float(F32)),
    "v_cvt_f32_ubyte0": _byte(0),
    "v_cvt_f32_ubyte1": _byte(1),
    "v_cvt_f32_ubyte2": _byte(2),
    "v_cvt_f32_ubyte3": _byte(3),
    "v_cvt_off_f32_i4": Operation(F32, (U32,), _offset),
}

_TO_INTEGER = {
    "v_cvt_i32_f32": Operation(I32, (F32,), _integer(I32)),
    "v_cvt_u32_f32": Operation(U32, (F32,), _integer(U32)),
    "v_cvt_i32_f64": Operation(I32, (F64,), _integer(I32)),
    "v_cvt_u32_f64": Operation(U32, (F64,), _integer(U32)),
    "v_cvt_i16_f16": Operation(I16, (F16,), _integer(I16)),
    "v_cvt_u16_f16": Operation(U16, (F16,), _integer(U16)),
    "v_cvt_flr_i32_f32 v_cvt_floor_i32_f32": Operation(I32, (F32,), _integer(I32, np.floor)),
    # Half a unit is added in float32, so the sum is rounded before the floor.
    "v_cvt_rpi_i32_f32 v_cvt_nearest_i32_f32": Operation(
        I32, (F32,), _integer(I32, lambda a: np.floor(a + np.float32(0.5)))
    ),
    "v_cvt_i32_i16": Operation(I32, (I16,), lambda a: a.astype(np.int32)),
    "v_cvt_u32_u16": Operation(U32, (U16,), lambda a: a.astype(np.uint32)),
}

_PACKED = {
    "v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32": Operation(U32, (F32, F32), _pair(toward_zero_f16)),
    "v_pack_b32_f16": Operation(U32, (F16, F16), bits.halves),
    "v_cvt_pk_i16_f32": Operation(U32, (F32, F32), _pair(_integer(I16))),
    "v_cvt_pk_u16_f32": Operation(U32, (F32, F32), _pair(_integer(U16))),
    "v_cvt_pk_i16_i32": Operation(U32, (I32, I32), _pair(_narrow(I16))),
    "v_cvt_pk_u16_u32": Operation(U32, (U32, U32), _pair(_narrow(U16))),
    "v_cvt_pk_u8_f32": Operation(U32, (F32, U32, U32), _insert_byte),
}

OPERATIONS = table({**_TO_FLOAT, **_TO_INTEGER, **_PACKED})
