"""V_EXP, V_LOG, V_RCP, V_RSQ, V_SQRT, V_SIN, V_COS.

Results are computed in double precision and rounded to the format, so they are the correctly rounded ones (but for
ties that double precision cannot tell). Hardware promises 1 ULP for float16 and float32 and 2**29 ULP for float64: its
last bit may differ, and ``floats.perturb`` shows what depends on it.

Denormals, by the notes at these instructions in AMD's CDNA3 and RDNA3 instruction set architecture reference guides,
whatever MODE says: float32 exp, log, rcp, rsq and sqrt flush denormal operands and results to zero; sine and cosine and
everything in float16 and float64 keep them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from octave_gen.isa import floats
from octave_gen.isa.types import F16, F32, F64, Array, Operation, Type


def _rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def evaluate(a: Array) -> Array:
        if a.dtype == np.float32:
            return floats.flush(function(floats.flush(a).astype(np.float64)).astype(a.dtype))
        return function(a.astype(np.float64)).astype(a.dtype)

    return evaluate


def _turns(a: Array) -> tuple[Array, Array]:
    """``a`` revolutions as quarter turns, modulo 4, and the rest as an angle within an eighth turn."""
    rest = a - np.rint(a)
    quarter = np.rint(rest * 4)
    return quarter.astype(np.int64) & 3, (rest - quarter / 4) * (2 * np.pi)


def _of_quarters(quarter: Array, sine: Array, cosine: Array) -> Array:
    """The sine of ``quarter`` right angles more than the angle whose sine and cosine are given; zeros are +0."""
    return np.choose(quarter, (sine, cosine, 0.0 - sine, 0.0 - cosine))


def _sine(a: Array) -> Array:
    """The sine of ``a`` full turns; exact at quarter turns, as in the guides' examples."""
    quarter, angle = _turns(a.astype(np.float64))
    value = _of_quarters(quarter, np.sin(angle), np.cos(angle)).astype(a.dtype)
    return np.where(a == 0, a, np.where(np.isfinite(a), value, a.dtype.type(np.nan)))


def _cosine(a: Array) -> Array:
    """The cosine of ``a`` full turns."""
    quarter, angle = _turns(a.astype(np.float64))
    value = _of_quarters((quarter + 1) & 3, np.sin(angle), np.cos(angle)).astype(a.dtype)
    return np.where(np.isfinite(a), value, a.dtype.type(np.nan))


_exp = _rounded(np.exp2)
_log = _rounded(np.log2)
_rcp = _rounded(lambda a: 1.0 / a)
_rsq = _rounded(lambda a: 1.0 / np.sqrt(a))
_sqrt = _rounded(np.sqrt)

_FUNCTIONS = (
    ("exp", _exp),
    ("log", _log),
    ("rcp", _rcp),
    ("rsq", _rsq),
    ("sqrt", _sqrt),
    ("sin", _sine),
    ("cos", _cosine),
)
_FORMATS: tuple[tuple[Type, tuple[str, ...]], ...] = (
    (F16, ("exp", "log", "rcp", "rsq", "sqrt", "sin", "cos")),
    (F32, ("exp", "log", "rcp", "rsq", "sqrt", "sin", "cos")),
    (F64, ("rcp", "rsq", "sqrt")),
)

OPERATIONS = {
    **{
        f"v_{word}_{kind.name}": Operation(kind, (kind,), function, transcendental=True)
        for kind, words in _FORMATS
        for word, function in _FUNCTIONS
        if word in words
    },
    "v_rcp_iflag_f32": Operation(F32, (F32,), _rcp, transcendental=True),
}
