"""Scalar instructions, SCC included, against Python integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from values import OPERATIONS, check, operands, run, spelled

from octave_gen.isa import scalar

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def field(bits: int, *, sign: bool) -> Callable[[int, int], int]:
    def extract(a: int, where: int) -> int:
        offset, size = where & bits - 1, where >> 16 & 0x7F
        size = min(size, bits)
        value = (a >> offset) & ((1 << size) - 1)
        return signed(value, size) if sign and size else value

    return extract


def leading_zeros(bits: int) -> Callable[[int], int]:
    return lambda a: bits - a.bit_length() if a else -1


def leading_signs(bits: int) -> Callable[[int], int]:
    return lambda a: leading_zeros(bits)(~a if a < 0 else a)


def trailing_zeros(bits: int, *, of: int) -> Callable[[int], int]:
    def search(a: int) -> int:
        return next((i for i in range(bits) if a >> i & 1 == of), -1)

    return search


def wrapping_distance(a: int, b: int) -> int:
    return abs(signed(a - b, 32))


PLAIN: dict[str, Callable[..., int]] = spelled(
    {
        "s_mov_b32 s_mov_b64 s_movk_i32": lambda a: a,
        "s_sext_i32_i8": lambda a: signed(a, 8),
        "s_sext_i32_i16": lambda a: signed(a, 16),
        "s_mul_i32 s_mulk_i32": lambda a, b: a * b,
        "s_mul_hi_u32 s_mul_hi_i32": lambda a, b: a * b >> 32,
        "s_bfm_b32": lambda a, b: ((1 << (a & 31)) - 1) << (b & 31),
        "s_bfm_b64": lambda a, b: ((1 << (a & 63)) - 1) << (b & 63),
        "s_brev_b32": lambda a: int(f"{a:032b}"[::-1], 2),
        "s_brev_b64": lambda a: int(f"{a:064b}"[::-1], 2),
        "s_ff0_i32_b32": trailing_zeros(32, of=0),
        "s_ff0_i32_b64": trailing_zeros(64, of=0),
        "s_ff1_i32_b32 s_ctz_i32_b32": trailing_zeros(32, of=1),
        "s_ff1_i32_b64 s_ctz_i32_b64": trailing_zeros(64, of=1),
        "s_flbit_i32_b32 s_clz_i32_u32": leading_zeros(32),
        "s_flbit_i32_b64 s_clz_i32_u64": leading_zeros(64),
        "s_flbit_i32 s_cls_i32": leading_signs(32),
        "s_flbit_i32_i64 s_cls_i32_i64": leading_signs(64),
        "s_bitset0_b32": lambda a, old: old & ~(1 << (a & 31)),
        "s_bitset1_b32": lambda a, old: old | 1 << (a & 31),
        "s_bitset0_b64": lambda a, old: old & ~(1 << (a & 63)),
        "s_bitset1_b64": lambda a, old: old | 1 << (a & 63),
        "s_pack_ll_b32_b16": lambda a, b: a & 0xFFFF | (b & 0xFFFF) << 16,
        "s_pack_lh_b32_b16": lambda a, b: a & 0xFFFF | (b >> 16) << 16,
        "s_pack_hl_b32_b16": lambda a, b: a >> 16 | (b & 0xFFFF) << 16,
        "s_pack_hh_b32_b16": lambda a, b: a >> 16 | (b >> 16) << 16,
    }
)
"""Instructions that leave SCC alone; the old destination is the last argument."""

NONZERO: dict[str, Callable[..., int]] = spelled(
    {
        "s_not_b32 s_not_b64": lambda a: ~a,
        "s_and_b32 s_and_b64": lambda a, b: a & b,
        "s_or_b32 s_or_b64": lambda a, b: a | b,
        "s_xor_b32 s_xor_b64": lambda a, b: a ^ b,
        "s_andn2_b32 s_andn2_b64 s_and_not1_b32 s_and_not1_b64": lambda a, b: a & ~b,
        "s_orn2_b32 s_orn2_b64 s_or_not1_b32 s_or_not1_b64": lambda a, b: a | ~b,
        "s_nand_b32 s_nand_b64": lambda a, b: ~(a & b),
        "s_nor_b32 s_nor_b64": lambda a, b: ~(a | b),
        "s_xnor_b32 s_xnor_b64": lambda a, b: ~(a ^ b),
        "s_lshl_b32": lambda a, b: a << (b & 31),
        "s_lshr_b32 s_ashr_i32": lambda a, b: a >> (b & 31),
        "s_lshl_b64": lambda a, b: a << (b & 63),
        "s_lshr_b64 s_ashr_i64": lambda a, b: a >> (b & 63),
        "s_bfe_u32": field(32, sign=False),
        "s_bfe_i32": field(32, sign=True),
        "s_bfe_u64": field(64, sign=False),
        "s_bfe_i64": field(64, sign=True),
        "s_bcnt1_i32_b32 s_bcnt1_i32_b64": lambda a: a.bit_count(),
        "s_bcnt0_i32_b32": lambda a: 32 - a.bit_count(),
        "s_bcnt0_i32_b64": lambda a: 64 - a.bit_count(),
        "s_abs_i32": abs,
        "s_absdiff_i32": wrapping_distance,
    }
)
"""SCC tells whether the result is non-zero; the engine derives it."""


def fits(value: int) -> bool:
    return -(1 << 31) <= value < 1 << 31


RETURNED: dict[str, tuple[Callable[..., int], Callable[..., bool]]] = spelled(
    {
        "s_add_u32": (operator.add, lambda a, b: a + b > M32),
        "s_sub_u32": (operator.sub, lambda a, b: b > a),
        "s_addc_u32": (lambda a, b, scc: a + b + scc, lambda a, b, scc: a + b + scc > M32),
        "s_subb_u32": (lambda a, b, scc: a - b - scc, lambda a, b, scc: b + scc > a),
        "s_add_i32 s_addk_i32": (operator.add, lambda a, b: not fits(a + b)),
        "s_sub_i32": (operator.sub, lambda a, b: not fits(a - b)),
        "s_min_i32 s_min_u32": (min, operator.lt),
        "s_max_i32 s_max_u32": (max, operator.ge),
        "s_lshl1_add_u32": (lambda a, b: (a << 1) + b, lambda a, b: (a << 1) + b > M32),
        "s_lshl2_add_u32": (lambda a, b: (a << 2) + b, lambda a, b: (a << 2) + b > M32),
        "s_lshl3_add_u32": (lambda a, b: (a << 3) + b, lambda a, b: (a << 3) + b > M32),
        "s_lshl4_add_u32": (lambda a, b: (a << 4) + b, lambda a, b: (a << 4) + b > M32),
    }
)
"""Result and SCC."""

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "lg": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
COMPARES: dict[str, Callable[[int, int], bool]] = {
    **{f"s_{cmp}_{w}_{t}": f for cmp in ("cmp", "cmpk") for t in ("i32", "u32") for w, f in RELATIONS.items()},
    **{f"s_cmp_{w}_u64": RELATIONS[w] for w in ("eq", "lg")},
    **{f"s_bitcmp0_b{n}": lambda a, b, n=n: a >> (b & n - 1) & 1 == 0 for n in (32, 64)},  # type: ignore[misc]
    **{f"s_bitcmp1_b{n}": lambda a, b, n=n: a >> (b & n - 1) & 1 == 1 for n in (32, 64)},  # type: ignore[misc]
}
SELECTS = {"s_cmov_b32", "s_cmov_b64", "s_cmovk_i32", "s_cselect_b32", "s_cselect_b64"}


def scalars(name: str) -> list[Any]:
    """Operands [waves], the old destination last where it is read."""
    operation = OPERATIONS[name]
    types = [*operation.operands]
    if operation.reads_destination:
        assert operation.result is not None
        types.append(operation.result)
    return [v.ravel() for v in operands(types, cross=1500)]


def test_every_instruction_has_a_statement() -> None:
    assert set(PLAIN) | set(NONZERO) | set(RETURNED) | set(COMPARES) | SELECTS == set(scalar.OPERATIONS)


@pytest.mark.parametrize("name", [*PLAIN, *NONZERO])
def test_result(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.result is not None
    assert operation.scc == ("result_nonzero" if name in NONZERO else None)
    check(name, {**PLAIN, **NONZERO}[name], scalars(name), operation.result.dtype)


@pytest.mark.parametrize("name", RETURNED)
def test_result_and_scc(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.result is not None
    assert operation.scc == "returned"
    statement, condition = RETURNED[name]
    values = scalars(name)
    if operation.reads_scc:
        values.append(np.random.default_rng(0).random(len(values[0])) < 0.5)
    result, scc = run(name, *values)
    lanes = list(zip(*(v.tolist() for v in values), strict=True))
    assert result.dtype == operation.result.dtype
    assert result.view(np.uint32).tolist() == [statement(*lane) & M32 for lane in lanes]
    assert scc.tolist() == [condition(*lane) for lane in lanes]


@pytest.mark.parametrize("name", COMPARES)
def test_compares_set_scc(name: str) -> None:
    operation = OPERATIONS[name]
    assert (operation.result, operation.scc) == (None, "returned")
    values = scalars(name)
    got = run(name, *values)
    assert got.dtype == np.bool_
    assert got.tolist() == [COMPARES[name](*lane) for lane in zip(*(v.tolist() for v in values), strict=True)]


@pytest.mark.parametrize("name", sorted(SELECTS))
def test_selection_by_scc(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.result is not None
    assert operation.reads_scc
    first, second = scalars(name)
    scc = np.random.default_rng(0).random(len(first)) < 0.5
    got = run(name, first, second, scc)
    assert got.dtype == operation.result.dtype
    want = [a if chosen else b for a, b, chosen in zip(first.tolist(), second.tolist(), scc.tolist(), strict=True)]
    assert got.tolist() == want


def test_examples_of_the_guides() -> None:
    def one(name: str, *values: int) -> int:
        types = OPERATIONS[name].operands
        arrays = [
            np.array([v & (1 << 8 * t.dtype.itemsize) - 1], f"u{t.dtype.itemsize}")
            for v, t in zip(values, types, strict=True)
        ]
        result = run(name, *(a.view(t.dtype) for a, t in zip(arrays, types, strict=True)))
        return int(result[0]) & M32

    assert one("s_absdiff_i32", 2, 5) == 3
    assert one("s_absdiff_i32", 0x80000000, 0) == 0x80000000
    assert one("s_absdiff_i32", 0x80000000, 0xFFFFFFFF) == 0x7FFFFFFF
    assert one("s_abs_i32", 0x80000000) == 0x80000000
    assert one("s_flbit_i32", 0xFFFF3333) == 16
    assert one("s_flbit_i32_b32", 0x0000CCCC) == 16
    assert one("s_ff0_i32_b32", 0xFFFEFFFF) == 16
    assert one("s_bcnt0_i32_b32", 0xCCCCCCCC) == 16
