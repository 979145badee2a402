"""Vector comparisons: ``v_cmp_*``. The engine derives ``v_cmpx_*`` from them.

Source of the semantics: the VOPC descriptions of AMD's CDNA3 and RDNA3 instruction set architecture reference guides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from octave_gen.isa.floats import signaling
from octave_gen.isa.types import F16, F32, F64, I16, I32, I64, U16, U32, U64, Array, Operation, Type, table

_Test = Callable[[Array, Array], Array]


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _less_or_greater(a: Array, b: Array) -> Array:
    return (a < b) | (a > b)


def _constant(value: bool) -> _Test:
    return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), value)


def _not(test: _Test) -> _Test:
    return lambda a, b: ~test(a, b)


_ORDER: dict[str, _Test] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_NEVER, _ALWAYS = _constant(False), _constant(True)

_INTEGER: dict[str, _Test] = {**_ORDER, "ne": np.not_equal, "f": _NEVER, "t": _ALWAYS}

# A negated test is true for unordered operands: "nlt" is not "ge".
_FLOAT: dict[str, _Test] = {
    **_ORDER,
    "lg": _less_or_greater,
    "u": _unordered,
    "o": _not(_unordered),
    "neq": np.not_equal,
    "nlg": _not(_less_or_greater),
    "nlt": _not(np.less),
    "nle": _not(np.less_equal),
    "ngt": _not(np.greater),
    "nge": _not(np.greater_equal),
    "f": _NEVER,
    "t": _ALWAYS,
    "tru": _ALWAYS,
}


def is_class(value: Array, mask: Array) -> Array:
    """V_CMP_CLASS: whether ``mask`` has the bit of the class of ``value``.

    Bits 0-9: signaling NaN, quiet NaN, then from -infinity up: -infinity, -normal, -denormal, -0, +0, +denormal,
    +normal, +infinity.
    """
    size, negative = np.abs(value), np.signbit(value)
    normal, infinite = size >= np.finfo(value.dtype).smallest_normal, np.isinf(value)
    magnitude = (size != 0).astype(np.int64) + normal + infinite
    index = np.where(negative, 5 - magnitude, 6 + magnitude)
    index = np.where(np.isnan(value), np.where(signaling(value), 0, 1), index)
    chosen: Array = ((mask.astype(np.int64) >> index) & 1) != 0
    return chosen


def _compares(kind: Type, tests: dict[str, _Test]) -> dict[str, Operation]:
    return {
        f"v_cmp_{word}_{kind.name}": Operation(None, (kind, kind), test, compare=True) for word, test in tests.items()
    }


_CLASSES = {
    "v_cmp_class_f16": Operation(None, (F16, U16), is_class, compare=True),
    "v_cmp_class_f32": Operation(None, (F32, U32), is_class, compare=True),
    "v_cmp_class_f64": Operation(None, (F64, U32), is_class, compare=True),
}

OPERATIONS = {
    **{name: test for kind in (I16, U16, I32, U32, I64, U64) for name, test in _compares(kind, _INTEGER).items()},
    **{name: test for kind in (F16, F32, F64) for name, test in _compares(kind, _FLOAT).items()},
    **table(_CLASSES),
}
