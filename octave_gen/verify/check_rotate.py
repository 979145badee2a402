"""rotate: bit for bit the reference; a NaN may be any NaN."""

from __future__ import annotations

from octave_gen.reference.rotate import rotate
from octave_gen.verify.cases import RotateCase
from octave_gen.verify.compare import Measured, same_bits
from octave_gen.verify.inputs import center, edge_vectors, gaussian, place, signs
from octave_gen.verify.operators import Executor
from octave_gen.verify.subject import Subject


def check(subject: Subject, case: RotateCase, seed: int, executor: Executor) -> Measured:
    """Runs the case and compares."""
    shape = (case.tokens, case.heads, subject.head_size)
    if case.values == "gaussian":
        wanted = gaussian(seed, "x", shape, subject.dtype)
    else:
        wanted = edge_vectors(seed, "x", case.tokens * case.heads, subject.head_size, subject.dtype).reshape(shape)
    words = signs(seed, "signs", subject.head_size, case.signs)
    x = place(wanted, case.memory)
    given = center(seed, case.heads, subject.head_size, subject.dtype, case.center)
    executor.rotate(subject.variant, x, words, bool(case.k_layout), bool(case.inverse), given)
    rotate(wanted, bool(case.k_layout), bool(case.inverse), words, given)
    return same_bits("x", x, wanted)
