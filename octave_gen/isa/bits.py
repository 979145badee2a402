"""Integer bit operations that the scalar and the vector instructions share.

Every function takes arrays of one unsigned or signed integer dtype and broadcasts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from octave_gen.isa.types import Array

NONE_FOUND = np.int32(-1)
"""What a search for a bit returns when there is none ("AMD Instinct MI300" CDNA3 guide, V_FFBH_U32)."""


def width(value: Array) -> int:
    """Bits of one element."""
    return value.dtype.itemsize * 8


def shift_left(value: Array, count: Array) -> Array:
    """``value << count``; hardware takes the count modulo the width of the value."""
    return np.left_shift(value, _count(value, count))


def shift_right(value: Array, count: Array) -> Array:
    """``value >> count``, arithmetic for signed values; the count is taken modulo the width."""
    return np.right_shift(value, _count(value, count))


def _count(value: Array, count: Array) -> Array:
    modulo: Array = np.bitwise_and(count, count.dtype.type(width(value) - 1)).astype(value.dtype)
    return modulo


def extract(value: Array, offset: Array, size: Array) -> Array:
    """``size`` bits of ``value`` from bit ``offset`` on; sign-extended from its own top bit when ``value`` is signed.

    A field that passes the end of the value is cut there: zeros follow an unsigned value, copies of the sign a signed
    one (the guides' V_BFE_I32 and S_BFE_I64 shift arithmetically before they mask). ``size`` 0 gives 0.
    """
    bits = width(value)
    size = np.minimum(size, size.dtype.type(bits)).astype(value.dtype)
    unused = np.minimum(value.dtype.type(bits) - size, value.dtype.type(bits - 1))
    field = shift_right(shift_left(shift_right(value, offset), unused), unused)
    return np.where(size == 0, value.dtype.type(0), field)


def ones(size: Array, offset: Array) -> Array:
    """A mask of ``size`` ones from bit ``offset`` on, both modulo the width (S_BFM_B64, V_BFM_B32)."""
    one = size.dtype.type(1)
    return shift_left(shift_left(np.full_like(size, one), size) - one, offset)


def population(value: Array) -> Array:
    """Number of ones per element, uint32."""
    odd, pairs, nibbles = (np.uint64(x) for x in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
    count = value.astype(np.uint64)
    count = count - ((count >> np.uint64(1)) & odd)
    count = (count & pairs) + ((count >> np.uint64(2)) & pairs)
    count = (count + (count >> np.uint64(4))) & nibbles
    total: Array = ((count * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint32)
    return total


def leading_zeros(value: Array) -> Array:
    """Zeros above the highest one, int32; -1 where there is no one."""
    if width(value) == 64:
        high, low = (value >> np.uint64(32)).astype(np.uint32), value.astype(np.uint32)
        below = leading_zeros(low)
        below = np.where(below == NONE_FOUND, below, below + np.int32(32))
        return np.where(high != 0, leading_zeros(high), below)
    length = np.frexp(value.astype(np.float64))[1].astype(np.int32)
    zeros: Array = np.where(value == 0, NONE_FOUND, np.int32(32) - length)
    return zeros


def trailing_zeros(value: Array) -> Array:
    """Zeros below the lowest one, int32; -1 where there is no one."""
    one = value.dtype.type(1)
    return np.where(value == 0, NONE_FOUND, population(~value & (value - one)).astype(np.int32))


def leading_signs(value: Array) -> Array:
    """Copies of the sign bit from the top down, int32; -1 where all bits are alike (V_CLS_I32)."""
    unsigned: Any = np.uint64 if width(value) == 64 else np.uint32
    return leading_zeros(np.where(value < 0, ~value, value).view(unsigned))


def reverse(value: Array) -> Array:
    """The bits in opposite order."""
    bits = width(value)
    kind = value.dtype.type
    every = (1 << bits) - 1
    for step in (1, 2, 4, 8, 16, 32):
        if step == bits:
            break
        low = kind(every // ((1 << step) + 1))
        value = ((value >> kind(step)) & low) | ((value & low) << kind(step))
    return value


def high_product(a: Array, b: Array) -> Array:
    """The upper 32 bits of the 64-bit product of 32-bit integers, in their own dtype."""
    wide: Any = np.int64 if a.dtype.kind == "i" else np.uint64
    high: Array = ((a.astype(wide) * b.astype(wide)) >> wide(32)).astype(a.dtype)
    return high


def saturate(exact: Array, dtype: np.dtype[Any]) -> Array:
    """int64 values held within the range of ``dtype``."""
    limits = np.iinfo(dtype)
    held: Array = np.clip(exact, limits.min, limits.max).astype(dtype)
    return held


def bytes_of(value: Array, *, signed: bool) -> Array:
    """The four bytes of 32-bit values on a new last axis, lowest first, as int32."""
    parts: Array = np.ascontiguousarray(value)[..., None].view(np.int8 if signed else np.uint8).astype(np.int32)
    return parts


def nibbles_of(value: Array, *, signed: bool) -> Array:
    """The eight nibbles of 32-bit values on a new last axis, lowest first, as int32."""
    shift = np.uint32(4) * np.arange(8, dtype=np.uint32)
    nibbles: Array = ((value[..., None] >> shift) & np.uint32(15)).astype(np.int32)
    return np.where(nibbles > 7, nibbles - 16, nibbles) if signed else nibbles


def halves(low: Array, high: Array) -> Array:
    """uint32 from two 16-bit arrays."""
    upper: Array = high.view(np.uint16).astype(np.uint32) << np.uint32(16)
    return upper | low.view(np.uint16)
