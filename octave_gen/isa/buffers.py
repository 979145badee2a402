"""``buffer_load_*``, ``buffer_store_*``, ``buffer_atomic_*``: memory behind a descriptor in four scalar registers.

Address: base + scalar offset + offset (raw), or + index * stride too (structured). An access past the descriptor's
records reads 0 and stores nothing; that is the feature, no fault. Raw buffers are checked word by word, structured ones
by index ("Buffer addressing" in the CDNA3 and RDNA3 documents). Swizzled forms are refused. Loads to LDS are in
``lds_direct``; what they write for a lane past the records is not documented, so there that is a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa import lds_direct
from octave_gen.isa.atomics import ATOMICS, on_memory
from octave_gen.isa.decode import Instruction, Operand
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.operands import Chip, Reader, Step, UnknownError, reader
from octave_gen.isa.transfers import FORMATS, Format, chosen, loaded, stored
from octave_gen.isa.types import U32

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

_NAME = re.compile(r"buffer_(load|store)_(\w+)")
_HINTS = {"offset", "offen", "idxen", "glc", "slc", "dlc", "sc0", "sc1", "nt"}
_TO_LDS = "lds"
_SWIZZLE = {True: 1 << 31, False: 0xC0000000}
"""Where a descriptor says that it is swizzled: bit 31 of word 1 on gfx9, bits 30 and 31 on gfx11."""


@dataclass(frozen=True)
class Descriptor:
    """How the operands of an instruction name its addresses."""

    index: int | None
    offset: int | None
    resource: int
    scalar: Reader
    constant: int
    gfx9: bool

    def resolve(self, b: Batch) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """(address, what is checked, its limit), [waves, lanes] each; the limit is in bytes for raw buffers."""
        words = b.s.u32[self.resource : self.resource + 4]
        if (words[1] & np.uint32(_SWIZZLE[self.gfx9])).any():
            raise InstructionError("unsupported", "swizzled buffer descriptor")
        base = (words[0] | (words[1].astype(np.uint64) & np.uint64(0xFFFF)) << np.uint64(32))[:, None]
        stride = (words[1] >> np.uint32(16) & np.uint32(0x3FFF)).astype(np.uint64)[:, None]
        records = np.broadcast_to(words[2].astype(np.uint64)[:, None], b.exec.shape)
        inner = np.full(b.exec.shape, self.constant, np.uint64)
        if self.offset is not None:
            inner += b.v.u32[self.offset]
        address = base + inner + self.scalar(b).astype(np.uint64)[:, None]
        if self.index is None:
            return address, inner, records
        index = b.v.u32[self.index].astype(np.uint64)
        return address + index * stride, index, records


def _descriptor(instruction: Instruction, operands: tuple[Operand, ...], chip: Chip) -> Descriptor:
    unknown = set(instruction.modifiers) - _HINTS - {_TO_LDS}
    if unknown:
        raise UnknownError(f"{instruction.mnemonic}: modifier {sorted(unknown)[0]}")
    vector, resource, scalar = operands
    indexed, offset = "idxen" in instruction.modifiers, "offen" in instruction.modifiers
    return Descriptor(
        index=vector.index if indexed else None,
        offset=vector.index + indexed if offset else None,
        resource=resource.index,
        scalar=reader(scalar, U32, scalar=True),
        constant=instruction.number("offset"),
        gfx9=chip.gfx9,
    )


def build(instruction: Instruction, chip: Chip) -> Step:
    """One buffer instruction; raises UnknownError for forms that are not executed."""
    if _TO_LDS in instruction.modifiers:
        return _build_to_lds(instruction, chip)
    data = instruction.operands[0] if instruction.operands else None
    if data is None or len(instruction.operands) != 4:
        raise UnknownError(instruction.mnemonic)
    descriptor = _descriptor(instruction, instruction.operands[1:], chip)
    key = instruction.address
    if instruction.base.startswith("buffer_atomic_"):
        name = instruction.base.removeprefix("buffer_atomic_")
        if name not in ATOMICS:
            raise UnknownError(instruction.mnemonic)
        atomic = ATOMICS[name]
        destination = data if {"glc", "sc0"} & set(instruction.modifiers) else None

        def step(b: Batch) -> None:
            address, checked, limit = descriptor.resolve(b)
            inside = checked < limit if descriptor.index is not None else checked + atomic.size <= limit
            on_memory(b, atomic, address, b.exec & inside, data, destination, key)

        return step
    match = _NAME.fullmatch(instruction.base)
    if not match or match[2] not in FORMATS:
        raise UnknownError(instruction.mnemonic)
    format_, load = FORMATS[match[2]], match[1] == "load"
    word = Format(min(format_.size, 4), format_.signed, format_.half)

    def move(b: Batch) -> None:
        address, checked, limit = descriptor.resolve(b)
        for part in range(format_.registers):
            operand = data.from_register(data.index + part)
            ahead = np.uint64(4 * part)
            if descriptor.index is not None:
                inside: Mask = b.exec & (checked < limit)
            else:
                inside = b.exec & (checked + ahead + np.uint64(word.size) <= limit)
            if load:
                _load(b, address + ahead, inside, operand, word, key)
            else:
                _store(b, address + ahead, inside, operand, word, key)

    return move


def _build_to_lds(instruction: Instruction, chip: Chip) -> Step:
    match = _NAME.fullmatch(instruction.base)
    if match is None or match[1] != "load" or len(instruction.operands) != 3:
        raise UnknownError(f"{instruction.mnemonic} to LDS")
    descriptor = _descriptor(instruction, instruction.operands, chip)
    format_ = lds_direct.format_of(match[2], instruction.mnemonic, chip)
    key, offset = instruction.address, descriptor.constant

    def step(b: Batch) -> None:
        address, checked, limit = descriptor.resolve(b)
        last = np.uint64(0 if descriptor.index is not None else format_.size - 1)
        if (b.exec & (checked + last >= limit)).any():
            raise InstructionError("unsupported", "a load to LDS past the records of its buffer")
        mask = None if b.full else b.exec
        picked = chosen(address, mask)
        if picked.size:
            b.chunk.counters.vmem_load += len(picked) * format_.size
            lds_direct.write_local(b, format_, offset, mask, b.chunk.space.load(picked, format_.size, key))

    return step


def _load(b: Batch, address: NDArray[np.uint64], inside: Mask, operand: Operand, word: Format, key: int) -> None:
    outside: Mask = b.exec & ~inside
    picked = chosen(address, inside)
    b.chunk.counters.vmem_load += len(picked) * word.size
    if picked.size:
        loaded(b, operand, word, inside, b.chunk.space.load(picked, word.size, key))
    if outside.any():
        loaded(b, operand, word, outside, np.zeros(int(outside.sum()), f"<u{word.size}"))


def _store(b: Batch, address: NDArray[np.uint64], inside: Mask, operand: Operand, word: Format, key: int) -> None:
    picked = chosen(address, inside)
    b.chunk.counters.vmem_store += len(picked) * word.size
    if picked.size:
        b.chunk.space.save(picked, word.size, stored(b, operand, word, inside), key)
