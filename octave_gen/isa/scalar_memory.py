"""Scalar loads: ``s_load_*`` and ``s_buffer_load_*``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import Instruction
from octave_gen.isa.operands import Chip, Reader, Step, UnknownError, reader
from octave_gen.isa.types import U32

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch

_NAME = re.compile(r"s_(buffer_)?load_(?:dword(?:x(\d+))?|b(\d+))")
_HINTS = {"offset", "glc", "dlc"}


def build(instruction: Instruction, chip: Chip) -> Step:
    """One scalar load; the address is rounded down to a multiple of 4."""
    match = _NAME.fullmatch(instruction.base)
    unknown = set(instruction.modifiers) - _HINTS
    if not match or unknown:
        raise UnknownError(f"{instruction.mnemonic} {' '.join(unknown)}".strip())
    words = int(match[2] or 1) if match[3] is None else int(match[3]) // 32
    destination, base = instruction.operands[0].index, instruction.operands[1].index
    offset: Reader = reader(instruction.operands[2], U32, scalar=True)
    constant = np.uint64(instruction.number("offset") & (1 << 64) - 1)
    if instruction.operands[2].kind == "constant":
        immediate = np.uint64(int(instruction.operands[2].text, 0) & (1 << 64) - 1)
    else:
        immediate = None
    buffer = match[1] is not None
    key = instruction.address

    def addresses(b: Batch) -> NDArray[np.uint64]:
        extra = immediate if immediate is not None else offset(b).astype(np.uint64)
        start = b.read64(base)
        if buffer:
            start = start & np.uint64(0xFFFFFFFFFFFF)
        total: NDArray[np.uint64] = (start + extra + constant) & np.uint64(0xFFFFFFFFFFFFFFFC)
        return total

    def step(b: Batch) -> None:
        if not b.waves:
            return
        where = addresses(b)
        b.chunk.counters.smem += 4 * words * b.waves
        values = b.chunk.space.load(where, 4 * words, key)
        b.s.u32[destination : destination + words] = values.reshape(b.waves, words).T

    return step
