"""Conversions against Python's exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from values import OPERATIONS, Array, assert_same, check, operands, rounded, run, spelled

from octave_gen.isa import convert
from octave_gen.isa.types import F16, F32, F64, Type

LIMITS = {"i32": (-(1 << 31), (1 << 31) - 1), "u32": (0, (1 << 32) - 1), "i16": (-(1 << 15), (1 << 15) - 1)}
LIMITS["u16"] = (0, (1 << 16) - 1)


def held(value: float, low: int, high: int, round_: Callable[[float], int] = math.trunc) -> int:
    """Rounded, saturated, NaN as 0."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(round_(value), low), high)


def plus_half(value: float) -> int:
    return math.floor(np.float32(value) + np.float32(0.5))


TO_INTEGER: dict[str, Callable[[float], int]] = spelled(
    {
        "v_cvt_i32_f32 v_cvt_i32_f64": lambda a: held(a, *LIMITS["i32"]),
        "v_cvt_u32_f32 v_cvt_u32_f64": lambda a: held(a, *LIMITS["u32"]),
        "v_cvt_i16_f16": lambda a: held(a, *LIMITS["i16"]),
        "v_cvt_u16_f16": lambda a: held(a, *LIMITS["u16"]),
        "v_cvt_flr_i32_f32 v_cvt_floor_i32_f32": lambda a: held(a, *LIMITS["i32"], math.floor),
        "v_cvt_rpi_i32_f32 v_cvt_nearest_i32_f32": lambda a: held(a, *LIMITS["i32"], plus_half),
        "v_cvt_i32_i16 v_cvt_u32_u16": lambda a: a,
    }
)
TO_FLOAT: dict[str, tuple[Type, Callable[[Any], Any]]] = spelled(
    {
        "v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_f32_f16 v_cvt_f32_f64": (F32, lambda a: a),
        "v_cvt_f64_i32 v_cvt_f64_u32 v_cvt_f64_f32": (F64, lambda a: a),
        "v_cvt_f16_i16 v_cvt_f16_u16 v_cvt_f16_f32": (F16, lambda a: a),
        "v_cvt_f32_ubyte0": (F32, lambda a: a & 0xFF),
        "v_cvt_f32_ubyte1": (F32, lambda a: a >> 8 & 0xFF),
        "v_cvt_f32_ubyte2": (F32, lambda a: a >> 16 & 0xFF),
        "v_cvt_f32_ubyte3": (F32, lambda a: a >> 24),
        "v_cvt_off_f32_i4": (F32, lambda a: ((a & 15) - (16 if a & 8 else 0)) / 16),
    }
)


def half(value: float, *, toward_zero: bool = False) -> int:
    """The bits of the float16 that a number becomes."""
    if math.isfinite(value) and value != 0:
        value = rounded(Fraction(value), np.float16, toward_zero=toward_zero)
    return int(np.array(value, np.float16).view(np.uint16))


def both(convert_: Callable[[Any], int]) -> Callable[[Any, Any], int]:
    return lambda a, b: convert_(a) & 0xFFFF | (convert_(b) & 0xFFFF) << 16


def insert_byte(a: float, position: int, old: int) -> int:
    shift = 8 * (position & 3)
    return old & ~(0xFF << shift) | held(a, 0, 255, round) << shift


PACKED: dict[str, Callable[..., int]] = spelled(
    {
        "v_cvt_pk_i16_f32": both(lambda a: held(a, *LIMITS["i16"])),
        "v_cvt_pk_u16_f32": both(lambda a: held(a, *LIMITS["u16"])),
        "v_cvt_pk_i16_i32": both(lambda a: min(max(a, -(1 << 15)), (1 << 15) - 1)),
        "v_cvt_pk_u16_u32": both(lambda a: min(a, (1 << 16) - 1)),
        "v_cvt_pk_u8_f32": insert_byte,
    }
)
TOWARD_ZERO = ["v_cvt_pkrtz_f16_f32", "v_cvt_pk_rtz_f16_f32"]


def test_every_instruction_has_a_statement() -> None:
    assert {*TO_INTEGER, *TO_FLOAT, *PACKED, *TOWARD_ZERO, "v_pack_b32_f16"} == set(convert.OPERATIONS)


def borders(name: str) -> list[Array]:
    """The usual operands, and numbers around the borders of the integer formats and their ties."""
    values = operands(OPERATIONS[name].operands, count=1500)
    kind = OPERATIONS[name].operands[0].dtype
    if kind.kind == "f":
        points = [
            sign * (2.0**p + d) for sign in (1, -1) for p in (7, 8, 15, 16, 31, 32) for d in (-1, -0.5, 0, 0.5, 1)
        ]
        with np.errstate(all="ignore"):
            values[0][0, : len(points)] = np.array(points).astype(kind)
    return values


@pytest.mark.parametrize("name", [*TO_INTEGER, *PACKED])
def test_to_integer(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation.result is not None
    check(name, {**TO_INTEGER, **PACKED}[name], borders(name), operation.result.dtype)


@pytest.mark.parametrize("name", TO_FLOAT)
def test_to_float(name: str) -> None:
    kind, value_of = TO_FLOAT[name]
    values = borders(name)

    def statement(a: Any) -> float:
        value = value_of(a)
        return rounded(Fraction(value), kind.dtype) if math.isfinite(value) and value else value

    with np.errstate(all="ignore"):
        want = np.array([statement(a) for a in values[0].ravel().tolist()], kind.dtype)
    assert_same(run(name, *values), want.reshape(values[0].shape), *values, what=name)


def test_every_float16_tie_rounds_to_even() -> None:
    """All midpoints of neighbouring float16 numbers, denormals included, and their neighbours in float32."""
    grid = np.arange(0x7BFF, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = ((grid + np.append(grid[1:], 65504.0)) / 2).astype(np.float32)[None]
    below, above = (np.nextafter(middle, np.float32(x)) for x in (-np.inf, np.inf))
    order = np.arange(0x7BFF, dtype=np.uint16)
    assert (run("v_cvt_f16_f32", middle).view(np.uint16)[0] == order + order % 2).all()
    assert (run("v_cvt_f16_f32", below).view(np.uint16)[0] == order).all()
    assert (run("v_cvt_f16_f32", above).view(np.uint16)[0] == order + 1).all()
    huge = np.array([[65519.996, 65520.0, -65520.0]], np.float32)
    assert run("v_cvt_f16_f32", huge)[0].tolist() == [65504.0, math.inf, -math.inf]


@pytest.mark.parametrize("name", TOWARD_ZERO)
def test_toward_zero(name: str) -> None:
    values = borders(name)
    numbers = [np.where(np.isnan(v), np.float32(1), v) for v in values]
    check(name, both(lambda a: half(a, toward_zero=True)), numbers, np.uint32)
    low = run(name, *values).view(np.uint16).reshape(*values[0].shape, 2)[..., 0].view(np.float16)
    assert (np.isnan(low) == np.isnan(values[0])).all()
    huge = np.array([[65519.0, 65520.0, 1e30, -1e30, math.inf]], np.float32)
    assert (run(name, huge, huge) & 0xFFFF)[0].tolist() == [0x7BFF, 0x7BFF, 0x7BFF, 0xFBFF, 0x7C00]


def test_pack_keeps_every_bit() -> None:
    a, b = operands((F16, F16))
    got = run("v_pack_b32_f16", a, b)
    assert (got == a.view(np.uint16).astype(np.uint32) + (b.view(np.uint16).astype(np.uint32) << 16)).all()
