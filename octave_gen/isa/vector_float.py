"""Floating point instructions of the vector unit.

Source of the semantics: the vector instruction descriptions of AMD's CDNA3 and RDNA3 instruction set architecture
reference guides; rounding, NaN and denormal rules are stated in ``floats``. ``v_mad_f16`` and ``v_mac_f16`` of gfx9 are
left out: they round twice and flush denormals, and a compiler uses them only in a mode that these kernels never set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from octave_gen.isa import division, transcendental
from octave_gen.isa.floats import fused_multiply_add, maximum, median, minimum
from octave_gen.isa.types import F16, F32, F64, I16, I32, MIX, Array, Operation, Type, table


def _fraction(a: Array) -> Array:
    """V_FRACT: ``a - floor(a)``, held below 1."""
    below_one = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    rest = a - np.floor(a)
    return np.where(rest > below_one, below_one, rest)


def _scale(a: Array, power: Array) -> Array:
    """V_LDEXP; float16 goes through float64, so it is rounded once."""
    if a.dtype == np.float16:
        return np.ldexp(a.astype(np.float64), power).astype(np.float16)
    return np.ldexp(a, power)


def _significand(a: Array) -> Array:
    return np.frexp(a)[0]


def _power(kind: Type) -> Callable[[Array], Array]:
    """V_FREXP_EXP: the power of two of the significand within [0.5, 1); 0 for infinities and NaN."""
    return lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(kind.dtype)


def _multiply_zero(a: Array, b: Array) -> Array:
    """The DirectX 9 rule: zero times anything is +0."""
    return np.where((a == 0) | (b == 0), a.dtype.type(0), a * b)


def _fma_zero(a: Array, b: Array, c: Array) -> Array:
    return np.where((a == 0) | (b == 0), c, fused_multiply_add(a, b, c))


def _mixed_fma(dtype: str) -> Callable[..., Array]:
    """V_FMA_MIX: computed in float32; a float16 result is rounded from there."""
    return lambda a, b, c: fused_multiply_add(a, b, c).astype(dtype)


def _rowed(kind: Type) -> dict[str, Operation]:
    """What every format has."""
    one, two, three = (kind,), (kind, kind), (kind, kind, kind)
    rows = {
        "add": Operation(kind, two, lambda a, b: a + b),
        "mul": Operation(kind, two, lambda a, b: a * b),
        "min": Operation(kind, two, minimum),
        "max": Operation(kind, two, maximum),
        "fma": Operation(kind, three, fused_multiply_add, keeps_half=kind is F16),
        "fmac": Operation(kind, two, fused_multiply_add, reads_destination=True, keeps_half=kind is F16),
        "floor": Operation(kind, one, np.floor),
        "ceil": Operation(kind, one, np.ceil),
        "trunc": Operation(kind, one, np.trunc),
        "rndne": Operation(kind, one, np.rint),
        "fract": Operation(kind, one, _fraction),
        "frexp_mant": Operation(kind, one, _significand),
        "ldexp": Operation(kind, (kind, I16 if kind is F16 else I32), _scale),
        "div_fixup": Operation(kind, three, division.fix_up, keeps_half=kind is F16),
    }
    return {f"v_{word}_{kind.name}": operation for word, operation in rows.items()}


def _short(kind: Type) -> dict[str, Operation]:
    """What float16 and float32 have beyond that."""
    two, three = (kind, kind), (kind, kind, kind)
    rows = {
        "sub": Operation(kind, two, lambda a, b: a - b),
        "subrev": Operation(kind, two, lambda a, b: b - a),
        # The operands stand in the order of the text: the constant is the second (mk) or the third (ak).
        "fmamk": Operation(kind, three, fused_multiply_add),
        "fmaak": Operation(kind, three, fused_multiply_add),
        "min3": Operation(kind, three, lambda a, b, c: minimum(minimum(a, b), c)),
        "max3": Operation(kind, three, lambda a, b, c: maximum(maximum(a, b), c)),
        "med3": Operation(kind, three, median),
        "minmax": Operation(kind, three, lambda a, b, c: maximum(minimum(a, b), c)),
        "maxmin": Operation(kind, three, lambda a, b, c: minimum(maximum(a, b), c)),
    }
    return {f"v_{word}_{kind.name}": operation for word, operation in rows.items()}


def _divided(kind: Type) -> dict[str, Operation]:
    """The helpers of the division sequence in float32 and float64."""
    three = (kind, kind, kind)
    return {
        f"v_div_scale_{kind.name}": Operation(kind, three, division.scale, carry_out=True),
        f"v_div_fmas_{kind.name}": Operation(kind, three, division.fused_scaled, carry_in=True),
    }


_SINGLE = {
    "v_mul_legacy_f32 v_mul_dx9_zero_f32": Operation(F32, (F32, F32), _multiply_zero),
    "v_fma_dx9_zero_f32": Operation(F32, (F32, F32, F32), _fma_zero),
    "v_fmac_dx9_zero_f32": Operation(F32, (F32, F32), _fma_zero, reads_destination=True),
    "v_fma_legacy_f16": Operation(F16, (F16, F16, F16), fused_multiply_add),
    "v_div_fixup_legacy_f16": Operation(F16, (F16, F16, F16), division.fix_up),
    "v_frexp_exp_i32_f32": Operation(I32, (F32,), _power(I32)),
    "v_frexp_exp_i32_f64": Operation(I32, (F64,), _power(I32)),
    "v_frexp_exp_i16_f16": Operation(I16, (F16,), _power(I16)),
    "v_fma_mix_f32": Operation(F32, (MIX, MIX, MIX), fused_multiply_add),
    "v_fma_mixlo_f16": Operation(F16, (MIX, MIX, MIX), _mixed_fma("f2"), keeps_half=True),
    "v_fma_mixhi_f16": Operation(F16, (MIX, MIX, MIX), _mixed_fma("f2"), keeps_half=True, high_half=True),
}

OPERATIONS = {
    **{name: operation for kind in (F16, F32, F64) for name, operation in _rowed(kind).items()},
    **{name: operation for kind in (F16, F32) for name, operation in _short(kind).items()},
    **{name: operation for kind in (F32, F64) for name, operation in _divided(kind).items()},
    **table(_SINGLE),
    **transcendental.OPERATIONS,
}
