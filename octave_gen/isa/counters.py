"""What a launch counts: wave instructions by class and by mnemonic, bytes moved, LDS cycles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from octave_gen.isa.decode import Instruction

if TYPE_CHECKING:
    from octave_gen.isa.operands import Chip
    from octave_gen.isa.registers import Mask
    from octave_gen.isa.types import Array

CLASSES = ("valu", "transcendental", "salu", "smem", "vmem", "lds", "matrix", "branch", "barrier", "other")
"""Classes of wave instructions. A dual-issue pair is one ``valu``; permutes through the LDS crossbar are ``lds``;
waits, hints and the end of the program are ``other``."""

_BRANCHES = ("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call")
_OTHER = (
    "s_waitcnt",
    "s_nop",
    "s_delay_alu",
    "s_clause",
    "s_sleep",
    "s_endpgm",
    "s_sendmsg",
    "s_setprio",
    "s_trap",
    "s_wait",
    "s_set_inst_prefetch",
    "s_inst_prefetch",
    "s_icache_inv",
    "s_dcache",
    "buffer_gl",
    "buffer_inv",
    "buffer_wb",
    "s_code_end",
    "s_denorm_mode",
    "s_round_mode",
    "v_nop",
)


def class_of(instruction: Instruction, transcendental: bool = False) -> str:
    """The class that ``instruction`` is counted in."""
    name = instruction.mnemonic
    if name.startswith(_OTHER):
        return "other"
    if name.startswith(("s_load", "s_buffer_load")):
        return "smem"
    if name.startswith(_BRANCHES):
        return "branch"
    if name == "s_barrier":
        return "barrier"
    if name.startswith("s_"):
        return "salu"
    if name.startswith(("v_mfma", "v_smfma", "v_wmma")):
        return "matrix"
    if name.startswith("v_"):
        return "transcendental" if transcendental else "valu"
    return "lds" if name.startswith("ds_") else "vmem"


def name_of(instruction: Instruction) -> str:
    """The name in the histogram: without encoding suffix; both halves of a dual-issue pair."""
    if instruction.second is None:
        return instruction.base
    return f"{instruction.mnemonic}::{instruction.second.mnemonic}"


@dataclass(frozen=True)
class Counters:
    """Counts of one or more launches; they can be added and subtracted.

    instructions: wave instructions per class of :data:`CLASSES`. histogram: the same per mnemonic. ``*_bytes``: of
    active lanes (vmem: global, flat, scratch and buffer memory; smem: per wave). lds_cycles: cycles that the banks of
    one LDS are busy in the model of :mod:`octave_gen.isa.lds`; lds_conflict_cycles: those of them that conflicts cost.
    """

    instructions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    histogram: dict[str, int] = field(default_factory=dict)
    vmem_load_bytes: int = 0
    vmem_store_bytes: int = 0
    lds_load_bytes: int = 0
    lds_store_bytes: int = 0
    smem_bytes: int = 0
    lds_cycles: int = 0
    lds_conflict_cycles: int = 0

    @property
    def vmem_bytes(self) -> int:
        return self.vmem_load_bytes + self.vmem_store_bytes

    @property
    def lds_bytes(self) -> int:
        return self.lds_load_bytes + self.lds_store_bytes

    @property
    def total(self) -> int:
        """Wave instructions of all classes."""
        return sum(self.instructions.values())

    def __add__(self, other: Counters) -> Counters:
        return self._combine(other, 1)

    def __sub__(self, other: Counters) -> Counters:
        return self._combine(other, -1)

    def _combine(self, other: Counters, sign: int) -> Counters:
        names = sorted({*self.histogram, *other.histogram})
        merged = {name: self.histogram.get(name, 0) + sign * other.histogram.get(name, 0) for name in names}
        return Counters(
            {name: self.instructions[name] + sign * other.instructions[name] for name in CLASSES},
            {name: count for name, count in merged.items() if count},
            self.vmem_load_bytes + sign * other.vmem_load_bytes,
            self.vmem_store_bytes + sign * other.vmem_store_bytes,
            self.lds_load_bytes + sign * other.lds_load_bytes,
            self.lds_store_bytes + sign * other.lds_store_bytes,
            self.smem_bytes + sign * other.smem_bytes,
            self.lds_cycles + sign * other.lds_cycles,
            self.lds_conflict_cycles + sign * other.lds_conflict_cycles,
        )


class Tally:
    """Dynamic counts while a launch runs; instructions are counted per block and added in the end."""

    def __init__(self) -> None:
        self.vmem_load = self.vmem_store = self.lds_load = self.lds_store = self.smem = 0
        self.lds_cycles = self.lds_ideal = 0
        self._cycles: dict[tuple[bytes, bytes, int, bool, bool], tuple[int, int]] = {}

    def local(self, address: Array, mask: Mask, size: int, *, load: bool, chip: Chip, atomic: bool = False) -> None:
        """One LDS access: byte addresses uint32 [waves, lanes], ``size`` bytes for every lane in ``mask``.

        Moving a wave's addresses by whole words turns the banks round and changes no count, so equal patterns are
        counted once.
        """
        from octave_gen.isa.lds import bank_cycles

        moved = size * int(np.count_nonzero(mask))
        if load:
            self.lds_load += moved
        else:
            self.lds_store += moved
        pattern = address - (address[:, :1] & np.uint32(0xFFFFFFFC))
        key = (pattern.tobytes(), mask.tobytes(), size, load, atomic)
        cycles = self._cycles.get(key)
        if cycles is None:
            if len(self._cycles) > 512:
                self._cycles.clear()
            cycles = self._cycles[key] = bank_cycles(
                address.astype(np.int64), mask, size, load=load, chip=chip, atomic=atomic
            )
        self.lds_cycles += cycles[0]
        self.lds_ideal += cycles[1]

    def counters(self, executed: dict[Instruction, tuple[str, int]]) -> Counters:
        """All counts. executed: per instruction its class and the waves that executed it."""
        classes, histogram = dict.fromkeys(CLASSES, 0), dict[str, int]()
        for instruction, (kind, count) in executed.items():
            classes[kind] += count
            name = name_of(instruction)
            histogram[name] = histogram.get(name, 0) + count
        return Counters(
            classes,
            dict(sorted(histogram.items())),
            self.vmem_load,
            self.vmem_store,
            self.lds_load,
            self.lds_store,
            self.smem,
            self.lds_cycles,
            self.lds_cycles - self.lds_ideal,
        )
