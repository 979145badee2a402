"""Dual issue on gfx11 (VOPD): both halves read before either writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from octave_gen.isa.decode import Instruction
from octave_gen.isa.operands import Chip, Step, UnknownError
from octave_gen.isa.types import Operation
from octave_gen.isa.vector_alu import halves

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch


def build(instruction: Instruction, operations: dict[str, Operation], chip: Chip) -> Step:
    """One step for the pair; raises UnknownError naming the half that is not known."""
    if instruction.second is None:
        raise UnknownError(instruction.mnemonic)
    parts = []
    for half in (instruction, instruction.second):
        if half.base not in operations:
            raise UnknownError(half.mnemonic)
        parts.append(halves(half, operations[half.base], chip))
    (compute_x, commit_x), (compute_y, commit_y) = parts

    def step(b: Batch) -> None:
        x = compute_x(b)
        y = np.array(compute_y(b))  # a move returns the register itself, which the other half may write
        commit_x(b, x)
        commit_y(b, y)

    return step
