"""Operands for the instruction tests, and the independent statements they are checked against: Python integers,
fractions and IEEE rounding written out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa import cdna4, compare, convert, packed, scalar, vector_float, vector_integer
from octave_gen.isa.types import Operation, Type

Array = NDArray[Any]

TABLES: tuple[Mapping[str, Operation], ...] = (
    scalar.OPERATIONS,
    vector_integer.OPERATIONS,
    vector_float.OPERATIONS,
    convert.OPERATIONS,
    compare.OPERATIONS,
    packed.OPERATIONS,
    cdna4.OPERATIONS,
)
OPERATIONS: dict[str, Operation] = {name: operation for table in TABLES for name, operation in table.items()}

UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}
FLOAT_BITS = {"f2": (10, 5), "f4": (23, 8), "f8": (52, 11)}
"""Fraction and exponent bits of the formats."""


def spelled(rows: Mapping[str, Any]) -> dict[str, Any]:
    """A row per spelling; a name that stands in two rows is an error."""
    found: dict[str, Any] = {}
    for names, value in rows.items():
        for name in names.split():
            assert name not in found, name
            found[name] = value
    return found


def code(dtype: np.dtype[Any]) -> str:
    return f"{dtype.kind}{dtype.itemsize}"


def integer_edges(dtype: np.dtype[Any]) -> list[int]:
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    edges = {low, low + 1, high - 1, high, 0, 1, 2, 3, 5, 0x55, 0x7F, 0x80, 0xFF}
    if low < 0:
        edges |= {-1, -2, -128}
    if dtype.itemsize > 2:
        edges |= {0x7FFF, 0x8000, 0xFFFF, 0xFFFFFF, 0x800000, 0x01234567, 0x80FF7F01 & high}
    return sorted(edges)


def float_edges(dtype: np.dtype[Any]) -> Array:
    """±0, denormals, the borders of the normal range, ties of integers, infinities, quiet and signaling NaN."""
    fraction, exponent = FLOAT_BITS[code(dtype)]
    unsigned = UNSIGNED[dtype.itemsize]
    top = ((1 << exponent) - 1) << fraction
    one = ((1 << exponent - 1) - 1) << fraction
    words = [0, 1, 2, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1, one - 1, one, one + 1, top - 1, top]
    words += [top | 1, top | 1 << fraction - 1]
    bits = np.array(words, unsigned).view(dtype)
    numbers = np.array([0.5, 1.5, 2.5, 3.5, 0.49999997, 255.5, 32767.5, 65504.0, 2.0, 3.0, 1 / 3], dtype)
    both = np.concatenate([bits, numbers])
    negated: Array = both.view(unsigned) ^ unsigned(1 << 8 * dtype.itemsize - 1)
    return np.concatenate([both, negated.view(dtype)])


def edges(dtype: np.dtype[Any]) -> Array:
    return float_edges(dtype) if dtype.kind == "f" else np.array(integer_edges(dtype), dtype)


def random(dtype: np.dtype[Any], count: int, rng: np.random.Generator) -> Array:
    """Numbers of all sizes: random bits, with the exponent near 0 for half of the floats and with high bits cleared
    for half of the integers."""
    size = dtype.itemsize
    word: Array = rng.integers(0, 1 << 8 * size, count, dtype=np.uint64).astype(UNSIGNED[size])
    if dtype.kind == "f":
        near = (rng.standard_normal(count) * 2.0 ** rng.integers(-8, 9, count)).astype(dtype)
        return np.where(rng.random(count) < 0.5, near, word.view(dtype))
    shift = rng.integers(0, 8 * size, count).astype(dtype)
    return np.where(rng.random(count) < 0.5, word.view(dtype), word.view(dtype) >> shift)


def operands(types: Iterable[Type], *, seed: int = 0, count: int = 600, cross: int = 4000) -> list[Array]:
    """One array [2, n] per operand: combinations of edges (at most ``cross`` of them), then random numbers."""
    types, rng = list(types), np.random.default_rng(seed)
    grids = [edges(t.dtype) for t in types]
    extents = [len(grid) for grid in grids]
    total = math.prod(extents)
    chosen = np.arange(total) if total <= cross else rng.choice(total, cross, replace=False)
    columns = np.unravel_index(chosen, extents)
    columns_of = [
        np.concatenate([g[c], random(t.dtype, count, rng)]) for g, c, t in zip(grids, columns, types, strict=True)
    ]
    even = len(columns_of[0]) // 2 * 2
    return [column[:even].reshape(2, -1) for column in columns_of]


def pairs(types: Iterable[Type], *, seed: int = 0, count: int = 600) -> list[Array]:
    """Like ``operands``, with a last axis of 2 where the type is packed."""
    types = list(types)
    flat = operands([Type(t.name, t.dtype, 1) for t in types], seed=seed, count=2 * count)
    length = flat[0].shape[1] // 2 * 2
    return [
        column[:, :length].reshape(2, -1, 2) if t.elements == 2 else column[:, : length // 2]
        for column, t in zip(flat, types, strict=True)
    ]


def run(name: str, *values: Array, **options: Any) -> Any:
    """The instruction as the engine runs it."""
    with np.errstate(all="ignore"):
        return OPERATIONS[name].function(*values, **options)


def words(value: Array) -> Array:
    return value.view(UNSIGNED[value.dtype.itemsize])


def assert_same(got: Array, want: Array, *inputs: Array, what: str = "") -> None:
    """Equal bits, any NaN equal to any NaN."""
    assert got.dtype == want.dtype, (what, got.dtype, want.dtype)
    assert got.shape == want.shape, (what, got.shape, want.shape)
    if got.dtype == np.bool_:
        wrong = got != want
    else:
        wrong = words(np.ascontiguousarray(got)) != words(np.ascontiguousarray(want))
    if got.dtype.kind == "f":
        wrong &= ~(np.isnan(got) & np.isnan(want))
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        shown = [x[at] if x.shape == got.shape else x[at[: x.ndim]] for x in inputs]
        raise AssertionError(
            f"{what}: {wrong.sum()} of {wrong.size}, first {shown}: got {got[at]!r}, want {want[at]!r}"
        )


def check(name: str, statement: Callable[..., Any], values: list[Array], dtype: Any, **options: Any) -> None:
    """``statement`` on Python numbers, one lane after the other, must give what the instruction gives."""
    got = run(name, *values, **options)
    lanes = zip(*(x.ravel().tolist() for x in values), strict=True)
    if np.dtype(dtype).kind in "iu":
        bits = 8 * np.dtype(dtype).itemsize
        expected = [int(statement(*lane)) & ((1 << bits) - 1) for lane in lanes]
        want = np.array(expected, UNSIGNED[np.dtype(dtype).itemsize]).view(dtype)
    else:
        want = np.array([statement(*lane) for lane in lanes], dtype)
    assert_same(got, want.reshape(values[0].shape), *values, what=name)


def lanes(statement: Callable[..., float], values: list[Array], kind: Type) -> Array:
    """``statement`` on Python floats lane by lane; it returns numbers of the format."""
    flat = [statement(*lane) for lane in zip(*(v.ravel().tolist() for v in values), strict=True)]
    with np.errstate(all="ignore"):
        return np.array(flat, np.float64).astype(kind.dtype).reshape(values[0].shape)


def check_float(name: str, statement: Callable[..., float], kind: Type, **sizes: int) -> None:
    """An instruction with a float result against ``statement``."""
    values = operands(OPERATIONS[name].operands, **sizes)
    assert_same(run(name, *values), lanes(statement, values, kind), *values, what=name)


def rounded(exact: Fraction, dtype: Any, *, toward_zero: bool = False) -> float:
    """An exact number in a format: nearest even (or toward zero), denormals kept, overflow to infinity (or the
    largest finite number)."""
    fraction, exponent = FLOAT_BITS[code(np.dtype(dtype))]
    if exact == 0:
        return 0.0
    bias = (1 << exponent - 1) - 1
    size, power = abs(exact), -(bias - 1)
    high = size.numerator.bit_length() - size.denominator.bit_length()
    high -= size < Fraction(2) ** high
    power = max(power, high)
    quantum = Fraction(2) ** (power - fraction)
    units = size / quantum
    count = math.floor(units) if toward_zero else round(units)
    value = count * quantum
    if value >= Fraction(2) ** (bias + 1):
        value_float = float(np.finfo(dtype).max) if toward_zero else math.inf
    else:
        value_float = float(value)
    return -value_float if exact < 0 else value_float


def exact_fma(a: float, b: float, c: float, dtype: Any, scale: int = 0) -> float:
    """``(a * b + c) * 2**scale`` rounded once."""
    if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return c
    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = (Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(2) ** scale
    if exact == 0:
        return a * b + c
    return rounded(exact, dtype)
