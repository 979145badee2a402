"""gfx9's mode of vector registers indexed by M0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from octave_gen.isa.decode import M0, Instruction
from octave_gen.isa.operands import Reader, Step, UnknownError, reader, write_vector
from octave_gen.isa.types import U32

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch


class IndexMode:
    """gfx9's indexed VGPR access: what stands between ``s_set_gpr_idx_on`` and ``s_set_gpr_idx_off``.

    clang puts one ``v_mov_b32`` there; every other vector instruction is refused.
    """

    def __init__(self) -> None:
        self._amount: Reader | None = None
        self._source = self._destination = False

    def compile(self, instruction: Instruction) -> Step | None:
        """The step of an instruction that this mode changes, or that changes it; None for all others."""
        if instruction.base == "s_set_gpr_idx_on":
            words = instruction.operands[1].text
            if "SRC1" in words or "SRC2" in words:
                raise UnknownError(instruction.text)
            amount = self._amount = reader(instruction.operands[0], U32, scalar=True)
            self._source, self._destination = "SRC0" in words, "DST" in words
            keep = np.uint32(0xFF)

            def remember(b: Batch) -> None:
                b.s.u32[M0] = (b.s.u32[M0] & ~keep) | (amount(b) & keep)

            return remember
        if instruction.base == "s_set_gpr_idx_off":
            self._amount = None
            return lambda b: None
        if self._amount is None or not instruction.base.startswith("v_"):
            return None
        if instruction.base != "v_mov_b32" or instruction.encoding not in ("e32", "e64"):
            raise UnknownError(f"{instruction.mnemonic} with indexed registers")
        return self._move(instruction)

    def _move(self, instruction: Instruction) -> Step:
        target, source = instruction.operands
        read = reader(source, U32)
        from_index = self._source and source.kind == "v"
        to_index = self._destination
        keep = np.uint32(0xFF)

        def step(b: Batch) -> None:
            amount = (b.s.u32[M0] & keep).astype(np.intp)
            waves = np.arange(b.waves)
            value = b.v.u32[source.index + amount, waves] if from_index else read(b)
            if to_index:
                rows = target.index + amount
                b.v.u32[rows, waves] = np.where(b.exec, value, b.v.u32[rows, waves])
            else:
                write_vector(b, target.index, value)

        return step
