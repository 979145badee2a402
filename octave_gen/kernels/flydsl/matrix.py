"""Matrix instructions on operands in registers; the lanes of each are those of ``octave_gen.arch.layouts``.

An operand is two words, or four for the instructions of twice the depth that gfx950 has; those are no MMA atoms of
FlyDSL. Atoms are made anew for each call: an atom is a constant of the traced kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import flydsl.expr as fx

from octave_gen.kernels.flydsl import unstable
from octave_gen.kernels.flydsl.unstable import Value


def zero_sums(kind: Value) -> Value:
    """The four results of a lane, zero; ``kind``: fx.Int32 or fx.Float32."""
    return fx.Vector.filled(4, 0, kind)


def multiply_int8(a: Sequence[Value], b: Sequence[Value], c: Value) -> Value:
    """c + a·b, 16x16x32 of int8 or (four words) 16x16x64; c: four Int32."""
    if len(a) == 4:
        return _wide("i32.16x16x64.i8", fx.Int32, fx.Int32x4, a, b, c)
    return _multiply(32, fx.Int8, fx.Int32, fx.Int32x4, a, b, c)


def multiply_half(a: Sequence[Value], b: Sequence[Value], c: Value, kind: Value = fx.Float16) -> Value:
    """c + a·b, 16x16x16 of fp16 or bf16, or (four words) 16x16x32; c: four Float32."""
    if len(a) == 4:
        name = "f32.16x16x32.f16" if kind is fx.Float16 else "f32.16x16x32.bf16"
        return _wide(name, kind, fx.Float32x4, a, b, c)
    return _multiply(16, kind, fx.Float32, fx.Float32x4, a, b, c)


def _multiply(
    depth: int, kind: Value, sum_kind: Value, sums: Value, a: Sequence[Value], b: Sequence[Value], c: Value
) -> Value:
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, depth, kind, sum_kind))
    return unstable.matrix_multiply(sums, atom, _operand(a, kind), _operand(b, kind), c)


def _wide(name: str, kind: Value, sums: Value, a: Sequence[Value], b: Sequence[Value], c: Value) -> Value:
    no_broadcast = (fx.Int32(0),) * 3
    return unstable.intrinsic(sums, f"llvm.amdgcn.mfma.{name}", _operand(a, kind), _operand(b, kind), c, *no_broadcast)


def _operand(words: Sequence[Value], kind: Value) -> Value:
    return fx.Vector.from_elements([fx.Int32(word) for word in words], fx.Int32).bitcast(kind)
