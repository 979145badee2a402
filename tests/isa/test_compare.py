"""Vector comparisons against Python's, and number classes against the bits of the format."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from values import FLOAT_BITS, OPERATIONS, UNSIGNED, code, edges, operands, random, run

from octave_gen.isa import compare

INTEGER: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "ne": operator.ne,
    "ge": operator.ge,
    "f": lambda a, b: False,
    "t": lambda a, b: True,
}


def unordered(a: float, b: float) -> bool:
    return math.isnan(a) or math.isnan(b)


FLOAT: dict[str, Callable[[float, float], bool]] = {
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "lg": lambda a, b: a < b or a > b,
    "ge": operator.ge,
    "o": lambda a, b: not unordered(a, b),
    "u": unordered,
    "nge": lambda a, b: unordered(a, b) or a < b,
    "nlg": lambda a, b: unordered(a, b) or a == b,
    "ngt": lambda a, b: unordered(a, b) or a <= b,
    "nle": lambda a, b: unordered(a, b) or a > b,
    "neq": lambda a, b: unordered(a, b) or a != b,
    "nlt": lambda a, b: unordered(a, b) or a >= b,
    "f": lambda a, b: False,
    "t": lambda a, b: True,
    "tru": lambda a, b: True,
}
INTEGERS = [f"v_cmp_{word}_{kind}" for kind in ("i16", "u16", "i32", "u32", "i64", "u64") for word in INTEGER]
FLOATS = [f"v_cmp_{word}_{kind}" for kind in ("f16", "f32", "f64") for word in FLOAT]
CLASSES = ["v_cmp_class_f16", "v_cmp_class_f32", "v_cmp_class_f64"]


def test_every_instruction_has_a_statement() -> None:
    assert {*INTEGERS, *FLOATS, *CLASSES} == set(compare.OPERATIONS)
    assert all(o.compare and o.result is None for o in compare.OPERATIONS.values())


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_comparison(name: str) -> None:
    word, kind = name.split("_")[2:]
    statement: Callable[[Any, Any], bool] = FLOAT[word] if kind[0] == "f" else INTEGER[word]
    a, b = operands(OPERATIONS[name].operands, cross=800)
    half = a.shape[1] // 2
    b[:, half:][:, ::3] = a[:, half:][:, ::3]
    got = run(name, a, b)
    assert got.dtype == np.bool_
    want = [statement(x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
    assert got.ravel().tolist() == want


def class_of(word: int, fraction: int, exponent: int) -> int:
    sign, power = word >> fraction + exponent & 1, word >> fraction & (1 << exponent) - 1
    rest = word & (1 << fraction) - 1
    if power == (1 << exponent) - 1:
        if rest:
            return 1 if rest >> fraction - 1 else 0
        return 2 if sign else 9
    if power:
        return 3 if sign else 8
    if rest:
        return 4 if sign else 7
    return 5 if sign else 6


@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str) -> None:
    number, mask_type = OPERATIONS[name].operands
    rng = np.random.default_rng(0)
    values = np.concatenate([edges(number.dtype), random(number.dtype, 300, rng)])[None]
    classes = [
        class_of(w, *FLOAT_BITS[code(number.dtype)]) for w in values.view(UNSIGNED[number.dtype.itemsize])[0].tolist()
    ]
    assert set(classes) == set(range(10))
    for bit in range(10):
        got = run(name, values, np.array([[1 << bit]], mask_type.dtype))
        assert got[0].tolist() == [c == bit for c in classes]
    mask = rng.integers(0, 1 << 10, values.shape).astype(mask_type.dtype)
    assert run(name, values, mask)[0].tolist() == [
        bool(m >> c & 1) for m, c in zip(mask[0].tolist(), classes, strict=True)
    ]


def test_constants_broadcast() -> None:
    assert run("v_cmp_f_u32", np.zeros((1, 1), np.uint32), np.zeros((3, 4), np.uint32)).shape == (3, 4)
