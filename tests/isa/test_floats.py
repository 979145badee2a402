"""Fused multiply-add against exact fractions, minimum and maximum on the bits, flushing, the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from values import FLOAT_BITS, UNSIGNED, Array, assert_same, code, edges, exact_fma, lanes, operands, random

from octave_gen.isa import floats
from octave_gen.isa.types import F16, F32, F64, Type

KINDS = pytest.mark.parametrize("kind", [F16, F32, F64], ids=lambda k: k.name)


def fma(*values: Array) -> Array:
    with np.errstate(all="ignore"):
        return floats.fused_multiply_add(*values)


def want_fma(kind: Type, *values: Array) -> Array:
    return lanes(lambda a, b, c: exact_fma(a, b, c, kind.dtype), list(values), kind)


def last_places(kind: Type, count: int) -> list[Array]:
    """Addends that nearly cancel the product, and addends whose half unit in the last place the product nearly is."""
    rng = np.random.default_rng(7)
    fraction = FLOAT_BITS[code(kind.dtype)][0]
    a = (1 + rng.integers(0, 1 << fraction, count) / 2.0**fraction).astype(kind.dtype)
    b = (1 + rng.integers(0, 1 << fraction, count) / 2.0**fraction).astype(kind.dtype)
    with np.errstate(all="ignore"):
        near = -(a * b)
    unsigned = UNSIGNED[kind.dtype.itemsize]
    moved = near.view(unsigned) + rng.integers(0, 3, count).astype(unsigned)
    power = fraction + rng.integers(-1, 3, count)
    tie = np.ldexp(near.astype(np.float64), power).astype(kind.dtype)
    sign = np.where(rng.random(count) < 0.5, 1, -1).astype(kind.dtype)
    return [np.concatenate([x, y])[None] for x, y in ((a, a * sign), (b, b), (moved.view(kind.dtype), tie))]


@KINDS
def test_fma_is_rounded_once(kind: Type) -> None:
    for values in (operands((kind, kind, kind), count=3000), last_places(kind, 1500)):
        assert_same(fma(*values), want_fma(kind, *values), *values, what=f"fma {kind.name}")


@KINDS
def test_fma_of_denormals(kind: Type) -> None:
    """Results around the least normal number, from products below and addends on both sides of it."""
    rng = np.random.default_rng(3)
    fraction, exponent = FLOAT_BITS[code(kind.dtype)]
    least = 2 - (1 << exponent - 1)

    def around(power: int) -> Array:
        significand = rng.integers(-(1 << fraction), 1 << fraction, (1, 3000)).astype(np.float64)
        return np.ldexp(significand, power - fraction + rng.integers(-3, 4, (1, 3000))).astype(kind.dtype)

    a, b, c = around(least // 2), around(least - least // 2), around(least)
    assert (np.abs(c) < np.finfo(kind.dtype).smallest_normal).mean() > 0.2
    assert_same(fma(a, b, c), want_fma(kind, a, b, c), a, b, c, what=f"denormal fma {kind.name}")
    half, none = np.full_like(c, 0.5), np.zeros_like(c)
    assert_same(fma(half, c, none), want_fma(kind, half, c, none), c, what="half a denormal")


def test_a_float32_fma_that_float64_would_round_twice() -> None:
    """The product is just below half a unit of the addend's last place; a sum in float64 lands on the tie."""
    a, b, c = (np.array([[v]], np.float32) for v in (2.0**-24 * (1 + 2.0**-15), 1 - 2.0**-15, 1 + 2.0**-23))
    twice = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)
    assert twice[0, 0] == np.float32(1 + 2.0**-22)
    assert fma(a, b, c)[0, 0] == c[0, 0]
    assert fma(-a, b, -c)[0, 0] == -c[0, 0]


def extreme(a: int, b: int, kind: Type, *, largest: bool) -> int | None:
    """V_MIN or V_MAX in the IEEE mode on the bits of two numbers; None for a NaN."""
    fraction, exponent = FLOAT_BITS[code(kind.dtype)]
    top = (1 << exponent) - 1 << fraction
    sign = 1 << fraction + exponent

    def nan(x: int) -> bool:
        return x & ~sign & (sign - 1) > top

    def signaling(x: int) -> bool:
        return nan(x) and not x >> fraction - 1 & 1

    if signaling(a) or signaling(b):
        return None
    if nan(a) and nan(b):
        return None
    if nan(a) or nan(b):
        return b if nan(a) else a
    order = [(-(x & ~sign) - 1 if x & sign else x) for x in (a, b)]
    return a if (order[0] >= order[1]) == largest else b


@KINDS
def test_minimum_and_maximum(kind: Type) -> None:
    unsigned = UNSIGNED[kind.dtype.itemsize]
    values = np.concatenate([edges(kind.dtype), random(kind.dtype, 60, np.random.default_rng(0))])
    a, b = (x.reshape(1, -1) for x in np.meshgrid(values, values))
    for function, largest in ((floats.minimum, False), (floats.maximum, True)):
        with np.errstate(all="ignore"):
            got = function(a, b)
        bits = zip(
            a.view(unsigned)[0].tolist(), b.view(unsigned)[0].tolist(), got.view(unsigned)[0].tolist(), strict=True
        )
        nan = np.isnan(got)[0]
        for index, (x, y, result) in enumerate(bits):
            want = extreme(x, y, kind, largest=largest)
            assert nan[index] if want is None else result == want, (kind.name, largest, hex(x), hex(y), hex(result))
        if nan.any():
            assert not floats.signaling(got).any()


def test_median_follows_the_guides_text() -> None:
    values = edges(np.dtype(np.float32))[[0, 1, 4, 7, 9, 10, 11, 12, 13, 14, 24, 28, 31, 34]]
    a, b, c = (x.reshape(1, -1) for x in np.meshgrid(values, values, values))
    with np.errstate(all="ignore"):
        got = floats.median(a, b, c)
        low = floats.minimum(floats.minimum(a, b), c)
    for x, y, z, result, least in zip(a[0], b[0], c[0], got[0], low[0], strict=True):
        if np.isnan([x, y, z]).any():
            assert result == least or (np.isnan(result) and np.isnan(least))
        else:
            assert result == sorted([x, y, z])[1]


@KINDS
def test_flush(kind: Type) -> None:
    values = edges(kind.dtype)[None]
    with np.errstate(all="ignore"):
        got = floats.flush(values)
    least = float(np.finfo(kind.dtype).smallest_normal)
    want = [math.copysign(0.0, v) if abs(v) < least else v for v in values[0].tolist()]
    assert_same(got, np.array([want], kind.dtype), values)


@pytest.mark.parametrize("kind", [F16, F32], ids=lambda k: k.name)
def test_perturb_moves_the_last_bit_of_ordinary_results_only(kind: Type) -> None:
    unsigned, fraction = UNSIGNED[kind.dtype.itemsize], FLOAT_BITS[code(kind.dtype)][0]
    values = np.concatenate([edges(kind.dtype), random(kind.dtype, 500, np.random.default_rng(2))])
    with np.errstate(all="ignore"):
        normal = np.isfinite(values) & (np.abs(values) >= np.finfo(kind.dtype).smallest_normal)
        ordinary = normal & (values.view(unsigned) & unsigned((1 << fraction) - 1) != 0)
        assert ordinary.any()
        for step in (-1, 0, 1):
            got = floats.perturb(values, np.full(values.shape, step))
            moved = np.abs(got.astype(np.float64)) - np.abs(values.astype(np.float64))
            assert_same(got[~ordinary], values[~ordinary])
            inside = ordinary & (np.abs(values) < np.finfo(kind.dtype).max)
            assert (np.sign(moved[inside]) == step).all()
            assert (
                np.abs(got.view(unsigned).astype(int) - values.view(unsigned).astype(int))[inside] == abs(step)
            ).all()
            assert np.isfinite(got[ordinary]).all()
