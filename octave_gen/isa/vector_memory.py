"""Loads and stores of lanes: ``global_*``, ``flat_*`` and ``scratch_*``.

Scratch memory is private to a lane: it has an array of its own, and the chip's interleaving of lanes does not show.
A flat address means LDS or scratch by its upper 32 bits, else global memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import Instruction, Operand
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.memory import ByteStore
from octave_gen.isa.operands import PRIVATE_APERTURE, SHARED_APERTURE, Chip, Step, UnknownError
from octave_gen.isa.transfers import FORMATS, Format, chosen, loaded, stored
from octave_gen.isa.types import Array

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

_NAME = re.compile(r"(global|flat|scratch)_(load|store)_(\w+)")
_HINTS = {"offset", "sc0", "sc1", "nt", "glc", "slc", "dlc", "off"}
Addresses = Callable[["Batch"], "NDArray[np.uint64]"]


def build(instruction: Instruction, chip: Chip) -> Step:
    """One load or store; raises UnknownError for forms that are not executed."""
    match = _NAME.fullmatch(instruction.base)
    if not match or match[3] not in FORMATS:
        raise UnknownError(instruction.mnemonic)
    check_hints(instruction)
    format_ = FORMATS[match[3]]
    load = match[2] == "load"
    operands = instruction.operands
    data = operands[0] if load else operands[1]
    where = operands[1:] if load else (operands[0], *operands[2:])
    key = instruction.address
    if match[1] == "scratch":
        offsets = scratch_offsets(where, instruction.number("offset"))
        return lambda b: _scratch(b, offsets(b), None if b.full else b.exec, data, format_, load)
    addresses = address_reader(where, instruction.number("offset"))
    if match[1] == "global":
        return lambda b: _global(b, addresses(b), None if b.full else b.exec, data, format_, load, key)
    return lambda b: _flat(b, addresses(b), data, format_, load, key)


def check_hints(instruction: Instruction) -> None:
    """Cache hints mean nothing here; any other modifier is refused."""
    for name in instruction.modifiers:
        if name not in _HINTS:
            raise UnknownError(f"{instruction.mnemonic}: modifier {name}")


def address_reader(where: tuple[Operand, ...], offset: int) -> Addresses:
    """64-bit addresses [waves, lanes]: a pair of VGPRs, or a pair of SGPRs plus a VGPR (unsigned); plus ``offset``."""
    vector = where[0].index
    base = where[1] if len(where) > 1 else None
    constant = np.uint64(offset & (1 << 64) - 1)
    if base is not None and base.kind == "s":
        index = base.index
        return lambda b: (b.read64(index) + constant)[:, None] + b.v.u32[vector]

    def pair(b: Batch) -> NDArray[np.uint64]:
        words = b.v.u32
        high: NDArray[np.uint64] = words[vector + 1].astype(np.uint64) << np.uint64(32)
        high |= words[vector]
        high += constant
        return high

    return pair


def scratch_offsets(where: tuple[Operand, ...], offset: int) -> Callable[[Batch], NDArray[np.int64]]:
    """Byte offsets [waves, lanes] into the lane's scratch memory: VGPR, SGPR (either may be missing) and ``offset``."""
    vector = where[0].index if where[0].kind == "v" else None
    scalar = where[1].index if len(where) > 1 and where[1].kind == "s" else None

    def read(b: Batch) -> NDArray[np.int64]:
        total = np.full(b.exec.shape, offset, np.int64)
        if vector is not None:
            total += b.v.i32[vector]
        if scalar is not None:
            total += b.s.i32[scalar][:, None]
        return total

    return read


def _count(b: Batch, size: int, mask: Mask | None, load: bool) -> None:
    lanes = b.exec.size if mask is None else int(np.count_nonzero(mask))
    if load:
        b.chunk.counters.vmem_load += lanes * size
    else:
        b.chunk.counters.vmem_store += lanes * size


def _global(
    b: Batch, addresses: NDArray[np.uint64], mask: Mask | None, data: Operand, format_: Format, load: bool, key: int
) -> None:
    picked = chosen(addresses, mask)
    if not picked.size:
        return
    _count(b, format_.size, mask, load)
    if load:
        loaded(b, data, format_, mask, b.chunk.space.load(picked, format_.size, key))
    else:
        b.chunk.space.save(picked, format_.size, stored(b, data, format_, mask), key)


def _scratch(
    b: Batch, offsets: NDArray[np.int64], mask: Mask | None, data: Operand, format_: Format, load: bool
) -> None:
    picked = chosen(offsets, mask)
    if not picked.size:
        return
    where = scratch_places(b, picked, mask, format_.size)
    _count(b, format_.size, mask, load)
    store = ByteStore(b.scratch.reshape(-1))
    if load:
        loaded(b, data, format_, mask, store.gather(where, format_.size))
    else:
        store.scatter(where, format_.size, stored(b, data, format_, mask))


def scratch_places(b: Batch, offsets: NDArray[np.int64], mask: Mask | None, size: int) -> NDArray[np.int64]:
    """Offsets into the batch's scratch array; raises InstructionError for what lies outside the lane's memory."""
    available = b.scratch.shape[2]
    bad = (offsets < 0) | (offsets + size > available)
    if bad.any():
        first = int(offsets[bad][0])
        detail = f"{size} bytes at {first} of {available} bytes of scratch memory, {int(bad.sum())} lanes"
        raise InstructionError("scratch_bounds", detail, first if first >= 0 else None)
    lane = np.arange(b.exec.size, dtype=np.int64).reshape(b.exec.shape) * available
    return offsets + chosen(lane, mask)


def _flat(b: Batch, addresses: NDArray[np.uint64], data: Operand, format_: Format, load: bool, key: int) -> None:
    aperture = addresses >> np.uint64(32)
    shared = b.exec & (aperture == SHARED_APERTURE)
    private = b.exec & (aperture == PRIVATE_APERTURE)
    offsets = (addresses & np.uint64(0xFFFFFFFF)).view(np.int64)
    if shared.any():
        _flat_local(b, chosen(offsets, shared), shared, data, format_, load)
    if private.any():
        _scratch(b, offsets, private, data, format_, load)
    rest: Mask = b.exec & ~shared & ~private
    _global(b, addresses, rest, data, format_, load, key)


def _flat_local(b: Batch, offsets: Array, mask: Mask, data: Operand, format_: Format, load: bool) -> None:
    local = b.chunk.local
    where = local.offsets(b, offsets, format_.size, mask, "load" if load else "store")
    _count(b, format_.size, mask, load)
    if load:
        loaded(b, data, format_, mask, local.store.gather(where, format_.size))
    else:
        local.store.scatter(where, format_.size, stored(b, data, format_, mask))
