"""Arithmetic that is one instruction each, and bits of numbers. Nothing is contracted here: a fused multiply-add is
``fx.fma``, and a product and a sum are two roundings."""

from __future__ import annotations

import math

import flydsl.expr as fx

from octave_gen.kernels.flydsl import unstable
from octave_gen.kernels.flydsl.unstable import Value

INFINITY = math.inf
LARGEST_HALF = 65504.0
LOG2_E = 1.4426950408889634

SCALARS = {"f16": fx.Float16, "bf16": fx.BFloat16}
"""The types of queries and outputs, by their names in a request."""
QUERY_RANGE = 127.0 * 128.0
"""Of the integers that the largest value of a query row becomes: two int8 halves, 128·high + low."""
QUERY_FLOOR = 2.0**-100
"""A query row whose largest value is below this is zero: its scale's reciprocal comes near overflow."""


def exp2(x: Value) -> Value:
    """2^x of a Float32."""
    return unstable.intrinsic(fx.Float32, "llvm.amdgcn.exp2.f32", x)


def log2(x: Value) -> Value:
    """The logarithm of a Float32 that is no denormal."""
    return unstable.intrinsic(fx.Float32, "llvm.amdgcn.log.f32", x)


def fma_half(word: Value, half: int, b: Value, c: Value) -> Value:
    """a·b + c with a the fp16 in half 0 or 1 of an Int32: one instruction, which the compiler would split."""
    text = f"v_fma_mix_f32 $0, $1, $2, $3 op_sel:[{half},0,0] op_sel_hi:[1,0,0]"
    return unstable.inline_asm(fx.Float32, text, "=v,v,v,v", word, b, c)


def bits(x: Value) -> Value:
    """The Uint32 of a Float32."""
    return x.bitcast(fx.Uint32)


def from_bits(x: Value) -> Value:
    """The Float32 of 32 bits."""
    return x.bitcast(fx.Float32)


def pack_halves(low: Value, high: Value) -> Value:
    """The Int32 of two Float16."""
    return fx.Vector.from_elements([low, high], fx.Float16).bitcast(fx.Int32)[0]
