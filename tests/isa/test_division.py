"""The division sequence against exact fractions, and its three helpers branch by branch."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from values import FLOAT_BITS, UNSIGNED, Array, assert_same, code, edges, exact_fma, operands, random, rounded, run

from octave_gen.isa import division, floats
from octave_gen.isa.types import F16, F32, F64, Type

KINDS = pytest.mark.parametrize("kind", [F16, F32, F64], ids=lambda k: k.name)


def quotient(a: float, b: float, kind: Type) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b) or b == 0 or a == 0:
        with np.errstate(all="ignore"):
            return float(np.float64(a) / np.float64(b))
    return rounded(Fraction(a) / Fraction(b), kind.dtype)


def divide(kind: Type, a: Array, b: Array, reciprocal_error: Any) -> Array:
    """LLVM's sequence for a float32 or float64 division; the reciprocal is spoilt by ``reciprocal_error``."""
    name = kind.name
    one = np.ones_like(b)
    low, _ = run(f"v_div_scale_{name}", b, b, a)
    high, mask = run(f"v_div_scale_{name}", a, b, a)
    r = reciprocal_error(run(f"v_rcp_{name}", low))
    for _ in range(1 if kind is F32 else 2):
        r = run(f"v_fma_{name}", run(f"v_fma_{name}", -low, r, one), r, r)
    q = run(f"v_mul_{name}", high, r)
    if kind is F32:
        q = run(f"v_fma_{name}", run(f"v_fma_{name}", -low, q, high), r, q)
    rest = run(f"v_fma_{name}", -low, q, high)
    return run(f"v_div_fixup_{name}", run(f"v_div_fmas_{name}", rest, r, q, mask), b, a)


def dividends(kind: Type, count: int) -> tuple[Array, Array]:
    """Edges, all exponents, and quotients on both sides of every border of the format."""
    rng = np.random.default_rng(11)
    a, b = operands((kind, kind), count=count, cross=1500)
    fraction, exponent = FLOAT_BITS[code(kind.dtype)]
    low = 2 - (1 << exponent - 1)
    significand = 1 + rng.integers(0, 1 << fraction, (2, 2, count)) / 2.0**fraction
    power = rng.integers(low - fraction, -low + 1, (2, count))
    target = rng.choice([low - fraction - 1, low - fraction, low - 1, low, low + 1, 0, -low, -low + 1], (2, count))
    with np.errstate(all="ignore"):
        n = np.ldexp(significand[0], power).astype(kind.dtype)
        d = np.ldexp(significand[1], np.clip(power - target, low - fraction, 1 - low)).astype(kind.dtype)
    return np.concatenate([a, n], 1), np.concatenate([b, d], 1)


def truncated(r: Array) -> Array:
    """A double precision reciprocal as coarse as the guides allow (2**29 ULP)."""
    return (r.view(np.uint64) & np.uint64(0xFFFFFFFFF0000000)).view(np.float64)


def assert_quotients(kind: Type, got: Array, a: Array, b: Array, *, exempt: Array) -> None:
    flat = [quotient(x, y, kind) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
    want = np.array(flat, kind.dtype).reshape(a.shape)
    assert_same(got[~exempt], want[~exempt], a[~exempt], b[~exempt], what=f"a / b {kind.name}")
    near = exempt & np.isfinite(want)
    assert (np.abs(got[near] - want[near]) <= np.abs(np.spacing(want[near]))).all()


def all_ones(kind: Type, b: Array) -> Array:
    """Divisors for which a correctly rounded quotient needs a correctly rounded reciprocal (Markstein, "Computation of
    elementary functions on the IBM RISC System/6000 processor", 1990)."""
    ones = UNSIGNED[kind.dtype.itemsize]((1 << FLOAT_BITS[code(kind.dtype)][0]) - 1)
    result: Array = (b.view(ones.dtype) & ones) == ones
    return result


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_the_float32_division_sequence_is_correctly_rounded(step: int) -> None:
    a, b = dividends(F32, 3000)
    got = divide(F32, a, b, lambda r: floats.perturb(r, np.full(r.shape, step)))
    assert_quotients(F32, got, a, b, exempt=all_ones(F32, b) & (step != 0))


@pytest.mark.parametrize("coarse", [False, True])
def test_the_float64_division_sequence_is_correctly_rounded(coarse: bool) -> None:
    a, b = dividends(F64, 400)
    got = divide(F64, a, b, truncated if coarse else lambda r: r)
    assert_quotients(F64, got, a, b, exempt=all_ones(F64, b) & coarse)


SCALES: list[tuple[str, float, float, tuple[int, bool], tuple[int, bool]]] = [
    ("ordinary", 3.0, 1.5, (0, False), (0, False)),
    ("just not far apart", 2.0**95, 1.0, (0, False), (0, False)),
    ("far apart", 2.0**96, 1.0, (64, True), (0, True)),
    ("denormal denominator", 2.0**-60, 2.0**-127, (64, False), (64, False)),
    ("least normal denominator", 2.0**-60, 2.0**-126, (0, False), (0, False)),
    ("inverse and quotient denormal", 1.0, 2.0**127, (-64, True), (0, True)),
    ("inverse denormal", 4.0, 2.0**127, (-64, False), (-64, False)),
    ("inverse the least normal", 4.0, 2.0**126, (0, False), (0, False)),
    ("quotient denormal", 2.0**-27, 2.0**100, (0, True), (64, True)),
    ("quotient the least normal", 2.0**-26, 2.0**100, (0, False), (0, False)),
    ("tiny numerator", 2.0**-104, 1.0, (64, False), (64, False)),
    ("just not tiny", 2.0**-103, 1.0, (0, False), (0, False)),
]
"""Numerator and denominator; by what power of two V_DIV_SCALE_F32 scales the denominator and the numerator, and the
mask it gives with each."""


@pytest.mark.parametrize("case", SCALES, ids=lambda c: c[0])
def test_scale_takes_the_branches_of_the_guides(
    case: tuple[str, float, float, tuple[int, bool], tuple[int, bool]],
) -> None:
    _, numerator, denominator, *wanted = case
    n, d = (np.array([[x, -x]], np.float32) for x in (numerator, denominator))
    for value, (power, mask) in zip((d, n), wanted, strict=True):
        got, out = run("v_div_scale_f32", value, d, n)
        assert (got == np.ldexp(value, power)).all()
        assert out.tolist() == [[mask, mask]]
    for zeros in ((n * 0, d), (n, d * 0)):
        got, out = run("v_div_scale_f32", n, zeros[1], zeros[0])
        assert np.isnan(got).all()
        assert not out.any()


def test_scale_in_double_precision() -> None:
    for numerator, far in ((2.0**767, False), (2.0**768, True)):
        n, d = np.array([[numerator]]), np.array([[1.0]])
        got, mask = run("v_div_scale_f64", d, d, n)
        assert got[0, 0] == (2.0**128 if far else 1.0)
        assert mask[0, 0] == far
    for numerator, tiny in ((2.0**-969, False), (2.0**-970, True)):
        n, d = np.array([[numerator]]), np.array([[1.0]])
        got, mask = run("v_div_scale_f64", n, d, n)
        assert got[0, 0] == numerator * (2.0**128 if tiny else 1.0)
        assert not mask[0, 0]


@KINDS
def test_fix_up_of_special_operands(kind: Type) -> None:
    a, b = (x.reshape(1, -1) for x in np.meshgrid(edges(kind.dtype), edges(kind.dtype)))
    with np.errstate(all="ignore"):
        special = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
        for wrong in (3.0, np.nan, np.inf):
            got = division.fix_up(np.full_like(a, wrong), b, a)
            assert_same(got[special], (a / b)[special], a[special], b[special])
        signs = np.signbit(a) ^ np.signbit(b)
        plain = ~special & (np.abs(a) < 4) & (np.abs(a) > 0.25) & (np.abs(b) < 4) & (np.abs(b) > 0.25)
        assert plain.sum() > 100
        for sign in (1, -1):
            got = division.fix_up(np.full_like(a, sign * 0.75), b, a)
            assert (got[plain] == np.where(signs, -0.75, 0.75)[plain]).all()


@pytest.mark.parametrize(("kind", "shift"), [(F32, 64), (F64, 128)], ids=["f32", "f64"])
def test_fused_scaled_rounds_once_after_scaling(kind: Type, shift: int) -> None:
    a, b, c = operands((kind, kind, kind), count=1500, cross=1500)
    mask = np.random.default_rng(0).random(a.shape) < 0.7
    with np.errstate(all="ignore"):
        small = np.ldexp(random(kind.dtype, a.size, np.random.default_rng(1)).reshape(a.shape), -shift - 8)
        c = np.where(mask & (np.random.default_rng(5).random(a.shape) < 0.5), small, c)
        got = division.fused_scaled(a, b, c, mask)
    want = []
    for x, y, z, scaled in zip(*(v.ravel().tolist() for v in (a, b, c, mask)), strict=True):
        up = abs(z) >= 2 or math.isnan(z)
        want.append(exact_fma(x, y, z, kind.dtype, (shift if up else -shift) if scaled else 0))
    with np.errstate(all="ignore"):
        assert_same(got, np.array(want, np.float64).astype(kind.dtype).reshape(a.shape), a, b, c, what="div_fmas")
