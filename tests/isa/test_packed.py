"""Packed instructions element by element, dot products against exact integers and fractions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from values import OPERATIONS, Array, assert_same, exact_fma, operands, pairs, run, spelled

from octave_gen.isa import packed
from octave_gen.isa.types import BF16X2, F16, F16X2, F32, I16X2, I32, U16X2, U32

M32 = (1 << 32) - 1
ELEMENTWISE: dict[str, str] = {
    **{f"v_pk_{w}_{k}": f"v_{w}_{k}" for w in ("add", "sub", "min", "max", "mad") for k in ("i16", "u16")},
    "v_pk_mul_lo_u16": "v_mul_lo_u16",
    "v_pk_lshlrev_b16": "v_lshlrev_b16",
    "v_pk_lshrrev_b16": "v_lshrrev_b16",
    "v_pk_ashrrev_i16": "v_ashrrev_i16",
    **{f"v_pk_{w}_f16": f"v_{w}_f16" for w in ("add", "mul", "min", "max", "fma")},
    "v_pk_fmac_f16": "v_fma_f16",
    **{f"v_pk_{w}_f32": f"v_{w}_f32" for w in ("add", "mul", "fma")},
}
"""Packed instructions and the ones that do the same for a single element."""


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elements(name: str) -> None:
    operation, single = OPERATIONS[name], ELEMENTWISE[name]
    types = [*operation.operands]
    if operation.reads_destination:
        assert operation.result is not None
        types.append(operation.result)
    values = pairs(types)
    for options in ({"clamp": True}, {"clamp": False}) if operation.saturates else ({},):
        got = run(name, *values, **options)
        assert got.shape == values[0].shape
        for element in (0, 1):
            want = run(single, *(v[..., element] for v in values), **options)
            assert_same(got[..., element], want, what=f"{name} {options}")
    narrow = [values[0][:1, :1], *values[1:]]
    wide = [np.broadcast_to(values[0][:1, :1], values[0].shape), *values[1:]]
    assert_same(run(name, *narrow), np.ascontiguousarray(run(name, *wide)), what=f"{name} broadcast")


def test_pk_mov_takes_what_op_sel_picked() -> None:
    a, b = (np.arange(24, dtype=np.uint32).reshape(3, 4, 2) + k for k in (0, 100))
    got = run("v_pk_mov_b32", a, b)
    assert (got[..., 0] == a[..., 0]).all()
    assert (got[..., 1] == b[..., 0]).all()
    assert run("v_pk_mov_b32", a[:1, :1], b).shape == b.shape


def parts(value: int, bits: int, *, signed: bool) -> list[int]:
    fields = [value >> shift & (1 << bits) - 1 for shift in range(0, 32, bits)]
    return [f - (1 << bits) if signed and f >> bits - 1 else f for f in fields]


def dot(a: int, b: int, c: int, bits: int, signs: tuple[bool, bool]) -> int:
    return c + sum(x * y for x, y in zip(parts(a, bits, signed=signs[0]), parts(b, bits, signed=signs[1]), strict=True))


BYTES_AND_NIBBLES: dict[str, tuple[int, bool]] = spelled(
    {
        "v_dot4_i32_i8 v_dot4c_i32_i8": (8, True),
        "v_dot4_u32_u8": (8, False),
        "v_dot8_i32_i4 v_dot8c_i32_i4": (4, True),
        "v_dot8_u32_u4": (4, False),
    }
)
MIXED = {"v_dot4_i32_iu8": 8, "v_dot8_i32_iu4": 4}
HALVES = {"v_dot2_i32_i16": True, "v_dot2c_i32_i16": True, "v_dot2_u32_u16": False}


def wrapped(values: list[int], kind: np.dtype[np.generic], *, clamp: bool) -> list[int]:
    limits = np.iinfo(kind)
    if clamp:
        return [min(max(v, int(limits.min)), int(limits.max)) for v in values]
    return np.array([v & M32 for v in values], np.uint32).view(kind).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("name", BYTES_AND_NIBBLES)
def test_dot_products_of_bytes_and_nibbles(name: str, clamp: bool) -> None:
    bits, signed = BYTES_AND_NIBBLES[name]
    a, b, c = operands((U32, U32, I32 if signed else U32), cross=1500)
    exact = [dot(*lane, bits, (signed, signed)) for lane in zip(*(v.ravel().tolist() for v in (a, b, c)), strict=True)]
    got = run(name, a, b, c, clamp=clamp)
    assert got.dtype == c.dtype
    assert got.ravel().tolist() == wrapped(exact, c.dtype, clamp=clamp)


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("signs", [(x, y) for x in (False, True) for y in (False, True)])
def test_dot_products_with_signs_chosen_by_neg_lo(name: str, signs: tuple[bool, bool], clamp: bool) -> None:
    a, b, c = operands((U32, U32, I32), cross=1500)
    exact = [dot(*lane, MIXED[name], signs) for lane in zip(*(v.ravel().tolist() for v in (a, b, c)), strict=True)]
    got = run(name, a, b, c, signed=signs, clamp=clamp)
    assert OPERATIONS[name].sign_flags
    assert got.dtype == np.int32
    assert got.ravel().tolist() == wrapped(exact, c.dtype, clamp=clamp)


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("name", HALVES)
def test_dot_products_of_halves(name: str, clamp: bool) -> None:
    kind, total = (I16X2, I32) if HALVES[name] else (U16X2, U32)
    a, b, c = pairs((kind, kind, total))
    a[0, :4], b[0, :4], c[0, :4] = np.iinfo(kind.dtype).max, np.iinfo(kind.dtype).max, np.iinfo(total.dtype).max
    a[0, 4:8], b[0, 4:8] = np.iinfo(kind.dtype).min, np.iinfo(kind.dtype).max
    exact = [
        z + x[0] * y[0] + x[1] * y[1]
        for x, y, z in zip(a.reshape(-1, 2).tolist(), b.reshape(-1, 2).tolist(), c.ravel().tolist(), strict=True)
    ]
    got = run(name, a, b, c, clamp=clamp)
    assert got.dtype == total.dtype
    assert got.ravel().tolist() == wrapped(exact, c.dtype, clamp=clamp)


def flushed(value: float) -> float:
    return math.copysign(0.0, value) if abs(value) < 2.0**-126 else value


def float_dot(a: Array, b: Array, c: Array, dtype: type[np.floating], flush: Callable[[float], float]) -> Array:
    """Accumulator first, low element before high, each step rounded to ``dtype``."""
    flat = []
    for x, y, z in zip(a.reshape(-1, 2).tolist(), b.reshape(-1, 2).tolist(), c.ravel().tolist(), strict=True):
        first = exact_fma(x[0], y[0], flush(z), dtype)
        flat.append(flush(exact_fma(x[1], y[1], first, dtype)))
    with np.errstate(all="ignore"):
        return np.array(flat, np.float64).astype(dtype).reshape(c.shape)


@pytest.mark.parametrize("name", ["v_dot2_f32_f16", "v_dot2c_f32_f16", "v_dot2acc_f32_f16"])
def test_dot_products_of_float16(name: str) -> None:
    a, b, c = pairs((F16X2, F16X2, F32))
    assert_same(run(name, a, b, c), float_dot(a, b, c, np.float32, flushed), a[..., 0], b[..., 0], c, what=name)


def test_dot_products_of_bfloat16() -> None:
    a, b, c = pairs((F32, F32, F32), count=1600)
    bits = [(v.view(np.uint32) >> np.uint32(16)).astype(np.uint16).reshape(2, -1, 2) for v in (a, b)]
    c = c[:, : bits[0].shape[1]]
    assert OPERATIONS["v_dot2_f32_bf16"].operands[0] is BF16X2
    wide = [(v.astype(np.uint32) << np.uint32(16)).view(np.float32) for v in bits]
    assert_same(run("v_dot2_f32_bf16", *bits, c), float_dot(*wide, c, np.float32, flushed), c, what="v_dot2_f32_bf16")


def test_dot_products_into_float16() -> None:
    a, b, c = pairs((F16X2, F16X2, F16))
    assert_same(run("v_dot2_f16_f16", a, b, c), float_dot(a, b, c, np.float16, lambda v: v), c, what="v_dot2_f16_f16")


def test_everything_is_tested() -> None:
    floats = {"v_dot2_f32_f16", "v_dot2c_f32_f16", "v_dot2acc_f32_f16", "v_dot2_f32_bf16", "v_dot2_f16_f16"}
    tested = {*ELEMENTWISE, *BYTES_AND_NIBBLES, *MIXED, *HALVES, *floats, "v_pk_mov_b32"}
    assert tested == set(packed.OPERATIONS)
