"""Packed instructions: pairs of 16-bit or 32-bit numbers, and dot products.

Source of the semantics: the VOP3P descriptions of AMD's CDNA3 and RDNA3 instruction set architecture reference guides.
A packed operand has a last axis of extent 2, low element first.

The float dot products add in the guides' order, accumulator first, every step rounded. Into float32 they flush
denormal accumulators and results whatever MODE says (LLVM, AMDGPU back end: the comment at the fold of a multiply-add
chain into FDOT2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from octave_gen.isa import bits, floats
from octave_gen.isa.types import (
    BF16X2,
    F16,
    F16X2,
    F32,
    F32X2,
    I16X2,
    I32,
    U16X2,
    U32,
    U32X2,
    Array,
    Operation,
    Type,
    table,
)


def _sum(sign: int) -> Callable[..., Array]:
    """``a + sign * b`` of 16-bit pairs."""

    def add(a: Array, b: Array, *, clamp: bool = False) -> Array:
        exact = a.astype(np.int64) + sign * b.astype(np.int64)
        return bits.saturate(exact, a.dtype) if clamp else exact.astype(a.dtype)

    return add


def _multiply_add(a: Array, b: Array, c: Array, *, clamp: bool = False) -> Array:
    exact = a.astype(np.int64) * b.astype(np.int64) + c.astype(np.int64)
    return bits.saturate(exact, a.dtype) if clamp else exact.astype(a.dtype)


def _integer_pairs(kind: Type) -> dict[str, Operation]:
    two, name = (kind, kind), "i16" if kind is I16X2 else "u16"
    return {
        f"v_pk_add_{name}": Operation(kind, two, _sum(1), saturates=True),
        f"v_pk_sub_{name}": Operation(kind, two, _sum(-1), saturates=True),
        f"v_pk_min_{name}": Operation(kind, two, np.minimum),
        f"v_pk_max_{name}": Operation(kind, two, np.maximum),
        f"v_pk_mad_{name}": Operation(kind, (kind, kind, kind), _multiply_add, saturates=True),
    }


def _first_elements(a: Array, b: Array) -> Array:
    """V_PK_MOV_B32: ``op_sel`` picks the element of each operand, which thereby is its low one."""
    return np.stack(np.broadcast_arrays(a[..., 0], b[..., 0]), -1)


_PAIRS = {
    **_integer_pairs(I16X2),
    **_integer_pairs(U16X2),
    "v_pk_mul_lo_u16": Operation(U16X2, (U16X2, U16X2), lambda a, b: a * b),
    "v_pk_lshlrev_b16": Operation(U16X2, (U16X2, U16X2), lambda n, a: bits.shift_left(a, n)),
    "v_pk_lshrrev_b16": Operation(U16X2, (U16X2, U16X2), lambda n, a: bits.shift_right(a, n)),
    "v_pk_ashrrev_i16": Operation(I16X2, (U16X2, I16X2), lambda n, a: bits.shift_right(a, n)),
    "v_pk_add_f16": Operation(F16X2, (F16X2, F16X2), lambda a, b: a + b),
    "v_pk_mul_f16": Operation(F16X2, (F16X2, F16X2), lambda a, b: a * b),
    "v_pk_min_f16": Operation(F16X2, (F16X2, F16X2), floats.minimum),
    "v_pk_max_f16": Operation(F16X2, (F16X2, F16X2), floats.maximum),
    "v_pk_fma_f16": Operation(F16X2, (F16X2, F16X2, F16X2), floats.fused_multiply_add),
    "v_pk_fmac_f16": Operation(F16X2, (F16X2, F16X2), floats.fused_multiply_add, reads_destination=True),
    "v_pk_add_f32": Operation(F32X2, (F32X2, F32X2), lambda a, b: a + b),
    "v_pk_mul_f32": Operation(F32X2, (F32X2, F32X2), lambda a, b: a * b),
    "v_pk_fma_f32": Operation(F32X2, (F32X2, F32X2, F32X2), floats.fused_multiply_add),
    "v_pk_mov_b32": Operation(U32X2, (U32X2, U32X2), _first_elements),
}


def _split(parts: Callable[..., Array], signed: bool) -> Callable[[Array], Array]:
    return lambda a: parts(a, signed=signed)


def _dot(a: Array, b: Array, c: Array, *, clamp: bool) -> Array:
    """``c`` plus the products along the last axis (whose sum the type of ``a`` and ``b`` holds), cut or saturated to
    the type of ``c``.
    """
    products = a * b
    total = products[..., 0]
    for element in range(1, products.shape[-1]):
        total = total + products[..., element]
    if clamp:
        return bits.saturate(total.astype(np.int64) + c.astype(np.int64), c.dtype)
    return total.astype(c.dtype) + c


def _integer_dot(elements: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda a, b, c, *, clamp=False: _dot(elements(a), elements(b), c, clamp=clamp)


def _mixed_dot(parts: Callable[..., Array]) -> Callable[..., Array]:
    """V_DOT4_I32_IU8, V_DOT8_I32_IU4: ``signed`` says it for each of the two operands."""

    def dot(a: Array, b: Array, c: Array, *, signed: tuple[bool, bool], clamp: bool = False) -> Array:
        return _dot(parts(a, signed=signed[0]), parts(b, signed=signed[1]), c, clamp=clamp)

    return dot


def _wide(pair: Array) -> Array:
    return pair.astype(np.int64)


_INTEGER_DOTS = {
    "v_dot2_i32_i16": Operation(I32, (I16X2, I16X2, I32), _integer_dot(_wide), saturates=True),
    "v_dot2_u32_u16": Operation(U32, (U16X2, U16X2, U32), _integer_dot(_wide), saturates=True),
    "v_dot4_i32_i8": Operation(I32, (U32, U32, I32), _integer_dot(_split(bits.bytes_of, True)), saturates=True),
    "v_dot4_u32_u8": Operation(U32, (U32, U32, U32), _integer_dot(_split(bits.bytes_of, False)), saturates=True),
    "v_dot8_i32_i4": Operation(I32, (U32, U32, I32), _integer_dot(_split(bits.nibbles_of, True)), saturates=True),
    "v_dot8_u32_u4": Operation(U32, (U32, U32, U32), _integer_dot(_split(bits.nibbles_of, False)), saturates=True),
    "v_dot2c_i32_i16": Operation(I32, (I16X2, I16X2), _integer_dot(_wide), reads_destination=True, saturates=True),
    "v_dot4c_i32_i8": Operation(
        I32, (U32, U32), _integer_dot(_split(bits.bytes_of, True)), reads_destination=True, saturates=True
    ),
    "v_dot8c_i32_i4": Operation(
        I32, (U32, U32), _integer_dot(_split(bits.nibbles_of, True)), reads_destination=True, saturates=True
    ),
    "v_dot4_i32_iu8": Operation(I32, (U32, U32, I32), _mixed_dot(bits.bytes_of), sign_flags=True, saturates=True),
    "v_dot8_i32_iu4": Operation(I32, (U32, U32, I32), _mixed_dot(bits.nibbles_of), sign_flags=True, saturates=True),
}


def widen_bf16(bf16: Array) -> Array:
    """float32 of bfloat16 numbers given by their bits."""
    word: Array = bf16.astype(np.uint32) << np.uint32(16)
    return word.view(np.float32)


def _chain(a: Array, b: Array, c: Array) -> Array:
    first = floats.fused_multiply_add(a[..., 0], b[..., 0], c)
    return floats.fused_multiply_add(a[..., 1], b[..., 1], first)


def _dot_f32(a: Array, b: Array, c: Array) -> Array:
    return floats.flush(_chain(a.astype(np.float32), b.astype(np.float32), floats.flush(c)))


def dot_f32_bf16(a: Array, b: Array, c: Array) -> Array:
    return _dot_f32(widen_bf16(a), widen_bf16(b), c)


_FLOAT_DOTS = {
    "v_dot2_f32_f16": Operation(F32, (F16X2, F16X2, F32), _dot_f32),
    "v_dot2_f32_bf16": Operation(F32, (BF16X2, BF16X2, F32), dot_f32_bf16),
    "v_dot2c_f32_f16 v_dot2acc_f32_f16": Operation(F32, (F16X2, F16X2), _dot_f32, reads_destination=True),
    "v_dot2_f16_f16": Operation(F16, (F16X2, F16X2, F16), _chain),
}

OPERATIONS = table({**_PAIRS, **_INTEGER_DOTS, **_FLOAT_DOTS})
