"""What one wave executed, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octave_gen.isa.decode import Instruction
    from octave_gen.isa.program import Block
    from octave_gen.isa.registers import Batch


class WaveTrace:
    """Listens to a launch (``Options.watch``) and keeps the blocks of one wave of one workgroup."""

    def __init__(self, workgroup: int = 0, wave: int = 0) -> None:
        self._workgroup = workgroup
        self._wave = wave
        self._blocks: list[Block] = []

    def __call__(self, batch: Batch, block: Block) -> None:
        there = (batch.workgroup + batch.chunk.first == self._workgroup) & (batch.wave == self._wave)
        if there.any():
            self._blocks.append(block)

    def __iter__(self) -> Iterator[Instruction]:
        for block in self._blocks:
            yield from block.instructions
