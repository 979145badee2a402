"""LDS: memory of a workgroup, its bounds and bank conflicts.

Bank model: 32 banks of 4 bytes; a wave's access runs in phases of as many lanes as 128 bytes hold, and a phase takes as
many cycles as the fullest bank has different words in it. Atomic operations of several lanes on one word are taken to
need a cycle each. Which lanes make a phase: consecutive ones, but for 16-byte loads of gfx942, where a phase pairs two
groups of four lanes ("Understanding AMD GPU LDS and Bank Conflicts" in the documentation of AMD's Composable Kernel; 32
banks and 128 bytes a clock: the CDNA3 and RDNA3 documents).

gfx950: 64 banks; loads run in phases of 256 bytes, stores of 128. Source: what the HipKittens project published of its
measurements of ``ds_read_b64``, ``ds_read_b128`` (whose phases pair groups of lanes in another order) and
``ds_write_b64``; loads of 4 bytes are taken to follow, stores of other sizes too. No part of the model was measured by
this project.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import Instruction
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.memory import ByteStore
from octave_gen.isa.operands import Chip, Step, UnknownError
from octave_gen.isa.races import Kind, RaceDetector
from octave_gen.isa.transfers import FORMATS, Format, chosen, loaded, stored

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

_NAME = re.compile(r"ds_(?:(read|load)|(?:write|store))(2|_2addr)?(st64|_stride64)?_(\w+)")
_BANKS = 32
_READ16_PHASES_GFX950 = (
    (*range(4), *range(12, 16), *range(20, 28)),
    (*range(4, 12), *range(16, 20), *range(28, 32)),
)
_READ16_PHASES = (
    tuple(range(4)) + tuple(range(20, 24)),
    tuple(range(4, 8)) + tuple(range(16, 20)),
    tuple(range(8, 12)) + tuple(range(28, 32)),
    tuple(range(12, 16)) + tuple(range(24, 28)),
)


class LocalMemory:
    """The LDS of all workgroups of a chunk, one stretch of ``stride`` bytes each; ``size`` bytes of it exist."""

    def __init__(self, size: int, workgroups: int, waves: int, junk: np.random.Generator, check_races: bool) -> None:
        self.size = size
        self.stride = -(-size // 512) * 512
        self.data = junk.integers(0, 256, self.stride * workgroups, np.uint8)
        self.store = ByteStore(self.data)
        self.races = RaceDetector(self.stride, workgroups, waves) if check_races and waves > 1 and size else None

    def offsets(
        self, b: Batch, address: NDArray[np.int64], size: int, mask: Mask | None, kind: Kind
    ) -> NDArray[np.int64]:
        """Offsets into the chunk's LDS; raises InstructionError past the workgroup's own bytes, or in a race."""
        if address.size and int(address.max()) + size > self.size:
            worst = int(address.max())
            detail = f"{size} bytes at {worst} of {self.size} bytes of LDS, {worst + size - self.size} past the end"
            raise InstructionError("lds_bounds", detail, worst)
        base = b.workgroup * self.stride
        where: NDArray[np.int64] = address + chosen(np.broadcast_to(base[:, None], b.exec.shape), mask)
        if self.races is not None:
            self.races.check(b, where, size, mask, kind)
        return where


@cache
def _phases(lanes: int, size: int, load: bool, chip: Chip) -> NDArray[np.intp]:
    """Lane numbers [phases, lanes of a phase]."""
    if size == 16 and load and chip.gfx9:
        pattern = np.array(_READ16_PHASES_GFX950 if chip.gfx950 else _READ16_PHASES)
        return np.concatenate([pattern + half for half in range(0, lanes, 32)])
    twice = 2 if load and chip.gfx950 else 1
    width = min(lanes, 32 * twice, 128 * twice // max(size, 4))
    return np.arange(lanes - lanes % width).reshape(-1, width) if size != 12 else np.arange(lanes).reshape(-1, 8)


def bank_cycles(
    address: NDArray[np.int64], mask: Mask, size: int, *, load: bool, chip: Chip, atomic: bool = False
) -> tuple[int, int]:
    """(cycles that the banks need, cycles without conflicts) for byte addresses [waves, lanes], lanes in ``mask``."""
    groups = _phases(mask.shape[1], size, load, chip)
    banks = 64 if chip.gfx950 else _BANKS
    words = max(size // 4, 1)
    first = address[:, groups] >> 2
    on = mask[:, groups].reshape(-1, groups.shape[1])
    busy = on.any(axis=1)
    ideal = int(busy.sum())
    first = first.reshape(-1, groups.shape[1])[busy]
    on = on[busy]
    if not ideal:
        return 0, 0
    every = np.where(on[..., None], first[..., None] + np.arange(words), -1).reshape(ideal, -1)
    every.sort(axis=1)
    new = np.ones(every.shape, np.bool_)
    new[:, 1:] = (every[:, 1:] != every[:, :-1]) | atomic
    new &= every >= 0
    rows = np.nonzero(new)[0]
    load_of_bank = np.bincount(rows * banks + every[new] % banks, minlength=ideal * banks)
    return int(load_of_bank.reshape(ideal, banks).max(axis=1).sum()), ideal


def build(instruction: Instruction, chip: Chip) -> Step:
    """``ds_read*``, ``ds_load*``, ``ds_write*``, ``ds_store*``; the sum of address and offset wraps at 32 bits."""
    match = _NAME.fullmatch(instruction.base)
    if not match or match[4] not in FORMATS:
        raise UnknownError(instruction.mnemonic)
    for name in instruction.modifiers:
        if name not in ("offset", "offset0", "offset1"):
            raise UnknownError(f"{instruction.mnemonic}: modifier {name}")
    format_ = FORMATS[match[4]]
    if match[2]:
        unit = format_.size * (64 if match[3] else 1)
        offsets = [instruction.number("offset0") * unit, instruction.number("offset1") * unit]
    else:
        offsets = [instruction.number("offset")]
    return _load(instruction, format_, offsets, chip) if match[1] else _store(instruction, format_, offsets, chip)


def _load(instruction: Instruction, format_: Format, offsets: list[int], chip: Chip) -> Step:
    first, register = instruction.operands[0], instruction.operands[1].index
    targets = [first.from_register(first.index + part * format_.registers) for part in range(len(offsets))]

    def step(b: Batch) -> None:
        mask = None if b.full else b.exec
        local = b.chunk.local
        units = []
        for offset in offsets:
            total = b.v.u32[register] + np.uint32(offset)
            where = local.offsets(b, chosen(total, mask).astype(np.int64), format_.size, mask, "load")
            units.append(local.store.gather(where, format_.size))
            b.chunk.counters.local(total, b.exec, format_.size, load=True, chip=chip)
        for target, unit in zip(targets, units, strict=True):
            loaded(b, target, format_, mask, unit)

    return step


def _store(instruction: Instruction, format_: Format, offsets: list[int], chip: Chip) -> Step:
    register, data = instruction.operands[0].index, instruction.operands[1:]

    def step(b: Batch) -> None:
        mask = None if b.full else b.exec
        local = b.chunk.local
        for offset, operand in zip(offsets, data, strict=True):
            total = b.v.u32[register] + np.uint32(offset)
            where = local.offsets(b, chosen(total, mask).astype(np.int64), format_.size, mask, "store")
            local.store.scatter(where, format_.size, stored(b, operand, format_, mask))
            b.chunk.counters.local(total, b.exec, format_.size, load=False, chip=chip)

    return step
