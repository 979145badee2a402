"""Matrix instructions: layouts against AMD's tables, products against numpy on operands placed by those tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matrix_tables import F16_RESULT, TABLES, WIDE, Array, placed, shapes, table, taken

from octave_gen.arch import ARCHS, MATRIX_LAYOUTS
from octave_gen.isa.matrix import MATRIX, MatrixInstruction

FLOATS = [name for name, layout in MATRIX_LAYOUTS.items() if layout.result != "i32"]
WMMA = [name for name in MATRIX_LAYOUTS if name.startswith("v_wmma")]


@pytest.fixture(autouse=True)
def _as_the_engine_runs_it() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def run(mnemonic: str, a: Array, b: Array, c: Array, **options: Any) -> Array:
    """D [waves, rows, columns] for matrices [waves, ...]; registers that are slices of a larger file, as they are."""
    layout = MATRIX_LAYOUTS[mnemonic]
    blocks = [
        placed(a, mnemonic, "A", layout.element),
        placed(b, mnemonic, "B", layout.element),
        placed(c, mnemonic, "D", layout.result),
    ]
    ends = np.cumsum([0, *(len(block) for block in blocks)])
    file = np.concatenate(blocks)
    before = file.copy()
    slices = [file[first:last] for first, last in pairwise(ends)]
    d = MATRIX[mnemonic].execute(*slices, np.zeros_like(slices[2]), **options)
    assert d.dtype == np.uint32
    assert d.shape == slices[2].shape
    assert np.array_equal(file, before)
    return taken(d, mnemonic)


# --- layouts


def test_the_instructions_are_those_of_the_chips() -> None:
    assert set(MATRIX) == set(MATRIX_LAYOUTS)
    for layout in MATRIX_LAYOUTS.values():
        assert {ARCHS[arch].wave_size for arch in layout.archs} == {layout.wave_size}
    assert [name for name, layout in MATRIX_LAYOUTS.items() if layout.archs == ("gfx1100",)] == WMMA
    assert [name for name, layout in MATRIX_LAYOUTS.items() if layout.archs == ("gfx950",)] == [*WIDE]
    assert len(list(TABLES.iterdir())) == 3 * (len(MATRIX) - len(WIDE) - 1)  # all others but F16_RESULT


@pytest.mark.parametrize("mnemonic", MATRIX_LAYOUTS)
@pytest.mark.parametrize("matrix", ["A", "B", "D"])
def test_the_layout_is_the_published_one(mnemonic: str, matrix: str) -> None:
    layout = MATRIX_LAYOUTS[mnemonic]
    packed = 1 if matrix == "D" else layout.packed
    registers = layout.result_registers if matrix == "D" else layout.operand_registers
    formula = {
        (lane, register, part): (
            layout.d(lane, register) if matrix == "D" else {"A": layout.a, "B": layout.b}[matrix](lane, register, part)
        )
        for lane in range(layout.wave_size)
        for register in range(registers)
        for part in range(packed)
    }
    amd = {(lane, register, first // size): at for (lane, register, first, size), at in table(mnemonic, matrix).items()}
    assert formula == amd
    shape = {"A": (layout.rows, layout.depth), "B": (layout.depth, layout.columns), "D": (layout.rows, layout.columns)}
    assert set(formula.values()) == set(np.ndindex(shape[matrix]))
    copies = layout.groups if layout.repeated and matrix != "D" else 1
    assert len(formula) == copies * len(set(formula.values()))


# --- integers


def integers(mnemonic: str, waves: int, signed: tuple[bool, bool], seed: int) -> tuple[Array, Array, Array]:
    draw = np.random.default_rng(seed)
    (left, right, result) = shapes(mnemonic, waves)
    a, b = (
        draw.integers(-128 if sign else 0, 128 if sign else 256, shape)
        for sign, shape in zip(signed, (left, right), strict=True)
    )
    return a, b, draw.integers(-(2**31), 2**31, result)


@pytest.mark.parametrize("mnemonic", [name for name in MATRIX if name.startswith("v_mfma_i32")])
def test_int8_products_are_exact_and_wrap(mnemonic: str) -> None:
    a, b, c = integers(mnemonic, 7, (True, True), seed=1)
    a[0], b[0] = -128, -128
    c[0] = 2**31 - 1
    exact = a @ b + c
    assert exact.max() >= 2**31
    assert np.array_equal(run(mnemonic, a, b, c), exact.astype(np.uint32).view(np.int32))


@pytest.mark.parametrize("signed", [(False, False), (True, False), (False, True), (True, True)])
def test_iu8_takes_its_signs_from_neg_lo(signed: tuple[bool, bool]) -> None:
    mnemonic = "v_wmma_i32_16x16x16_iu8"
    a, b, c = integers(mnemonic, 5, signed, seed=2)
    a[0], b[0] = (-128 if sign else 255 for sign in signed)
    exact = a @ b + c
    assert np.array_equal(run(mnemonic, a, b, c, signed=signed), exact.astype(np.uint32).view(np.int32))


# --- floats


def representable(values: Array, element: str) -> Array:
    if element == "f16":
        return values.astype(np.float16).astype(np.float64)
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000 if element == "bf16" else 0xFFFFFFFF)
    return bits.view(np.float32).astype(np.float64)


def floats(mnemonic: str, waves: int, spread: float, seed: int) -> tuple[Array, Array, Array]:
    """Normal numbers times 2^u, u uniform in ±spread; the last wave's are denormals of the element type."""
    layout = MATRIX_LAYOUTS[mnemonic]
    draw = np.random.default_rng(seed)
    values = [draw.normal(size=s) * 2 ** draw.uniform(-spread, spread, s) for s in shapes(mnemonic, waves)]
    values[0][-1] *= 2.0**-24 if layout.element == "f16" else 2.0**-133
    values[2][-1] *= 2.0**-24 if layout.element == "f16" else 2.0**-140
    values[0][-1] = np.clip(values[0][-1], -(2.0**-15), 2.0**-15)
    types = (layout.element, layout.element, layout.result)
    return tuple(representable(v, t) for v, t in zip(values, types, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("mnemonic", FLOATS)
@pytest.mark.parametrize("spread", [0, 4])
def test_a_float_result_is_the_sum_rounded_once(mnemonic: str, spread: float) -> None:
    """The module's bound: half a unit of the result's type, and what float64 loses on the way."""
    layout = MATRIX_LAYOUTS[mnemonic]
    precision, least = (11, -24) if layout.result == "f16" else (24, -149)
    a, b, c = floats(mnemonic, 3, spread, seed=3)
    d = run(mnemonic, a, b, c)
    draw = np.random.default_rng(4)
    checked = 0
    for w, i, j in [*np.ndindex(3, 2, layout.columns), *zip(*(draw.integers(0, n, 200) for n in c.shape), strict=True)]:
        terms = [Fraction(x) * Fraction(y) for x, y in zip(a[w, i], b[w, :, j], strict=True)] + [Fraction(c[w, i, j])]
        exact, size = sum(terms), sum(abs(term) for term in terms)
        bound = abs(exact) / 2**precision + len(terms) * size / 2**53 + Fraction(2) ** (least - 1)
        assert abs(Fraction(float(d[w, i, j])) - exact) <= bound
        checked += exact != 0
    assert checked > 250


@pytest.mark.parametrize("mnemonic", FLOATS)
def test_small_integers_as_floats_are_exact(mnemonic: str) -> None:
    draw = np.random.default_rng(5)
    a, b, c = (draw.integers(-3, 4, shape).astype(np.float64) for shape in shapes(mnemonic, 9))
    assert np.array_equal(run(mnemonic, a, b, c), a @ b + c)


@pytest.mark.parametrize("mnemonic", FLOATS)
def test_denormals_count(mnemonic: str) -> None:
    """The least denormal of the element type, times a power of two that makes the product an exact result."""
    layout = MATRIX_LAYOUTS[mnemonic]
    left, right, result = shapes(mnemonic, 1)
    least = 2.0**-24 if layout.element == "f16" else 2.0**-133
    a, b, c = np.full(left, least), np.full(right, 2.0**10), np.zeros(result)
    assert np.all(run(mnemonic, a, b, c) == layout.depth * least * 2.0**10)


@pytest.mark.parametrize("mnemonic", FLOATS)
def test_infinities_and_nans_stay_in_their_rows_and_columns(mnemonic: str) -> None:
    a, b, c = (np.ones(shape) for shape in shapes(mnemonic, 1))
    a[0, 3, 5], b[0, 1, 7], c[0, 9, 9], c[0, 10, 2] = np.inf, np.nan, -np.inf, np.nan
    d = run(mnemonic, a, b, c)[0]
    assert np.isnan(d[:, 7]).all()
    assert np.isnan(d[10, 2])
    assert d[9, 9] == -np.inf
    assert np.isposinf(np.delete(d[3], 7)).all()
    rest = np.ones_like(d, bool)
    rest[3], rest[:, 7], rest[9, 9], rest[10, 2] = False, False, False, False
    assert np.all(d[rest] == MATRIX_LAYOUTS[mnemonic].depth + 1)


def test_a_result_too_large_is_infinite() -> None:
    for mnemonic, large in (("v_mfma_f32_32x32x8_bf16", 2.0**100), (F16_RESULT, 2.0**10)):
        a, b, c = (np.full(shape, large) for shape in shapes(mnemonic, 1))
        assert np.isposinf(run(mnemonic, a, b, c)).all()


@pytest.mark.parametrize("high", [False, True])
def test_a_16_bit_result_takes_one_half_and_keeps_the_other(high: bool) -> None:
    draw = np.random.default_rng(6)
    a, b, c = (draw.integers(-3, 4, shape).astype(np.float64) for shape in shapes(F16_RESULT, 2))
    left, right = placed(a, F16_RESULT, "A", "f16"), placed(b, F16_RESULT, "B", "f16")
    shift = np.uint32(16 if high else 0)
    addend = placed(c, F16_RESULT, "D", "f16") << shift | np.uint32(0x7777) << (16 - shift)
    old = draw.integers(0, 2**32, addend.shape, dtype=np.uint32)
    before = old.copy()
    d = MATRIX[F16_RESULT].execute(left, right, addend, old, high=high)
    assert np.array_equal(taken(d >> shift, F16_RESULT), a @ b + c)
    kept = np.uint32(0x0000FFFF if high else 0xFFFF0000)
    assert np.array_equal(d & kept, before & kept)
    assert np.array_equal(old, before)


# --- WMMA's half-waves


def half_wave_operands(mnemonic: str) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Matrices of small integers and their registers."""
    layout = MATRIX_LAYOUTS[mnemonic]
    draw = np.random.default_rng(7)
    a, b, c = (draw.integers(1, 4, shape).astype(np.float64) for shape in shapes(mnemonic, 3))
    registers = (
        placed(a, mnemonic, "A", layout.element),
        placed(b, mnemonic, "B", layout.element),
        placed(c, mnemonic, "D", layout.result),
    )
    return a, b, c, *registers


@pytest.mark.parametrize("mnemonic", WMMA)
def test_unequal_half_waves_are_named(mnemonic: str) -> None:
    wmma = MATRIX[mnemonic]
    *_, a, b, _ = half_wave_operands(mnemonic)
    assert wmma.unequal_halves(a, b) is None
    b[1, 2, 20] ^= np.uint32(1 << 31)
    assert wmma.unequal_halves(a, b) == "register 1 of B differs between lanes 4 and 20"
    assert wmma.unequal_halves(a, b, relaxed=True) == "register 1 of B differs between lanes 4 and 20"
    a[0, 1, 3] ^= np.uint32(1)
    assert wmma.unequal_halves(a, b) == "register 0 of A differs between lanes 3 and 19"


@pytest.mark.parametrize("mnemonic", WMMA)
def test_relaxed_half_waves_feed_rows_of_their_parity(mnemonic: str) -> None:
    wmma = MATRIX[mnemonic]
    a, b, c, left, right, addend = half_wave_operands(mnemonic)
    for lane in range(32):
        if lane % 16 % 2 != lane // 16:
            left[:, :, lane] = np.uint32(0x7BCD7BCD)
    assert wmma.unequal_halves(left, right) is not None
    assert wmma.unequal_halves(left, right, relaxed=True) is None
    d = wmma.execute(left, right, addend, np.zeros_like(addend), relaxed=True)
    assert np.array_equal(taken(d, mnemonic), a @ b + c)
    wrong = wmma.execute(left, right, addend, np.zeros_like(addend))
    assert not np.array_equal(taken(wrong, mnemonic), a @ b + c)


@pytest.mark.parametrize("mnemonic", MATRIX)
def test_mfma_ignores_exec_and_asks_nothing_of_half_waves(mnemonic: str) -> None:
    instruction = MATRIX[mnemonic]
    assert instruction.ignores_exec == (mnemonic not in WMMA)
    if instruction.ignores_exec:
        junk = np.random.default_rng(8).integers(0, 2**32, (4, 3, 64), dtype=np.uint32)
        assert instruction.unequal_halves(junk, junk) is None


# --- modifiers

NONE = {"cbsz": 0, "abid": 0, "blgp": 0, "neg_lo": (0, 0, 0), "neg_hi": (0, 0, 0), "op_sel": [0, 0, 0], "clamp": False}


@pytest.mark.parametrize("instruction", MATRIX.values(), ids=MATRIX)
def test_plain_instructions_are_not_refused(instruction: MatrixInstruction) -> None:
    assert instruction.refusal({}) is None
    assert instruction.refusal(NONE) is None


@pytest.mark.parametrize(
    ("mnemonic", "name", "value", "refusal"),
    [
        ("v_mfma_i32_16x16x32_i8", "cbsz", 1, "cbsz:1"),
        ("v_mfma_i32_16x16x32_i8", "abid", 2, "abid:2"),
        ("v_mfma_f32_16x16x16_f16", "blgp", 3, "blgp:3"),
        ("v_wmma_i32_16x16x16_iu8", "clamp", True, "clamp:True"),
        ("v_wmma_i32_16x16x16_iu8", "neg_lo", (1, 1, 0), None),
        ("v_wmma_i32_16x16x16_iu8", "neg_lo", (1, 0, 1), "neg_lo:[1,0,1]"),
        ("v_wmma_i32_16x16x16_iu8", "neg_hi", (0, 1, 0), "neg_hi:[0,1,0]"),
        ("v_wmma_f32_16x16x16_f16", "neg_lo", [1, 0, 0], "neg_lo:[1,0,0]"),
        ("v_wmma_f32_16x16x16_f16", "op_sel", (0, 0, 1), "op_sel:[0,0,1]"),
        (F16_RESULT, "op_sel", (0, 0, 1), None),
        (F16_RESULT, "op_sel", (1, 0, 0), "op_sel:[1,0,0]"),
        (F16_RESULT, "neg_lo", (0, 0, 1), "neg_lo:[0,0,1]"),
    ],
)
def test_what_is_not_executed_is_refused_by_name(mnemonic: str, name: str, value: Any, refusal: str | None) -> None:
    assert MATRIX[mnemonic].refusal({**NONE, name: value}) == refusal
