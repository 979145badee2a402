"""Integer vector instructions against Python integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from values import OPERATIONS, check, operands, run, spelled

from octave_gen.isa import vector_integer
from octave_gen.isa.types import I32, U32, U64

M32 = (1 << 32) - 1


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def field_unsigned(a: int, offset: int, size: int) -> int:
    return (a >> (offset & 31)) & ((1 << (size & 31)) - 1)


def field_signed(a: int, offset: int, size: int) -> int:
    size &= 31
    return signed((a >> (offset & 31)) & ((1 << size) - 1), size) if size else 0


def permute(a: int, b: int, selector: int) -> int:
    """Byte by byte, from the description of V_PERM_B32."""
    both, result = a << 32 | b, 0
    for position in range(4):
        code = selector >> 8 * position & 0xFF
        if code < 8:
            byte = both >> 8 * code & 0xFF
        elif code < 12:
            byte = 0xFF if both >> 16 * (code - 8) + 15 & 1 else 0
        else:
            byte = 0 if code == 12 else 0xFF
        result |= byte << 8 * position
    return result


def each_byte(a: int, b: int) -> int:
    return sum(abs((a >> s & 0xFF) - (b >> s & 0xFF)) for s in (0, 8, 16, 24))


def each_half(a: int, b: int) -> int:
    return sum(abs((a >> s & 0xFFFF) - (b >> s & 0xFFFF)) for s in (0, 16))


def leading_zeros(a: int) -> int:
    return 32 - a.bit_length() if a else -1


def trailing_zeros(a: int) -> int:
    return (a & -a).bit_length() - 1 if a else -1


def leading_signs(a: int) -> int:
    return leading_zeros((~a if a < 0 else a) & M32)


def middle(a: int, b: int, c: int) -> int:
    return sorted((a, b, c))[1]


STATEMENTS: dict[str, Callable[..., int]] = spelled(
    {
        "v_mov_b32 v_mov_b16 v_mov_b64": lambda a: a,
        "v_not_b32 v_not_b16": lambda a: ~a,
        "v_and_b32 v_and_b16": lambda a, b: a & b,
        "v_or_b32 v_or_b16": lambda a, b: a | b,
        "v_xor_b32 v_xor_b16": lambda a, b: a ^ b,
        "v_xnor_b32": lambda a, b: ~(a ^ b),
        "v_and_or_b32": lambda a, b, c: (a & b) | c,
        "v_or3_b32": lambda a, b, c: a | b | c,
        "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
        "v_bfi_b32": lambda a, b, c: sum(((b if a >> i & 1 else c) >> i & 1) << i for i in range(32)),
        "v_lshlrev_b32": lambda a, b: b << (a & 31),
        "v_lshrrev_b32 v_ashrrev_i32": lambda a, b: b >> (a & 31),
        "v_lshlrev_b64": lambda a, b: b << (a & 63),
        "v_lshrrev_b64 v_ashrrev_i64": lambda a, b: b >> (a & 63),
        "v_lshlrev_b16": lambda a, b: b << (a & 15),
        "v_lshrrev_b16 v_ashrrev_i16": lambda a, b: b >> (a & 15),
        "v_lshl_or_b32": lambda a, b, c: a << (b & 31) | c,
        "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
        "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & 31),
        "v_lshl_add_u64": lambda a, b, c: (a << (b & 7)) + c,
        "v_alignbit_b32": lambda a, b, c: (a << 32 | b) >> (c & 31),
        "v_alignbyte_b32": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
        "v_bfe_u32": field_unsigned,
        "v_bfe_i32": field_signed,
        "v_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
        "v_bfrev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
        "v_bcnt_u32_b32": lambda a, b: a.bit_count() + b,
        "v_ffbh_u32 v_clz_i32_u32": leading_zeros,
        "v_ffbl_b32 v_ctz_i32_b32": trailing_zeros,
        "v_ffbh_i32 v_cls_i32": leading_signs,
        "v_perm_b32": permute,
        "v_add_u32 v_add_nc_u32 v_add_i32 v_add_nc_i32": lambda a, b: a + b,
        "v_add_u16 v_add_nc_u16 v_add_i16 v_add_nc_i16": lambda a, b: a + b,
        "v_sub_u32 v_sub_nc_u32 v_sub_i32 v_sub_nc_i32": lambda a, b: a - b,
        "v_sub_u16 v_sub_nc_u16 v_sub_i16 v_sub_nc_i16": lambda a, b: a - b,
        "v_subrev_u32 v_subrev_nc_u32 v_subrev_u16": lambda a, b: b - a,
        "v_add3_u32": lambda a, b, c: a + b + c,
        "v_xad_u32": lambda a, b, c: (a ^ b) + c,
        "v_sad_u8": lambda a, b, c: each_byte(a, b) + c,
        "v_sad_hi_u8": lambda a, b, c: (each_byte(a, b) << 16) + c,
        "v_sad_u16": lambda a, b, c: each_half(a, b) + c,
        "v_sad_u32": lambda a, b, c: abs(a - b) + c,
        "v_mul_lo_u32 v_mul_lo_u16": lambda a, b: a * b,
        "v_mul_hi_u32 v_mul_hi_i32": lambda a, b: a * b >> 32,
        "v_mul_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
        "v_mul_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24),
        "v_mul_hi_u32_u24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32,
        "v_mul_hi_i32_i24": lambda a, b: signed(a, 24) * signed(b, 24) >> 32,
        "v_mad_u32_u24": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
        "v_mad_i32_i24": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
        "v_mad_u32_u16 v_mad_i32_i16": lambda a, b, c: a * b + c,
        "v_mad_u16 v_mad_i16 v_mad_legacy_u16 v_mad_legacy_i16": lambda a, b, c: a * b + c,
        "v_min_u32 v_min_i32 v_min_u16 v_min_i16": min,
        "v_max_u32 v_max_i32 v_max_u16 v_max_i16": max,
        "v_min3_u32 v_min3_i32 v_min3_u16 v_min3_i16": min,
        "v_max3_u32 v_max3_i32 v_max3_u16 v_max3_i16": max,
        "v_med3_u32 v_med3_i32 v_med3_u16 v_med3_i16": middle,
        "v_maxmin_u32 v_maxmin_i32": lambda a, b, c: min(max(a, b), c),
        "v_minmax_u32 v_minmax_i32": lambda a, b, c: max(min(a, b), c),
    }
)
MASKED = {name for name, operation in vector_integer.OPERATIONS.items() if operation.carry_in or operation.carry_out}


def test_every_instruction_has_a_statement() -> None:
    assert set(STATEMENTS) | MASKED == set(vector_integer.OPERATIONS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_integers(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.result is not None
    check(name, STATEMENTS[name], operands(operation.operands, cross=1500), operation.result.dtype)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 32), (2, 32)])
def test_byte_permutation_of_every_shape_of_operands(shape: tuple[int, int]) -> None:
    """Plain selectors and those with codes above 7 are computed in different ways."""
    rng = np.random.default_rng(4)
    a, b = (rng.integers(0, 1 << 32, shape, dtype=np.uint32) for _ in range(2))
    for codes in (8, 16, 256):
        chosen = rng.integers(0, codes, (2, 32, 4), dtype=np.uint8).view(np.uint32)[..., 0]
        for selector in (chosen, chosen[:1, :1], chosen[:, :1]):
            got = run("v_perm_b32", a, b, selector)
            lanes = np.broadcast_arrays(a, b, selector)
            assert got.shape == lanes[0].shape
            assert got.ravel().tolist() == [permute(*x) for x in zip(*(v.ravel().tolist() for v in lanes), strict=True)]


SATURATING = sorted(name for name, operation in vector_integer.OPERATIONS.items() if operation.saturates)


@pytest.mark.parametrize("name", SATURATING)
def test_clamp_saturates_the_exact_result(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.result is not None
    limits = np.iinfo(operation.result.dtype)
    exact = STATEMENTS[name]
    values = operands(operation.operands, seed=1, cross=800)
    check(name, lambda *v: min(max(exact(*v), int(limits.min)), int(limits.max)), values, limits.dtype, clamp=True)
    check(name, exact, values, limits.dtype, clamp=False)


@pytest.mark.parametrize(
    ("names", "exact"),
    [
        ("v_add_co_u32", lambda a, b, carry: a + b),
        ("v_sub_co_u32", lambda a, b, carry: a - b),
        ("v_subrev_co_u32", lambda a, b, carry: b - a),
        ("v_addc_co_u32 v_add_co_ci_u32", lambda a, b, carry: a + b + carry),
        ("v_subb_co_u32 v_sub_co_ci_u32", lambda a, b, carry: a - b - carry),
        ("v_subbrev_co_u32 v_subrev_co_ci_u32", lambda a, b, carry: b - a - carry),
    ],
)
def test_carries(names: str, exact: Callable[[int, int, int], int]) -> None:
    a, b = operands((U32, U32))
    carry = np.random.default_rng(0).random(a.shape) < 0.5
    for name in names.split():
        inputs = (a, b, carry) if OPERATIONS[name].carry_in else (a, b)
        value, out = run(name, *inputs)
        wide = [exact(int(x), int(y), int(z)) for x, y, z in zip(a.flat, b.flat, carry.flat, strict=True)]
        assert value.dtype == np.uint32
        assert value.ravel().tolist() == [x & M32 for x in wide]
        assert out.ravel().tolist() == [not 0 <= x <= M32 for x in wide]


def test_multiply_add_into_64_bits() -> None:
    a, b, c = operands((U32, U32, U64), cross=1500)
    value, out = run("v_mad_u64_u32", a, b, c)
    wide = [x * y + z for x, y, z in zip(a.ravel().tolist(), b.ravel().tolist(), c.ravel().tolist(), strict=True)]
    assert value.ravel().tolist() == [x & (1 << 64) - 1 for x in wide]
    assert out.ravel().tolist() == [x >> 64 != 0 for x in wide]

    a, b, c = operands(OPERATIONS["v_mad_i64_i32"].operands, cross=1500)
    value, out = run("v_mad_i64_i32", a, b, c)
    wide = [x * y + z for x, y, z in zip(a.ravel().tolist(), b.ravel().tolist(), c.ravel().tolist(), strict=True)]
    assert value.dtype == np.int64
    assert value.ravel().tolist() == [signed(x, 64) for x in wide]
    assert out.ravel().tolist() == [bool(x >> 64 & 1) for x in wide]


@pytest.mark.parametrize("name", ["v_cndmask_b32", "v_cndmask_b16"])
def test_selection_keeps_every_bit(name: str) -> None:
    kind = OPERATIONS[name].operands[0]
    a, b = operands((kind, kind))
    mask = np.random.default_rng(0).random(a.shape) < 0.5
    unsigned: Any = {2: np.uint16, 4: np.uint32}[kind.dtype.itemsize]
    got = run(name, a, b, mask).view(unsigned)
    assert (got == np.where(mask, b.view(unsigned), a.view(unsigned))).all()


@pytest.mark.parametrize("name", sorted(vector_integer.OPERATIONS))
def test_an_operand_that_is_the_same_for_all_lanes_broadcasts(name: str) -> None:
    operation = OPERATIONS[name]
    values = operands(operation.operands, cross=200)
    extra = [np.ones(values[0].shape, bool)] if operation.carry_in else []
    for one in range(len(values)):
        wide = [
            np.ascontiguousarray(np.broadcast_to(v[:1, :1], v.shape)) if i == one else v for i, v in enumerate(values)
        ]
        narrow = [v[:1, :1] if i == one else v for i, v in enumerate(values)]
        want, got = run(name, *wide, *extra), run(name, *narrow, *extra)
        for x, y in zip(want, got, strict=True) if operation.carry_out else ((want, got),):
            assert np.array_equal(np.broadcast_to(y, x.shape), x, equal_nan=x.dtype.kind == "f")


def test_examples_of_the_guides() -> None:
    def one(name: str, *values: int, kind: Any = np.uint32) -> int:
        return int(run(name, *(np.array([[v]], kind) for v in values))[0, 0])

    assert one("v_ffbh_u32", 0) == -1
    assert one("v_ffbh_u32", 0x100000FF) == 3
    assert one("v_ffbl_b32", 0xFF000008) == 3
    assert one("v_cls_i32", 0x0FFFFFFF, kind=I32.dtype) == 4
    assert one("v_cls_i32", -1, kind=I32.dtype) == -1
    assert one("v_cls_i32", -2, kind=I32.dtype) == 31
