"""Integer and bit instructions of the vector unit, and moves.

Source of the semantics: the instruction descriptions of AMD's CDNA3 and RDNA3 instruction set architecture reference
guides (vector instructions); where the two guides give one operation two names, both are keys.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from octave_gen.isa import bits
from octave_gen.isa.types import F16, F32, I16, I32, I64, U16, U32, U64, Array, Operation, Type, table


def _sum(kind: Type) -> Callable[..., Array]:
    def add(a: Array, b: Array, *, clamp: bool = False) -> Array:
        return bits.saturate(a.astype(np.int64) + b.astype(np.int64), kind.dtype) if clamp else a + b

    return add


def _difference(kind: Type, *, reverse: bool = False) -> Callable[..., Array]:
    def subtract(a: Array, b: Array, *, clamp: bool = False) -> Array:
        if reverse:
            a, b = b, a
        return bits.saturate(a.astype(np.int64) - b.astype(np.int64), kind.dtype) if clamp else a - b

    return subtract


def _multiply_add(kind: Type) -> Callable[..., Array]:
    """``a * b + c`` of 16-bit integers, or of integers already cut to 24 bits."""

    def multiply_add(a: Array, b: Array, c: Array, *, clamp: bool = False) -> Array:
        wide = a.astype(np.int64) * b.astype(np.int64) + c.astype(np.int64)
        return bits.saturate(wide, kind.dtype) if clamp else wide.astype(kind.dtype)

    return multiply_add


def _unsigned_24(value: Array) -> Array:
    low: Array = value & np.uint32(0xFFFFFF)
    return low


def _signed_24(value: Array) -> Array:
    low: Array = (value << np.int32(8)) >> np.int32(8)
    return low


def _with_24_bits(cut: Callable[[Array], Array], function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` with its first two operands cut to 24 bits."""
    return lambda a, b, *rest, **options: function(cut(a), cut(b), *rest, **options)


def add_with_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """``a + b + carry`` of uint32 and whether it passes 2**32."""
    total = a.astype(np.uint64) + b.astype(np.uint64) + carry
    return total.astype(np.uint32), total > np.uint64(0xFFFFFFFF)


def subtract_with_borrow(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    """``a - b - borrow`` of uint32 and whether it passes below 0."""
    taken = b.astype(np.uint64) + borrow
    return (a.astype(np.uint64) - taken).astype(np.uint32), taken > a


_NO_CARRY = np.zeros((), bool)


def _unsigned_wide(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    total = a.astype(np.uint64) * b.astype(np.uint64) + c
    return total, total < c


def _signed_wide(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """V_MAD_I64_I32: the second result is bit 64 of the 65-bit sum, that is its sign."""
    product = a.astype(np.int64) * b.astype(np.int64)
    total = product + c
    overflowed = ((product ^ total) & (c ^ total)) < 0
    return total, (total < 0) ^ overflowed


def _permute_bytes(a: Array, b: Array, selector: Array) -> Array:
    """V_PERM_B32: selector bytes 0-3 pick from ``b``, 4-7 from ``a``; 8-11 spread the sign of the 16-bit fields of b,
    then a; 12 is 0x00 and everything above 0xFF. Tables serve all of it; bytes of operands that differ by lane are
    quicker to shift.
    """
    if a.shape[-1] == b.shape[-1] == 1 or (selector & np.uint32(0xF8F8F8F8)).any():
        return _look_up(_byte_tables(a, b), selector)
    both = (a.astype(np.uint64) << np.uint64(32)) | b
    result = np.zeros((), np.uint64)
    for position in (np.uint32(0), np.uint32(8), np.uint32(16), np.uint32(24)):
        place = ((selector >> position) & np.uint32(7)) << np.uint32(3)
        result = result | (((both >> place) & np.uint64(0xFF)) << position)
    return result.astype(np.uint32)


def _byte_tables(a: Array, b: Array) -> Array:
    """What the codes 0-15 of V_PERM_B32 stand for, uint8 on a last axis."""
    a, b = np.broadcast_arrays(a, b)
    tables = np.empty((*a.shape, 16), np.uint8)
    tables[..., :8] = np.stack((b, a), -1).view(np.uint8)
    tables[..., 8:12] = (tables[..., 1:8:2] >> np.uint8(7)) * np.uint8(0xFF)
    tables[..., 12] = 0
    tables[..., 13:] = 0xFF
    return tables


def _look_up(tables: Array, selector: Array) -> Array:
    """Every byte of ``selector`` replaced through the table of its lane."""
    codes = np.minimum(np.ascontiguousarray(selector)[..., None].view(np.uint8), 15)
    first = np.arange(0, tables.size, 16).reshape(*tables.shape[:-1], 1)
    found: Array = tables.ravel().take(first + codes).view(np.uint32)[..., 0]
    return found


def _align(a: Array, b: Array, count: Array) -> Array:
    both = (a.astype(np.uint64) << np.uint64(32)) | b
    shifted: Array = (both >> count.astype(np.uint64)).astype(np.uint32)
    return shifted


def _median(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _absolute_differences(a: Array, b: Array) -> Array:
    """Sum over the four bytes, uint32."""
    difference = bits.bytes_of(a, signed=False) - bits.bytes_of(b, signed=False)
    total: Array = np.abs(difference).sum(-1, dtype=np.uint32)
    return total


def _distance(a: Array, b: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b)


def _half_distances(a: Array, b: Array) -> Array:
    low, high = np.uint32(0xFFFF), np.uint32(16)
    return _distance(a & low, b & low) + _distance(a >> high, b >> high)


def _select(a: Array, b: Array, chosen: Array) -> Array:
    return np.where(chosen, b, a)


def _and(a: Array, b: Array) -> Array:
    return a & b


def _or(a: Array, b: Array) -> Array:
    return a | b


def _xor(a: Array, b: Array) -> Array:
    return a ^ b


_PAIR = (U32, U32)
_TRIPLE = (U32, U32, U32)
_SIGNED_PAIR = (I32, I32)
_SIGNED_TRIPLE = (I32, I32, I32)

_MOVES = {
    "v_mov_b32": Operation(U32, (U32,), lambda a: a),
    "v_mov_b16": Operation(U16, (U16,), lambda a: a),
    "v_mov_b64": Operation(U64, (U64,), lambda a: a),
    # Neg and abs act on the sign bit of what is selected, so these operands are floats.
    "v_cndmask_b32": Operation(F32, (F32, F32), _select, carry_in=True),
    "v_cndmask_b16": Operation(F16, (F16, F16), _select, carry_in=True),
}

_LOGIC = {
    "v_not_b32": Operation(U32, (U32,), lambda a: ~a),
    "v_and_b32": Operation(U32, _PAIR, _and),
    "v_or_b32": Operation(U32, _PAIR, _or),
    "v_xor_b32": Operation(U32, _PAIR, _xor),
    "v_xnor_b32": Operation(U32, _PAIR, lambda a, b: ~(a ^ b)),
    "v_not_b16": Operation(U16, (U16,), lambda a: ~a),
    "v_and_b16": Operation(U16, (U16, U16), _and),
    "v_or_b16": Operation(U16, (U16, U16), _or),
    "v_xor_b16": Operation(U16, (U16, U16), _xor),
    "v_and_or_b32": Operation(U32, _TRIPLE, lambda a, b, c: (a & b) | c),
    "v_or3_b32": Operation(U32, _TRIPLE, lambda a, b, c: a | b | c),
    "v_xor3_b32": Operation(U32, _TRIPLE, lambda a, b, c: a ^ b ^ c),
    "v_bfi_b32": Operation(U32, _TRIPLE, lambda mask, a, b: (mask & a) | (~mask & b)),
}

_SHIFTS = {
    "v_lshlrev_b32": Operation(U32, (U32, U32), lambda n, a: bits.shift_left(a, n)),
    "v_lshrrev_b32": Operation(U32, (U32, U32), lambda n, a: bits.shift_right(a, n)),
    "v_ashrrev_i32": Operation(I32, (U32, I32), lambda n, a: bits.shift_right(a, n)),
    "v_lshlrev_b64": Operation(U64, (U32, U64), lambda n, a: bits.shift_left(a, n)),
    "v_lshrrev_b64": Operation(U64, (U32, U64), lambda n, a: bits.shift_right(a, n)),
    "v_ashrrev_i64": Operation(I64, (U32, I64), lambda n, a: bits.shift_right(a, n)),
    "v_lshlrev_b16": Operation(U16, (U16, U16), lambda n, a: bits.shift_left(a, n)),
    "v_lshrrev_b16": Operation(U16, (U16, U16), lambda n, a: bits.shift_right(a, n)),
    "v_ashrrev_i16": Operation(I16, (U16, I16), lambda n, a: bits.shift_right(a, n)),
    "v_lshl_or_b32": Operation(U32, _TRIPLE, lambda a, n, c: bits.shift_left(a, n) | c),
    "v_lshl_add_u32": Operation(U32, _TRIPLE, lambda a, n, c: bits.shift_left(a, n) + c),
    "v_add_lshl_u32": Operation(U32, _TRIPLE, lambda a, b, n: bits.shift_left(a + b, n)),
    # Only bits 0-2 of the count are read.
    "v_lshl_add_u64": Operation(U64, (U64, U32, U64), lambda a, n, c: bits.shift_left(a, n & np.uint32(7)) + c),
    # The count is a 16-bit operand on gfx11; only its lowest bits are read on both chips.
    "v_alignbit_b32": Operation(U32, (U32, U32, U16), lambda a, b, n: _align(a, b, n & np.uint16(31))),
    "v_alignbyte_b32": Operation(U32, (U32, U32, U16), lambda a, b, n: _align(a, b, (n & np.uint16(3)) * np.uint16(8))),
}

_FIELDS = {
    "v_bfe_u32": Operation(U32, _TRIPLE, lambda a, offset, size: bits.extract(a, offset, size & np.uint32(31))),
    "v_bfe_i32": Operation(I32, (I32, U32, U32), lambda a, offset, size: bits.extract(a, offset, size & np.uint32(31))),
    "v_bfm_b32": Operation(U32, _PAIR, bits.ones),
    "v_bfrev_b32": Operation(U32, (U32,), bits.reverse),
    "v_bcnt_u32_b32": Operation(U32, _PAIR, lambda a, b: bits.population(a) + b),
    "v_ffbh_u32 v_clz_i32_u32": Operation(I32, (U32,), bits.leading_zeros),
    "v_ffbl_b32 v_ctz_i32_b32": Operation(I32, (U32,), bits.trailing_zeros),
    "v_ffbh_i32 v_cls_i32": Operation(I32, (I32,), bits.leading_signs),
    "v_perm_b32": Operation(U32, _TRIPLE, _permute_bytes),
}

_SUMS = {
    "v_add_u32 v_add_nc_u32": Operation(U32, _PAIR, _sum(U32), saturates=True),
    "v_add_i32 v_add_nc_i32": Operation(I32, _SIGNED_PAIR, _sum(I32), saturates=True),
    "v_add_u16 v_add_nc_u16": Operation(U16, (U16, U16), _sum(U16), saturates=True),
    "v_add_i16 v_add_nc_i16": Operation(I16, (I16, I16), _sum(I16), saturates=True),
    "v_sub_u32 v_sub_nc_u32": Operation(U32, _PAIR, _difference(U32), saturates=True),
    "v_sub_i32 v_sub_nc_i32": Operation(I32, _SIGNED_PAIR, _difference(I32), saturates=True),
    "v_sub_u16 v_sub_nc_u16": Operation(U16, (U16, U16), _difference(U16), saturates=True),
    "v_sub_i16 v_sub_nc_i16": Operation(I16, (I16, I16), _difference(I16), saturates=True),
    "v_subrev_u32 v_subrev_nc_u32": Operation(U32, _PAIR, _difference(U32, reverse=True), saturates=True),
    "v_subrev_u16": Operation(U16, (U16, U16), _difference(U16, reverse=True), saturates=True),
    "v_add3_u32": Operation(U32, _TRIPLE, lambda a, b, c: a + b + c),
    "v_xad_u32": Operation(U32, _TRIPLE, lambda a, b, c: (a ^ b) + c),
    "v_sad_u8": Operation(U32, _TRIPLE, lambda a, b, c: _absolute_differences(a, b) + c),
    "v_sad_hi_u8": Operation(U32, _TRIPLE, lambda a, b, c: (_absolute_differences(a, b) << np.uint32(16)) + c),
    "v_sad_u16": Operation(U32, _TRIPLE, lambda a, b, c: _half_distances(a, b) + c),
    "v_sad_u32": Operation(U32, _TRIPLE, lambda a, b, c: _distance(a, b) + c),
}

_CARRIES = {
    "v_add_co_u32": Operation(U32, _PAIR, lambda a, b: add_with_carry(a, b, _NO_CARRY), carry_out=True),
    "v_sub_co_u32": Operation(U32, _PAIR, lambda a, b: subtract_with_borrow(a, b, _NO_CARRY), carry_out=True),
    "v_subrev_co_u32": Operation(U32, _PAIR, lambda a, b: subtract_with_borrow(b, a, _NO_CARRY), carry_out=True),
    "v_addc_co_u32 v_add_co_ci_u32": Operation(U32, _PAIR, add_with_carry, carry_in=True, carry_out=True),
    "v_subb_co_u32 v_sub_co_ci_u32": Operation(U32, _PAIR, subtract_with_borrow, carry_in=True, carry_out=True),
    "v_subbrev_co_u32 v_subrev_co_ci_u32": Operation(
        U32, _PAIR, lambda a, b, borrow: subtract_with_borrow(b, a, borrow), carry_in=True, carry_out=True
    ),
}

_PRODUCTS = {
    "v_mul_lo_u32": Operation(U32, _PAIR, lambda a, b: a * b),
    "v_mul_lo_u16": Operation(U16, (U16, U16), lambda a, b: a * b),
    "v_mul_hi_u32": Operation(U32, _PAIR, bits.high_product),
    "v_mul_hi_i32": Operation(I32, _SIGNED_PAIR, bits.high_product),
    "v_mul_u32_u24": Operation(U32, _PAIR, _with_24_bits(_unsigned_24, lambda a, b: a * b)),
    "v_mul_i32_i24": Operation(I32, _SIGNED_PAIR, _with_24_bits(_signed_24, lambda a, b: a * b)),
    "v_mul_hi_u32_u24": Operation(U32, _PAIR, _with_24_bits(_unsigned_24, bits.high_product)),
    "v_mul_hi_i32_i24": Operation(I32, _SIGNED_PAIR, _with_24_bits(_signed_24, bits.high_product)),
    "v_mad_u32_u24": Operation(U32, _TRIPLE, _with_24_bits(_unsigned_24, _multiply_add(U32)), saturates=True),
    "v_mad_i32_i24": Operation(I32, _SIGNED_TRIPLE, _with_24_bits(_signed_24, _multiply_add(I32)), saturates=True),
    "v_mad_u64_u32": Operation(U64, (U32, U32, U64), _unsigned_wide, carry_out=True),
    "v_mad_i64_i32": Operation(I64, (I32, I32, I64), _signed_wide, carry_out=True),
    "v_mad_u32_u16": Operation(U32, (U16, U16, U32), _multiply_add(U32), saturates=True),
    "v_mad_i32_i16": Operation(I32, (I16, I16, I32), _multiply_add(I32), saturates=True),
    "v_mad_u16": Operation(U16, (U16, U16, U16), _multiply_add(U16), saturates=True, keeps_half=True),
    "v_mad_i16": Operation(I16, (I16, I16, I16), _multiply_add(I16), saturates=True, keeps_half=True),
    "v_mad_legacy_u16": Operation(U16, (U16, U16, U16), _multiply_add(U16), saturates=True),
    "v_mad_legacy_i16": Operation(I16, (I16, I16, I16), _multiply_add(I16), saturates=True),
}

_EXTREMES = {"min": np.minimum, "max": np.maximum}


def _extremes(kind: Type) -> dict[str, Operation]:
    """Minimum, maximum and their combinations; ``v_maxmin`` and ``v_minmax`` exist for 32 bits only."""
    name, one, two, three = kind.name, {}, {}, (kind, kind, kind)
    for word, function in _EXTREMES.items():
        one[f"v_{word}_{name}"] = Operation(kind, (kind, kind), function)
        two[f"v_{word}3_{name}"] = Operation(kind, three, lambda a, b, c, f=function: f(f(a, b), c))
    two[f"v_med3_{name}"] = Operation(kind, three, _median)
    if kind.dtype.itemsize == 4:
        two[f"v_maxmin_{name}"] = Operation(kind, three, lambda a, b, c: np.minimum(np.maximum(a, b), c))
        two[f"v_minmax_{name}"] = Operation(kind, three, lambda a, b, c: np.maximum(np.minimum(a, b), c))
    return {**one, **two}


OPERATIONS = {
    **table({**_MOVES, **_LOGIC, **_SHIFTS, **_FIELDS, **_SUMS, **_CARRIES, **_PRODUCTS}),
    **{name: operation for kind in (U32, I32, U16, I16) for name, operation in _extremes(kind).items()},
}
