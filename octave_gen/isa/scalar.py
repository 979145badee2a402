"""Integer and bit instructions of the scalar unit.

Source of the semantics: the SOP1, SOP2, SOPC and SOPK descriptions of AMD's CDNA3 and RDNA3 instruction set
architecture reference guides. gfx9's ``andn2``, ``orn2``, ``ff1``, ``flbit`` are gfx11's ``and_not1``, ``or_not1``,
``ctz``, ``clz`` or ``cls``. What touches EXEC, the program counter or memory belongs to the engine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from octave_gen.isa import bits
from octave_gen.isa.types import I16, I32, I64, U16, U32, U64, Array, Operation, Type, table
from octave_gen.isa.vector_integer import add_with_carry, subtract_with_borrow

_NO_CARRY = np.zeros((), bool)


def _logic(name: str, function: Callable[..., Array], operands: int = 2) -> dict[str, Operation]:
    """An operation on 32 and 64 bits whose SCC tells whether the result is non-zero."""
    names = name.split()
    return {
        " ".join(f"{n}_b{kind.registers * 32}" for n in names): Operation(
            kind, (kind,) * operands, function, scc="result_nonzero"
        )
        for kind in (U32, U64)
    }


_LOGIC = {
    **_logic("s_not", lambda a: ~a, operands=1),
    **_logic("s_and", lambda a, b: a & b),
    **_logic("s_or", lambda a, b: a | b),
    **_logic("s_xor", lambda a, b: a ^ b),
    **_logic("s_andn2 s_and_not1", lambda a, b: a & ~b),
    **_logic("s_orn2 s_or_not1", lambda a, b: a | ~b),
    **_logic("s_nand", lambda a, b: ~(a & b)),
    **_logic("s_nor", lambda a, b: ~(a | b)),
    **_logic("s_xnor", lambda a, b: ~(a ^ b)),
}


def _extend(value: Array) -> Array:
    return value.astype(np.int32)


def _choose(a: Array, b: Array, scc: Array) -> Array:
    return np.where(scc, a, b)


_MOVES = {
    "s_mov_b32": Operation(U32, (U32,), lambda a: a),
    "s_mov_b64": Operation(U64, (U64,), lambda a: a),
    "s_movk_i32": Operation(I32, (I16,), _extend),
    "s_cmov_b32": Operation(U32, (U32,), _choose, reads_destination=True, reads_scc=True),
    "s_cmov_b64": Operation(U64, (U64,), _choose, reads_destination=True, reads_scc=True),
    "s_cmovk_i32": Operation(
        I32, (I16,), lambda a, old, scc: _choose(_extend(a), old, scc), reads_destination=True, reads_scc=True
    ),
    "s_cselect_b32": Operation(U32, (U32, U32), _choose, reads_scc=True),
    "s_cselect_b64": Operation(U64, (U64, U64), _choose, reads_scc=True),
    "s_sext_i32_i8": Operation(I32, (U32,), lambda a: a.astype(np.uint8).view(np.int8).astype(np.int32)),
    "s_sext_i32_i16": Operation(I32, (U32,), lambda a: a.astype(np.uint16).view(np.int16).astype(np.int32)),
}


def _fits(exact: Array) -> tuple[Array, Array]:
    """The low 32 bits of an exact int64 result, and whether it does not fit a signed 32-bit integer."""
    result = exact.astype(np.int32)
    return result, result != exact


def _signed_sum(a: Array, b: Array) -> tuple[Array, Array]:
    return _fits(a.astype(np.int64) + b.astype(np.int64))


def _signed_difference(a: Array, b: Array) -> tuple[Array, Array]:
    return _fits(a.astype(np.int64) - b.astype(np.int64))


def _shift_add(count: int) -> Operation:
    def shift_add(a: Array, b: Array) -> tuple[Array, Array]:
        total = (a.astype(np.uint64) << np.uint64(count)) + b
        return total.astype(np.uint32), total > np.uint64(0xFFFFFFFF)

    return Operation(U32, (U32, U32), shift_add, scc="returned")


_ARITHMETIC = {
    "s_add_u32": Operation(U32, (U32, U32), lambda a, b: add_with_carry(a, b, _NO_CARRY), scc="returned"),
    "s_sub_u32": Operation(U32, (U32, U32), lambda a, b: subtract_with_borrow(a, b, _NO_CARRY), scc="returned"),
    "s_addc_u32": Operation(U32, (U32, U32), add_with_carry, scc="returned", reads_scc=True),
    "s_subb_u32": Operation(U32, (U32, U32), subtract_with_borrow, scc="returned", reads_scc=True),
    "s_add_i32": Operation(I32, (I32, I32), _signed_sum, scc="returned"),
    "s_sub_i32": Operation(I32, (I32, I32), _signed_difference, scc="returned"),
    "s_addk_i32": Operation(I32, (I16,), _signed_sum, scc="returned", reads_destination=True),
    "s_mulk_i32": Operation(I32, (I16,), lambda a, old: _extend(a) * old, reads_destination=True),
    "s_mul_i32": Operation(I32, (I32, I32), lambda a, b: a * b),
    "s_mul_hi_u32": Operation(U32, (U32, U32), bits.high_product),
    "s_mul_hi_i32": Operation(I32, (I32, I32), bits.high_product),
    "s_abs_i32": Operation(I32, (I32,), np.abs, scc="result_nonzero"),
    # Both wrap: the distance of two numbers more than 2**31 apart comes out negated, as in the guides' examples.
    "s_absdiff_i32": Operation(I32, (I32, I32), lambda a, b: np.abs(a - b), scc="result_nonzero"),
    # SCC says that the first operand was taken: on equal operands s_max takes the first, s_min the second.
    "s_min_i32": Operation(I32, (I32, I32), lambda a, b: (np.minimum(a, b), a < b), scc="returned"),
    "s_min_u32": Operation(U32, (U32, U32), lambda a, b: (np.minimum(a, b), a < b), scc="returned"),
    "s_max_i32": Operation(I32, (I32, I32), lambda a, b: (np.maximum(a, b), a >= b), scc="returned"),
    "s_max_u32": Operation(U32, (U32, U32), lambda a, b: (np.maximum(a, b), a >= b), scc="returned"),
    **{f"s_lshl{count}_add_u32": _shift_add(count) for count in (1, 2, 3, 4)},
}


def _field(kind: Type) -> Operation:
    """S_BFE: the second operand holds the offset in bits 0-4 (0-5 for 64 bits) and the size in bits 16-22."""

    def extract(a: Array, field: Array) -> Array:
        return bits.extract(a, field, (field >> np.uint32(16)) & np.uint32(0x7F))

    return Operation(kind, (kind, U32), extract, scc="result_nonzero")


def _bit(value: Array, index: Array) -> Array:
    """The bit as a mask within ``value``'s type."""
    return bits.shift_left(np.ones_like(value), index)


def _set_bit(kind: Type, *, one: bool) -> Operation:
    def set_bit(index: Array, old: Array) -> Array:
        return old | _bit(old, index) if one else old & ~_bit(old, index)

    return Operation(kind, (U32,), set_bit, reads_destination=True)


def _test_bit(kind: Type, *, one: bool) -> Operation:
    test = np.not_equal if one else np.equal
    return Operation(None, (kind, U32), lambda value, index: test(value & _bit(value, index), 0), scc="returned")


def _pack(first: str, second: str) -> Operation:
    """The named halves (``"l"`` or ``"h"``) of both operands, the first one's below."""
    shift = {"l": np.uint32(0), "h": np.uint32(16)}
    return Operation(
        U32,
        (U32, U32),
        lambda a, b: bits.halves(*((x >> shift[w]).astype(np.uint16) for x, w in ((a, first), (b, second)))),
    )


_BITS = {
    "s_lshl_b32": Operation(U32, (U32, U32), bits.shift_left, scc="result_nonzero"),
    "s_lshr_b32": Operation(U32, (U32, U32), bits.shift_right, scc="result_nonzero"),
    "s_ashr_i32": Operation(I32, (I32, U32), bits.shift_right, scc="result_nonzero"),
    "s_lshl_b64": Operation(U64, (U64, U32), bits.shift_left, scc="result_nonzero"),
    "s_lshr_b64": Operation(U64, (U64, U32), bits.shift_right, scc="result_nonzero"),
    "s_ashr_i64": Operation(I64, (I64, U32), bits.shift_right, scc="result_nonzero"),
    "s_bfe_u32": _field(U32),
    "s_bfe_i32": _field(I32),
    "s_bfe_u64": _field(U64),
    "s_bfe_i64": _field(I64),
    "s_bfm_b32": Operation(U32, (U32, U32), bits.ones),
    "s_bfm_b64": Operation(U64, (U32, U32), lambda size, offset: bits.ones(size.astype(np.uint64), offset)),
    "s_brev_b32": Operation(U32, (U32,), bits.reverse),
    "s_brev_b64": Operation(U64, (U64,), bits.reverse),
    "s_bcnt1_i32_b32": Operation(U32, (U32,), bits.population, scc="result_nonzero"),
    "s_bcnt1_i32_b64": Operation(U32, (U64,), bits.population, scc="result_nonzero"),
    "s_bcnt0_i32_b32": Operation(U32, (U32,), lambda a: bits.population(~a), scc="result_nonzero"),
    "s_bcnt0_i32_b64": Operation(U32, (U64,), lambda a: bits.population(~a), scc="result_nonzero"),
    "s_ff0_i32_b32": Operation(I32, (U32,), lambda a: bits.trailing_zeros(~a)),
    "s_ff0_i32_b64": Operation(I32, (U64,), lambda a: bits.trailing_zeros(~a)),
    "s_ff1_i32_b32 s_ctz_i32_b32": Operation(I32, (U32,), bits.trailing_zeros),
    "s_ff1_i32_b64 s_ctz_i32_b64": Operation(I32, (U64,), bits.trailing_zeros),
    "s_flbit_i32_b32 s_clz_i32_u32": Operation(I32, (U32,), bits.leading_zeros),
    "s_flbit_i32_b64 s_clz_i32_u64": Operation(I32, (U64,), bits.leading_zeros),
    "s_flbit_i32 s_cls_i32": Operation(I32, (I32,), bits.leading_signs),
    "s_flbit_i32_i64 s_cls_i32_i64": Operation(I32, (I64,), bits.leading_signs),
    "s_bitset0_b32": _set_bit(U32, one=False),
    "s_bitset1_b32": _set_bit(U32, one=True),
    "s_bitset0_b64": _set_bit(U64, one=False),
    "s_bitset1_b64": _set_bit(U64, one=True),
    "s_bitcmp0_b32": _test_bit(U32, one=False),
    "s_bitcmp1_b32": _test_bit(U32, one=True),
    "s_bitcmp0_b64": _test_bit(U64, one=False),
    "s_bitcmp1_b64": _test_bit(U64, one=True),
    "s_pack_ll_b32_b16": _pack("l", "l"),
    "s_pack_lh_b32_b16": _pack("l", "h"),
    "s_pack_hl_b32_b16": _pack("h", "l"),
    "s_pack_hh_b32_b16": _pack("h", "h"),
}

_RELATIONS: dict[str, Callable[..., Array]] = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}

_COMPARES = {
    **{f"s_cmp_{word}_i32": Operation(None, (I32, I32), test, scc="returned") for word, test in _RELATIONS.items()},
    **{f"s_cmp_{word}_u32": Operation(None, (U32, U32), test, scc="returned") for word, test in _RELATIONS.items()},
    **{f"s_cmpk_{word}_i32": Operation(None, (I32, I16), test, scc="returned") for word, test in _RELATIONS.items()},
    **{f"s_cmpk_{word}_u32": Operation(None, (U32, U16), test, scc="returned") for word, test in _RELATIONS.items()},
    "s_cmp_eq_u64": Operation(None, (U64, U64), np.equal, scc="returned"),
    "s_cmp_lg_u64": Operation(None, (U64, U64), np.not_equal, scc="returned"),
}

OPERATIONS = table({**_LOGIC, **_MOVES, **_ARITHMETIC, **_BITS, **_COMPARES})
