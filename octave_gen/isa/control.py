"""Control flow, EXEC, barriers, and scalar instructions that have no result."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import EXEC, VCC, Instruction, Operand
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.operands import Chip, Step, UnknownError, reader, scalar_writer
from octave_gen.isa.types import U32, U64, Array

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch

Condition = Callable[["Batch"], "NDArray[np.bool_]"]
Jump = Callable[["Batch"], "NDArray[np.uint64]"]


@dataclass(frozen=True)
class End:
    """How a block ends. branch: to ``target`` where ``condition`` holds (None: always); jump: to computed addresses."""

    kind: Literal["next", "branch", "jump", "barrier", "end"]
    target: int = 0
    condition: Condition | None = None
    jump: Jump | None = None


def _any(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(mask.any(axis=1))


_CONDITIONS: dict[str, Condition | None] = {
    "s_branch": None,
    "s_cbranch_scc0": lambda b: ~b.scc,
    "s_cbranch_scc1": lambda b: b.scc,
    "s_cbranch_vccz": lambda b: ~_any(b.mask(VCC)),
    "s_cbranch_vccnz": lambda b: _any(b.mask(VCC)),
    "s_cbranch_execz": lambda b: ~_any(b.exec),
    "s_cbranch_execnz": lambda b: _any(b.exec),
}


def branch_target(instruction: Instruction) -> int | None:
    """Where a direct branch leads; None for every other instruction."""
    if instruction.base not in _CONDITIONS and instruction.base != "s_call_b64":
        return None
    distance = int(instruction.operands[-1].text, 0) & 0xFFFF
    return instruction.address + 4 + 4 * (distance - (distance >> 15 << 16))


def end_of(instruction: Instruction) -> End | None:
    """The end that ``instruction`` makes of its block; None when execution goes on."""
    name = instruction.base
    target = branch_target(instruction)
    if name in _CONDITIONS and target is not None:
        return End("branch", target, _CONDITIONS[name])
    if name in ("s_endpgm", "s_endpgm_saved"):
        return End("end")
    if name == "s_barrier":
        return End("barrier")
    if name == "s_setpc_b64":
        index = instruction.operands[0].index
        return End("jump", jump=lambda b: b.read64(index))
    if name == "s_swappc_b64":
        return End("jump", jump=_swap(instruction, instruction.operands[1]))
    if name == "s_call_b64":
        return End("jump", jump=_swap(instruction, None))
    return None


def _swap(instruction: Instruction, source: Operand | None) -> Jump:
    write = scalar_writer(instruction.operands[0], U64)
    after = np.uint64(instruction.address + instruction.size)
    target = np.uint64(branch_target(instruction) or 0)

    def jump(b: Batch) -> NDArray[np.uint64]:
        base = np.uint64(b.chunk.code)
        to = b.read64(source.index) if source is not None else np.full(b.waves, base + target)
        write(b, np.full(b.waves, base + after))
        return to

    return jump


_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "andn1": lambda s, e: ~s & e,
    "andn2": lambda s, e: s & ~e,
    "orn1": lambda s, e: ~s | e,
    "orn2": lambda s, e: s | ~e,
}
_GFX11_LOGIC = {"and_not0": "andn1", "and_not1": "andn2", "or_not0": "orn1", "or_not1": "orn2"}
_SAVE = re.compile(r"s_(\w+)_(save|wr)exec_b(32|64)")


def _change_exec(instruction: Instruction, chip: Chip) -> Step:
    """``s_*_saveexec``: the old EXEC is saved; ``s_*_wrexec``: the new one. SCC: whether any lane is on."""
    match = _SAVE.fullmatch(instruction.base)
    name = _GFX11_LOGIC.get(match[1], match[1]) if match else ""
    if match is None or name not in _LOGIC:
        raise UnknownError(instruction.mnemonic)
    function, save, wide = _LOGIC[name], match[2] == "save", match[3] == "64"
    type_ = U64 if wide else U32
    operand = Operand("exec", "s", EXEC, 2 if wide else 1)
    source = reader(instruction.operands[1], type_, scalar=True)
    read_exec, write_exec = reader(operand, type_, scalar=True), scalar_writer(operand, type_)
    write = scalar_writer(instruction.operands[0], type_)

    def step(b: Batch) -> None:
        old = read_exec(b).copy()
        new = np.broadcast_to(function(source(b), old), old.shape).copy()
        write(b, old if save else new)
        write_exec(b, new)
        np.not_equal(new, 0, out=b.scc)

    return step


def _program_counter(instruction: Instruction, chip: Chip) -> Step:
    write = scalar_writer(instruction.operands[0], U64)
    after = np.uint64(instruction.address + instruction.size)
    return lambda b: write(b, np.full(b.waves, np.uint64(b.chunk.code) + after))


def _set_mode(instruction: Instruction, chip: Chip) -> Step | None:
    """Float modes stay as every kernel starts: round to nearest even, denormals on; anything else is refused."""
    name, operands = instruction.base, instruction.operands
    if name == "s_denorm_mode" and int(operands[0].text, 0) & 15 == 15:
        return None
    if name == "s_round_mode" and int(operands[0].text, 0) & 15 == 0:
        return None
    match = re.fullmatch(r"hwreg\(HW_REG_MODE, *(\d+), *(\d+)\)", operands[0].text)
    if name == "s_setreg_imm32_b32" and match:
        start, count, value = int(match[1]), int(match[2]), int(operands[1].text, 0)
        wanted = 0xF0 >> start & (1 << count) - 1 & 0xFF >> start
        if value & 0xFF >> start & (1 << count) - 1 == wanted:
            return None
    raise UnknownError(f"{instruction.text} (another float mode)")


def _nothing(instruction: Instruction, chip: Chip) -> None:
    return None


def _doorbell(instruction: Instruction, chip: Chip) -> Step:
    """A part of clang's trap sequence for gfx11, which sends it to the driver."""
    if instruction.operands[1].text != "sendmsg(MSG_RTN_GET_DOORBELL)":
        raise UnknownError(instruction.text)
    write = scalar_writer(instruction.operands[0], U32)
    return lambda b: write(b, np.zeros(1, np.uint32))


def _trap(instruction: Instruction, chip: Chip) -> Step:
    def step(b: Batch) -> None:
        raise InstructionError("trap", "the kernel called __builtin_trap(), assert or abort")

    return step


Builder = Callable[[Instruction, Chip], "Step | None"]
BUILDERS: dict[str, Builder] = {
    "s_getpc_b64": _program_counter,
    "s_denorm_mode": _set_mode,
    "s_round_mode": _set_mode,
    "s_setreg_imm32_b32": _set_mode,
    "s_trap": _trap,
    "s_sethalt": _trap,
    "s_sendmsg_rtn_b32": _doorbell,
}
"""Builders give None for what changes no state: waits, hints, cache control."""
BUILDERS |= dict.fromkeys(
    (
        "s_nop",
        "s_waitcnt",
        "s_waitcnt_depctr",
        "s_waitcnt_vscnt",
        "s_waitcnt_vmcnt",
        "s_waitcnt_lgkmcnt",
        "s_waitcnt_expcnt",
        "s_wait_idle",
        "s_delay_alu",
        "s_clause",
        "s_sleep",
        "s_sendmsg",
        "s_setprio",
        "s_set_inst_prefetch_distance",
        "s_inst_prefetch",
        "s_icache_inv",
        "s_dcache_inv",
        "s_dcache_wb",
        "buffer_gl0_inv",
        "buffer_gl1_inv",
        "buffer_inv",
        "buffer_wbl2",
        "v_nop",
    ),
    _nothing,
)
BUILDERS |= {
    f"s_{name}_{kind}exec_b{size}": _change_exec
    for name in (*_LOGIC, *_GFX11_LOGIC)
    for kind in ("save", "wr")
    for size in (32, 64)
}
