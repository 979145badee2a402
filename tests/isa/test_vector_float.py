"""Float vector instructions against exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from values import OPERATIONS, assert_same, check_float, exact_fma, lanes, operands, rounded, run, spelled

from octave_gen.isa import floats, transcendental, vector_float
from octave_gen.isa.types import F16, F32, F64, Type

KINDS = (F16, F32, F64)


def finite(*values: float) -> bool:
    return all(map(math.isfinite, values))


def whole(round_: Callable[[float], int]) -> Callable[[float], float]:
    """An integral value keeps the sign of its operand."""
    return lambda a: math.copysign(float(round_(a)), a) if math.isfinite(a) else a


def floor_of(a: float) -> float:
    return math.copysign(float(math.floor(a)), a) if math.isfinite(a) else a


def sum_of(a: float, b: float, kind: Type) -> float:
    return exact_fma(a, 1.0, b, kind.dtype)


def product_of(a: float, b: float, kind: Type) -> float:
    if not finite(a, b) or a == 0 or b == 0:
        return a * b
    return rounded(Fraction(a) * Fraction(b), kind.dtype)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_sums_and_products(kind: Type) -> None:
    check_float(f"v_add_{kind.name}", lambda a, b: sum_of(a, b, kind), kind)
    check_float(f"v_mul_{kind.name}", lambda a, b: product_of(a, b, kind), kind)
    if kind is not F64:
        check_float(f"v_sub_{kind.name}", lambda a, b: sum_of(a, -b, kind), kind)
        check_float(f"v_subrev_{kind.name}", lambda a, b: sum_of(b, -a, kind), kind)


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
    check_float(name, lambda a, b: 0.0 if a == 0 or b == 0 else product_of(a, b, F32), F32)


@pytest.mark.parametrize("name", ["v_fma_dx9_zero_f32", "v_fmac_dx9_zero_f32"])
def test_zero_times_anything_plus(name: str) -> None:
    values = operands((F32, F32, F32), count=600, cross=1000)
    want = lanes(lambda a, b, c: c if a == 0 or b == 0 else exact_fma(a, b, c, np.float32), values, F32)
    assert_same(run(name, *values), want, *values, what=name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_integral_values(kind: Type) -> None:
    name = kind.name
    check_float(f"v_floor_{name}", whole(math.floor), kind)
    check_float(f"v_ceil_{name}", whole(math.ceil), kind)
    check_float(f"v_trunc_{name}", whole(math.trunc), kind)
    check_float(f"v_rndne_{name}", whole(round), kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_fraction_stays_below_one(kind: Type) -> None:
    largest = float(np.nextafter(kind.dtype.type(1), kind.dtype.type(0)))

    def fraction(a: float) -> float:
        if not math.isfinite(a):
            return math.nan
        exact = Fraction(a) - math.floor(a)
        return min(rounded(exact, kind.dtype), largest)

    check_float(f"v_fract_{kind.name}", fraction, kind)


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


def test_everything_is_tested() -> None:
    shared = {f"v_{w}_{k.name}" for k in KINDS for w in ("add", "mul", "min", "max", "floor", "ceil", "trunc", "rndne")}
    shared |= {f"v_{w}_{k.name}" for k in KINDS for w in ("fract", "frexp_mant", "ldexp")}
    short = ("sub", "subrev", "min3", "max3", "med3", "minmax", "maxmin")
    shared |= {f"v_{w}_{k.name}" for k in (F16, F32) for w in short}
    single = {"v_mul_legacy_f32", "v_mul_dx9_zero_f32", "v_fma_dx9_zero_f32", "v_fmac_dx9_zero_f32"}
    single |= {
        "v_frexp_exp_i32_f32",
        "v_frexp_exp_i32_f64",
        "v_frexp_exp_i16_f16",
        "v_fma_mixlo_f16",
        "v_fma_mixhi_f16",
    }
    division = {f"v_div_{w}_{k}" for k in ("f32", "f64") for w in ("scale", "fmas", "fixup")}
    division |= {"v_div_fixup_f16", "v_div_fixup_legacy_f16"}  # test_floats
    assert shared | single | division | set(FMA) == set(vector_float.OPERATIONS) - set(transcendental.OPERATIONS)
