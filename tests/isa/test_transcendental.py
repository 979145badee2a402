"""Transcendental instructions against 60-digit decimals, power series and the examples of AMD's guides."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from values import OPERATIONS, check_float, edges, lanes, operands, random, rounded, run

from octave_gen.isa import transcendental
from octave_gen.isa.types import F16, F32, F64, Type

DIGITS = Context(prec=60)


def decimal(value: float) -> Decimal:
    return Decimal(value)


def power_of_two(a: float) -> Fraction:
    if a < -5000 or a > 5000:
        return Fraction(0) if a < 0 else Fraction(2) ** 5000
    return Fraction(DIGITS.power(Decimal(2), decimal(a)))


def logarithm(a: float) -> Fraction:
    if a == 2.0 ** math.floor(math.log2(a)):
        return Fraction(round(math.log2(a)))
    return Fraction(DIGITS.divide(DIGITS.ln(decimal(a)), DIGITS.ln(Decimal(2))))


def root(a: float) -> Fraction:
    return Fraction(DIGITS.sqrt(decimal(a)))


def exp_of(a: float) -> Fraction | float:
    return power_of_two(a) if math.isfinite(a) else (0.0 if a < 0 else a)


def log_of(a: float) -> Fraction | float:
    if a == 0:
        return -math.inf
    return logarithm(a) if 0 < a < math.inf else (a if a == math.inf else math.nan)


def rcp_of(a: float) -> Fraction | float:
    if a == 0 or not math.isfinite(a):
        with np.errstate(all="ignore"):
            return float(1 / np.float64(a))
    return 1 / Fraction(a)


def rsq_of(a: float) -> Fraction | float:
    if a == 0 or not 0 < a < math.inf:
        with np.errstate(all="ignore"):
            return float(1 / np.sqrt(np.float64(a)))
    return 1 / root(a)


def sqrt_of(a: float) -> Fraction | float:
    return root(a) if 0 < a < math.inf else (a if a == 0 or a == math.inf else math.nan)


EXACT: dict[str, Callable[[float], Fraction | float]] = {
    "exp": exp_of,
    "log": log_of,
    "rcp": rcp_of,
    "rsq": rsq_of,
    "sqrt": sqrt_of,
}


def correctly_rounded(word: str, kind: Type) -> Callable[[float], float]:
    def statement(a: float) -> float:
        exact = EXACT[word](a)
        return rounded(exact, kind.dtype) if isinstance(exact, Fraction) else exact

    return statement


def flushed(a: float) -> float:
    return math.copysign(0.0, a) if abs(a) < 2.0**-126 else a


@pytest.mark.parametrize("word", EXACT)
@pytest.mark.parametrize("kind", [F16, F32], ids=lambda k: k.name)
def test_transcendental_is_correctly_rounded(word: str, kind: Type) -> None:
    """float32 flushes denormal operands and results, float16 keeps them."""
    statement = correctly_rounded(word, kind)
    name = f"v_{word}_{kind.name}"
    assert OPERATIONS[name].transcendental
    if kind is F32:
        plain = statement

        def statement(a: float) -> float:
            return flushed(plain(flushed(a)))

    check_float(name, statement, kind, count=800)
    if kind is F32 and word == "rcp":
        check_float("v_rcp_iflag_f32", statement, kind, count=100)


@pytest.mark.parametrize("word", ["rcp", "rsq", "sqrt"])
def test_double_precision(word: str) -> None:
    """Within one unit in the last place; the guides promise 2**29 of them."""
    values = operands((F64,), count=300)
    got = run(f"v_{word}_f64", *values)
    want = lanes(correctly_rounded(word, F64), values, F64)
    with np.errstate(all="ignore"):
        close = (got == want) | (np.abs(got - want) <= np.spacing(np.abs(want))) | (np.isnan(got) & np.isnan(want))
    assert close.all()


PLACES = 200
TURN = int("6283185307179586476925286766559005768394338798750211641949889184615632812572417997256069650684234136")
TURN = (TURN << PLACES) // 10**99


def sine_of(a: Fraction) -> float:
    """The sine of ``a`` turns by its power series in fixed point, exact at quarter turns."""
    turns = a - round(a)
    quarter = round(4 * turns)
    rest = turns - Fraction(quarter, 4)
    angle = rest.numerator * TURN // rest.denominator
    sine = cosine = 0
    term = 1 << PLACES
    for k in range(24):
        cosine, sine = (
            (cosine + (-1) ** (k // 2) * term, sine) if k % 2 == 0 else (cosine, sine + (-1) ** (k // 2) * term)
        )
        term = (term * angle >> PLACES) // (k + 1)
    return (sine, cosine, -sine, -cosine)[quarter % 4] / 2**PLACES


@pytest.mark.parametrize("kind", [F16, F32], ids=lambda k: k.name)
def test_sine_and_cosine_of_turns(kind: Type) -> None:
    values = np.concatenate([edges(kind.dtype), random(kind.dtype, 300, np.random.default_rng(0))])[None]
    ok = np.isfinite(values[0])
    for name, shift in ((f"v_sin_{kind.name}", Fraction(0)), (f"v_cos_{kind.name}", Fraction(1, 4))):
        got = run(name, values)[0]
        assert np.isnan(got[~ok]).all()
        want = np.array([sine_of(Fraction(a) + shift) for a in values[0, ok].tolist()])
        size = np.spacing(np.abs(want).astype(kind.dtype)).astype(np.float64)
        assert (np.abs(got[ok].astype(np.float64) - want) <= 0.51 * size + 1e-23).all()


EXAMPLES: dict[str, dict[int, int | None]] = {
    "v_exp_f32": {0xFF800000: 0, 0x80000000: 0x3F800000, 0x7F800000: 0x7F800000},
    "v_log_f32": {0xFF800000: None, 0xBF800000: None, 0x80000000: 0xFF800000, 0: 0xFF800000, 0x3F800000: 0},
    "v_rcp_f32": {0xFF800000: 0x80000000, 0xC0000000: 0xBF000000, 0x80000000: 0xFF800000, 0x7F800000: 0, 1: 0x7F800000},
    "v_rsq_f32": {0xFF800000: None, 0x80000000: 0xFF800000, 0: 0x7F800000, 0x40800000: 0x3F000000, 0x7F800000: 0},
    "v_sqrt_f32": {0xFF800000: None, 0x80000000: 0x80000000, 0x40800000: 0x40000000, 0x807FFFFF: 0x80000000},
    "v_sin_f32": {0xFF7FFFFF: 0, 0x80000000: 0x80000000, 0x3E800000: 0x3F800000, 0x7F800000: None},
    "v_cos_f32": {0xFF7FFFFF: 0x3F800000, 0x80000000: 0x3F800000, 0x3E800000: 0, 0x7F800000: None},
    "v_exp_f16": {0xFC00: 0, 0x8000: 0x3C00, 0x7C00: 0x7C00},
    "v_log_f16": {0xFC00: None, 0x8000: 0xFC00, 0x3C00: 0, 0x7C00: 0x7C00},
    "v_rcp_f16": {0xFC00: 0x8000, 0xC000: 0xB800, 0x8000: 0xFC00, 0x7C00: 0},
    "v_rsq_f16": {0xFC00: None, 0x8000: 0xFC00, 0x4400: 0x3800},
    "v_sqrt_f16": {0xFC00: None, 0x8000: 0x8000, 0x4400: 0x4000},
    "v_sin_f16": {0xFBFF: 0, 0x8000: 0x8000, 0x3400: 0x3C00, 0x7C00: None},
    "v_cos_f16": {0xFBFF: 0x3C00, 0x8000: 0x3C00, 0x3400: 0},
}
"""Bits of operand and result; None is NaN. The guides' own, and two denormals that are flushed."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_the_guides(name: str) -> None:
    kind = OPERATIONS[name].operands[0]
    unsigned: Any = np.dtype(f"u{kind.dtype.itemsize}")
    for operand, result in EXAMPLES[name].items():
        got = run(name, np.array([[operand]], unsigned).view(kind.dtype))
        if result is None:
            assert np.isnan(got[0, 0])
        else:
            assert got.view(unsigned)[0, 0] == result, (name, hex(operand))


def test_everything_is_tested() -> None:
    short = {f"v_{word}_{kind}" for kind in ("f16", "f32") for word in (*EXACT, "sin", "cos")}
    assert short | {"v_rcp_f64", "v_rsq_f64", "v_sqrt_f64", "v_rcp_iflag_f32"} == set(transcendental.OPERATIONS)
