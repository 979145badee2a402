"""Matrix instructions on operands in registers; the lanes of each are those of ``octave_gen.arch.layouts``.

Atoms are made anew for each call: an atom is a constant of the traced kernel.
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
    """c + a·b, 16x16x32 of int8 with two words an operand, 16x16x64 with four (gfx950); c: four Int32."""
    return _multiply(16 * len(a), fx.Int8, fx.Int32x4, a, b, c)


def multiply_half(a: Sequence[Value], b: Sequence[Value], c: Value, kind: Value = fx.Float16) -> Value:
    """c + a·b, 16x16x16 of fp16 or bf16 with two words an operand, 16x16x32 with four (gfx950); c: four Float32."""
    return _multiply(8 * len(a), kind, fx.Float32x4, a, b, c)


def _multiply(depth: int, kind: Value, sums: Value, a: Sequence[Value], b: Sequence[Value], c: Value) -> Value:
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, depth, kind, _element(sums)))
    first, second = (fx.Vector.from_elements([fx.Int32(word) for word in x], fx.Int32).bitcast(kind) for x in (a, b))
    return unstable.matrix_multiply(sums, atom, first, second, c)


def _element(vector: Value) -> Value:
    return fx.Int32 if vector is fx.Int32x4 else fx.Float32
