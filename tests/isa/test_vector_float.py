"""Float vector instructions against exact fractions, 40-digit decimals and the examples of AMD's guides."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from values import (
    OPERATIONS,
    Array,
    assert_same,
    edges,
    exact_fma,
    operands,
    random,
    rounded,
    run,
    spelled,
)

from octave_gen.isa import floats, vector_float
from octave_gen.isa.types import F16, F32, F64, Type

KINDS = (F16, F32, F64)
DIGITS = Context(prec=60)


def finite(*values: float) -> bool:
    return all(map(math.isfinite, values))


def whole(round_: Callable[[float], int]) -> Callable[[float], float]:
    """An integral value keeps the sign of its operand."""
    return lambda a: math.copysign(float(round_(a)), a) if math.isfinite(a) else a


def floor_of(a: float) -> float:
    return math.copysign(float(math.floor(a)), a) if math.isfinite(a) else a


def lanes(statement: Callable[..., float], values: list[Array], kind: Type) -> Array:
    flat = [statement(*lane) for lane in zip(*(v.ravel().tolist() for v in values), strict=True)]
    with np.errstate(all="ignore"):
        return np.array(flat, np.float64).astype(kind.dtype).reshape(values[0].shape)


def compare(name: str, statement: Callable[..., float], kind: Type, **sizes: int) -> None:
    values = operands(OPERATIONS[name].operands, **sizes)
    assert_same(run(name, *values), lanes(statement, values, kind), *values, what=name)


def sum_of(a: float, b: float, kind: Type) -> float:
    return exact_fma(a, 1.0, b, kind.dtype)


def product_of(a: float, b: float, kind: Type) -> float:
    if not finite(a, b) or a == 0 or b == 0:
        return a * b
    return rounded(Fraction(a) * Fraction(b), kind.dtype)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_sums_and_products(kind: Type) -> None:
    compare(f"v_add_{kind.name}", lambda a, b: sum_of(a, b, kind), kind)
    compare(f"v_mul_{kind.name}", lambda a, b: product_of(a, b, kind), kind)
    if kind is not F64:
        compare(f"v_sub_{kind.name}", lambda a, b: sum_of(a, -b, kind), kind)
        compare(f"v_subrev_{kind.name}", lambda a, b: sum_of(b, -a, kind), kind)


FMA = spelled(
    {
        "v_fma_f16 v_fmac_f16 v_fmamk_f16 v_fmaak_f16 v_fma_legacy_f16": F16,
        "v_fma_f32 v_fmac_f32 v_fmamk_f32 v_fmaak_f32 v_fma_mix_f32": F32,
        "v_fma_f64 v_fmac_f64": F64,
    }
)


@pytest.mark.parametrize("name", FMA)
def test_fma(name: str) -> None:
    kind = FMA[name]
    assert OPERATIONS[name].reads_destination == name.startswith("v_fmac")
    values = operands((kind, kind, kind), count=600, cross=1000)
    assert_same(
        run(name, *values), lanes(lambda a, b, c: exact_fma(a, b, c, kind.dtype), values, kind), *values, what=name
    )


@pytest.mark.parametrize("name", ["v_fma_mixlo_f16", "v_fma_mixhi_f16"])
def test_mixed_fma_rounds_to_float32_first(name: str) -> None:
    values = operands((F32, F32, F32), count=1500)
    first = lanes(lambda a, b, c: exact_fma(a, b, c, np.float32), values, F32)
    want = lanes(lambda a: rounded(Fraction(a), np.float16) if a and math.isfinite(a) else a, [first], F16)
    assert_same(run(name, *values), want, *values, what=name)
    assert OPERATIONS[name].high_half == (name == "v_fma_mixhi_f16")


@pytest.mark.parametrize("name", ["v_mul_legacy_f32", "v_mul_dx9_zero_f32"])
def test_zero_times_anything(name: str) -> None:
    compare(name, lambda a, b: 0.0 if a == 0 or b == 0 else product_of(a, b, F32), F32)


@pytest.mark.parametrize("name", ["v_fma_dx9_zero_f32", "v_fmac_dx9_zero_f32"])
def test_zero_times_anything_plus(name: str) -> None:
    values = operands((F32, F32, F32), count=600, cross=1000)
    want = lanes(lambda a, b, c: c if a == 0 or b == 0 else exact_fma(a, b, c, np.float32), values, F32)
    assert_same(run(name, *values), want, *values, what=name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_integral_values(kind: Type) -> None:
    name = kind.name
    compare(f"v_floor_{name}", whole(math.floor), kind)
    compare(f"v_ceil_{name}", whole(math.ceil), kind)
    compare(f"v_trunc_{name}", whole(math.trunc), kind)
    compare(f"v_rndne_{name}", whole(round), kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_fraction_stays_below_one(kind: Type) -> None:
    largest = float(np.nextafter(kind.dtype.type(1), kind.dtype.type(0)))

    def fraction(a: float) -> float:
        if not math.isfinite(a):
            return math.nan
        exact = Fraction(a) - math.floor(a)
        return min(rounded(exact, kind.dtype), largest)

    compare(f"v_fract_{kind.name}", fraction, kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_frexp_and_ldexp(kind: Type) -> None:
    exponent = "i16" if kind is F16 else "i32"
    values = operands((kind,))
    mantissa = run(f"v_frexp_mant_{kind.name}", *values)
    power = run(f"v_frexp_exp_{exponent}_{kind.name}", *values)
    assert_same(mantissa, lanes(lambda a: math.frexp(a)[0] if math.isfinite(a) else a, values, kind), *values)
    want = [math.frexp(a)[1] if math.isfinite(a) else 0 for a in values[0].ravel().tolist()]
    assert power.dtype == np.dtype(exponent.replace("i16", "i2").replace("i32", "i4"))
    assert power.ravel().tolist() == want

    def scaled(a: float, p: int) -> float:
        if not math.isfinite(a) or a == 0:
            return a
        return rounded(Fraction(a) * Fraction(2) ** max(-3000, min(3000, p)), kind.dtype)

    near = np.random.default_rng(0).integers(-40, 41, values[0].shape)
    far = operands(OPERATIONS[f"v_ldexp_{kind.name}"].operands)
    for a, p in ((values[0], near.astype(power.dtype)), far):
        assert_same(run(f"v_ldexp_{kind.name}", a, p), lanes(scaled, [a, p], kind), a, p, what=f"ldexp {kind.name}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_extremes_are_those_of_the_floats_module(kind: Type) -> None:
    """``floats.minimum``, ``maximum`` and ``median`` have tests of their own."""
    a, b, c = operands((kind, kind, kind), cross=2500)
    low, high = floats.minimum, floats.maximum
    with np.errstate(all="ignore"):
        wanted = {"min": low(a, b), "max": high(a, b)}
        if kind is not F64:
            wanted |= {"min3": low(low(a, b), c), "max3": high(high(a, b), c), "med3": floats.median(a, b, c)}
            wanted |= {"minmax": high(low(a, b), c), "maxmin": low(high(a, b), c)}
    for word, want in wanted.items():
        inputs = (a, b) if word in ("min", "max") else (a, b, c)
        assert_same(run(f"v_{word}_{kind.name}", *inputs), want, *inputs, what=f"v_{word}_{kind.name}")


# Transcendental -------------------------------------------------------------------------------------------------------


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

    compare(name, statement, kind, count=800)
    if kind is F32 and word == "rcp":
        compare("v_rcp_iflag_f32", statement, kind, count=100)


@pytest.mark.parametrize("word", ["rcp", "rsq", "sqrt"])
def test_double_precision(word: str) -> None:
    """Within one unit in the last place; the guides promise 2**29 of them."""
    values = operands((F64,), count=300)
    got = run(f"v_{word}_f64", *values)
    want = lanes(correctly_rounded(word, F64), values, F64)
    with np.errstate(all="ignore"):
        close = (got == want) | (np.abs(got - want) <= np.spacing(np.abs(want))) | (np.isnan(got) & np.isnan(want))
    assert close.all()


TURN = Fraction("6.283185307179586476925286766559005768394338798750211641949889184615632812572417997256069650684234136")


def sine_of(a: float) -> float:
    """The sine of ``a`` turns by its power series, exact at quarter turns."""
    turns = Fraction(a) - round(Fraction(a))
    quarter = round(4 * turns)
    angle = (turns - Fraction(quarter, 4)) * TURN
    sine = sum(Fraction((-1) ** k, math.factorial(2 * k + 1)) * angle ** (2 * k + 1) for k in range(11))
    cosine = sum(Fraction((-1) ** k, math.factorial(2 * k)) * angle ** (2 * k) for k in range(11))
    return float((sine, cosine, -sine, -cosine)[quarter % 4])


@pytest.mark.parametrize("kind", [F16, F32], ids=lambda k: k.name)
def test_sine_and_cosine_of_turns(kind: Type) -> None:
    values = np.concatenate([edges(kind.dtype), random(kind.dtype, 300, np.random.default_rng(0))])[None]
    ok = np.isfinite(values[0])
    for name, shift in ((f"v_sin_{kind.name}", Fraction(0)), (f"v_cos_{kind.name}", Fraction(1, 4))):
        got = run(name, values)[0]
        assert np.isnan(got[~ok]).all()
        want = np.array([sine_of(Fraction(a) + shift) for a in values[0, ok].tolist()])  # type: ignore[arg-type]
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
    shared = {f"v_{w}_{k.name}" for k in KINDS for w in ("add", "mul", "min", "max", "floor", "ceil", "trunc", "rndne")}
    shared |= {f"v_{w}_{k.name}" for k in KINDS for w in ("fract", "frexp_mant", "ldexp", "rcp", "rsq", "sqrt")}
    short = ("sub", "subrev", "min3", "max3", "med3", "minmax", "maxmin", "exp", "log", "sin", "cos")
    shared |= {f"v_{w}_{k.name}" for k in (F16, F32) for w in short}
    single = {"v_mul_legacy_f32", "v_mul_dx9_zero_f32", "v_fma_dx9_zero_f32", "v_fmac_dx9_zero_f32", "v_rcp_iflag_f32"}
    single |= {
        "v_frexp_exp_i32_f32",
        "v_frexp_exp_i32_f64",
        "v_frexp_exp_i16_f16",
        "v_fma_mixlo_f16",
        "v_fma_mixhi_f16",
    }
    division = {f"v_div_{w}_{k}" for k in ("f32", "f64") for w in ("scale", "fmas", "fixup")}
    division |= {"v_div_fixup_f16", "v_div_fixup_legacy_f16"}  # test_floats
    assert shared | single | division | set(FMA) == set(vector_float.OPERATIONS)
