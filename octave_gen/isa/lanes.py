"""Instructions that move values between lanes, between lanes and scalar registers, and between register files.

``ds_bpermute_b32``, ``ds_permute_b32`` and ``ds_swizzle_b32`` use the LDS crossbar but no LDS memory, so they are here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa import bits
from octave_gen.isa.decode import M0, Instruction
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.operands import Chip, Reader, Step, UnknownError, reader, scalar_writer, write_vector
from octave_gen.isa.types import U32, Array

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch

Builder = Callable[[Instruction, Chip], Step]


def _no_modifiers(instruction: Instruction, allowed: tuple[str, ...] = ()) -> None:
    for name in instruction.modifiers:
        if name not in allowed:
            raise UnknownError(f"{instruction.mnemonic}: modifier {name}")


def _lane_number(instruction: Instruction, position: int, chip: Chip) -> Reader:
    read = reader(instruction.operands[position], U32, scalar=True)
    keep = np.uint32(chip.lanes - 1)
    return lambda b: np.broadcast_to(read(b) & keep, (b.waves,)).astype(np.intp)


def _spread(read: Reader, b: Batch) -> Array:
    return np.broadcast_to(read(b), b.exec.shape)


def _read_first_lane(instruction: Instruction, chip: Chip) -> Step:
    """The value of the lowest lane that is on; of lane 0 when none is."""
    _no_modifiers(instruction)
    read, write = reader(instruction.operands[1], U32), scalar_writer(instruction.operands[0], U32)
    return lambda b: write(b, _spread(read, b)[np.arange(b.waves), b.exec.argmax(axis=1)])


def _read_lane(instruction: Instruction, chip: Chip) -> Step:
    _no_modifiers(instruction)
    read, write = reader(instruction.operands[1], U32), scalar_writer(instruction.operands[0], U32)
    lane = _lane_number(instruction, 2, chip)
    return lambda b: write(b, _spread(read, b)[np.arange(b.waves), lane(b)])


def _write_lane(instruction: Instruction, chip: Chip) -> Step:
    """One lane is written whatever EXEC says."""
    _no_modifiers(instruction)
    index = instruction.operands[0].index
    read, lane = reader(instruction.operands[1], U32, scalar=True), _lane_number(instruction, 2, chip)

    def step(b: Batch) -> None:
        b.v.u32[index][np.arange(b.waves), lane(b)] = read(b)

    return step


def _permute_rows(instruction: Instruction, chip: Chip, *, across: bool) -> Step:
    """Every lane reads a lane of its row of 16, or of the row's neighbour, that two scalars name with 4 bits each.

    ``op_sel`` 0: lanes that are off may be read; ``op_sel`` 1: else they give 0 instead of leaving the target alone.
    """
    _no_modifiers(instruction, ("op_sel",))
    index, read = instruction.operands[0].index, reader(instruction.operands[1], U32)
    low, high = (reader(instruction.operands[position], U32, scalar=True) for position in (2, 3))
    fetch_inactive, bound_control = instruction.flags("op_sel", (0, 0))[:2]
    lane = np.arange(chip.lanes)
    row, place = (lane & ~15) ^ (16 if across else 0), (lane & 15).astype(np.uint64)

    def step(b: Batch) -> None:
        nibbles = low(b).astype(np.uint64) | high(b).astype(np.uint64) << np.uint64(32)
        chosen = np.broadcast_to(nibbles, (b.waves,))[:, None] >> (place << np.uint64(2)) & np.uint64(15)
        source = row + chosen.astype(np.intp)
        value = np.take_along_axis(_spread(read, b), source, 1)
        valid = np.take_along_axis(b.exec, source, 1)
        if fetch_inactive:
            write_vector(b, index, value)
        elif bound_control:
            write_vector(b, index, np.where(valid, value, np.uint32(0)))
        else:
            write_vector(b, index, value, b.exec & valid)

    return step


def _swap_wave_halves(instruction: Instruction, chip: Chip) -> Step:
    _no_modifiers(instruction)
    index, read = instruction.operands[0].index, reader(instruction.operands[1], U32)
    order = np.arange(chip.lanes) ^ (32 if chip.lanes == 64 else 0)
    return lambda b: write_vector(b, index, _spread(read, b)[:, order])


def _lanes_below(instruction: Instruction, chip: Chip, *, upper: bool) -> Step:
    """Ones of the mask below the lane's own bit, in the lower or upper 32 lanes, plus the second source."""
    _no_modifiers(instruction)
    index = instruction.operands[0].index
    mask, addend = (reader(instruction.operands[position], U32) for position in (1, 2))
    below = [(1 << lane) - 1 for lane in range(chip.lanes)]
    part = np.array([(word >> 32 if upper else word) & 0xFFFFFFFF for word in below], np.uint32)
    return lambda b: write_vector(b, index, bits.population(mask(b) & part) + addend(b))


def _swap(instruction: Instruction, chip: Chip) -> Step:
    _no_modifiers(instruction)
    one, two = instruction.operands[0].index, instruction.operands[1].index

    def step(b: Batch) -> None:
        first, second = b.v.u32[one].copy(), b.v.u32[two].copy()
        write_vector(b, one, second)
        write_vector(b, two, first)

    return step


def _swap_rows(instruction: Instruction, chip: Chip, *, rows: int) -> Step:
    """Groups of ``rows`` lanes: the odd ones of the first register change places with the even ones of the second.

    Both registers are written under EXEC; with a lane switched off (or ``fi``, which asks for such lanes) the result is
    not documented, and it is refused.
    """
    _no_modifiers(instruction, ("bound_ctrl", "fi"))
    one, two = instruction.operands[0].index, instruction.operands[1].index
    odd = np.flatnonzero(np.arange(chip.lanes) // rows % 2)

    def step(b: Batch) -> None:
        if not b.full:
            raise InstructionError("partial_exec", f"{instruction.base} with lanes switched off")
        first, second = b.v.u32[one], b.v.u32[two]
        kept = first[:, odd].copy()
        first[:, odd] = second[:, odd - rows]
        second[:, odd - rows] = kept

    return step


def _write_accumulator(instruction: Instruction, chip: Chip) -> Step:
    _no_modifiers(instruction)
    index, read = instruction.operands[0].index, reader(instruction.operands[1], U32)
    return lambda b: np.copyto(b.a.u32[index], read(b), where=b.exec)


def _read_accumulator(instruction: Instruction, chip: Chip) -> Step:
    _no_modifiers(instruction)
    index, read = instruction.operands[0].index, reader(instruction.operands[1], U32)
    return lambda b: write_vector(b, index, read(b))


def _move_from_relative(instruction: Instruction, chip: Chip) -> Step:
    _no_modifiers(instruction)
    index, base = instruction.operands[0].index, instruction.operands[1].index
    return lambda b: write_vector(b, index, b.v.u32[base + b.s.u32[M0].astype(np.intp), np.arange(b.waves)])


def _move_to_relative(instruction: Instruction, chip: Chip) -> Step:
    _no_modifiers(instruction)
    base, read = instruction.operands[0].index, reader(instruction.operands[1], U32)

    def step(b: Batch) -> None:
        rows, waves = base + b.s.u32[M0].astype(np.intp), np.arange(b.waves)
        b.v.u32[rows, waves] = np.where(b.exec, read(b), b.v.u32[rows, waves])

    return step


def _backward_permute(instruction: Instruction, chip: Chip) -> Step:
    """Every lane reads the lane that its address names (4 bytes each); lanes that are off read as 0.

    gfx11 works on 32 lanes at a time, also in wave64.
    """
    _no_modifiers(instruction, ("offset",))
    index, address, data = (operand.index for operand in instruction.operands)
    offset, base = np.uint32(instruction.number("offset")), _group_base(chip)

    def step(b: Batch) -> None:
        source = base + _named_lane(b.v.u32[address] + offset, chip)
        value = np.where(b.exec, b.v.u32[data], np.uint32(0))
        write_vector(b, index, np.take_along_axis(value, source, 1))

    return step


def _forward_permute(instruction: Instruction, chip: Chip) -> Step:
    """Every lane that is on sends its value to the lane that its address names; of several the highest lane wins."""
    _no_modifiers(instruction, ("offset",))
    index, address, data = (operand.index for operand in instruction.operands)
    offset, base = np.uint32(instruction.number("offset")), _group_base(chip)

    def step(b: Batch) -> None:
        target = base + _named_lane(b.v.u32[address] + offset, chip)
        result = np.zeros(b.exec.shape, np.uint32)
        waves = np.broadcast_to(np.arange(b.waves)[:, None], b.exec.shape)
        result[waves[b.exec], target[b.exec]] = b.v.u32[data][b.exec]
        write_vector(b, index, result)

    return step


def _crossbar_width(chip: Chip) -> int:
    return chip.lanes if chip.gfx9 else 32


def _group_base(chip: Chip) -> NDArray[np.intp]:
    lane = np.arange(chip.lanes)
    return lane - lane % _crossbar_width(chip)


def _named_lane(address: Array, chip: Chip) -> NDArray[np.intp]:
    lane: NDArray[np.intp] = (address >> np.uint32(2) & np.uint32(_crossbar_width(chip) - 1)).astype(np.intp)
    return lane


def _swizzle(instruction: Instruction, chip: Chip) -> Step:
    """Lanes of groups of 4 in an order, or of groups of 32 by and, or, xor masks on the lane number."""
    _no_modifiers(instruction, ("offset",))
    index, data = instruction.operands[0].index, instruction.operands[1].index
    pattern = instruction.modifiers.get("offset", 0)
    code = pattern if isinstance(pattern, int) else _swizzle_code(str(pattern))
    lane = np.arange(chip.lanes)
    if code >= 0xC000:
        raise UnknownError(f"{instruction.mnemonic} offset:{pattern}")
    if code & 0x8000:
        source = (lane & ~3) | (code >> 2 * (lane & 3) & 3)
    else:
        source = (lane & ~31) | ((lane & 31 & code | code >> 5 & 31) ^ (code >> 10 & 31))

    def step(b: Batch) -> None:
        write_vector(b, index, np.where(b.exec[:, source], b.v.u32[data][:, source], np.uint32(0)))

    return step


def _swizzle_code(pattern: str) -> int:
    """The 16-bit offset that LLVM prints as ``swizzle(MODE, ...)``."""
    mode, *arguments = [part.strip() for part in pattern.removeprefix("swizzle(").removesuffix(")").split(",")]
    if mode == "BITMASK_PERM":
        letters = arguments[0].strip('"')
        masks = [(1, 0, 0), (0, 0, 0), (0, 1, 0), (1, 0, 1)]  # keep, clear, set, invert
        chosen = [masks["p01i".index(letter)] for letter in letters]
        keep, one, flip = (sum(mask[part] << 4 - at for at, mask in enumerate(chosen)) for part in range(3))
        return keep | one << 5 | flip << 10
    numbers = [int(argument, 0) for argument in arguments]
    if mode == "QUAD_PERM":
        return 0x8000 | sum(number << 2 * at for at, number in enumerate(numbers))
    if mode == "SWAP":
        return numbers[0] << 10 | 0x1F
    if mode == "REVERSE":
        return numbers[0] - 1 << 10 | 0x1F
    if mode == "BROADCAST":
        return 0x1F & ~(numbers[0] - 1) | numbers[1] << 5
    raise UnknownError(f"ds_swizzle_b32 {pattern}")


BUILDERS: dict[str, Builder] = {
    "v_readfirstlane_b32": _read_first_lane,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_permlane16_b32": partial(_permute_rows, across=False),
    "v_permlanex16_b32": partial(_permute_rows, across=True),
    "v_permlane64_b32": _swap_wave_halves,
    "v_mbcnt_lo_u32_b32": partial(_lanes_below, upper=False),
    "v_mbcnt_hi_u32_b32": partial(_lanes_below, upper=True),
    "v_swap_b32": _swap,
    "v_permlane16_swap_b32": partial(_swap_rows, rows=16),
    "v_permlane32_swap_b32": partial(_swap_rows, rows=32),
    "v_accvgpr_write_b32": _write_accumulator,
    "v_accvgpr_mov_b32": _write_accumulator,
    "v_accvgpr_read_b32": _read_accumulator,
    "v_movrels_b32": _move_from_relative,
    "v_movreld_b32": _move_to_relative,
    "ds_bpermute_b32": _backward_permute,
    "ds_permute_b32": _forward_permute,
    "ds_swizzle_b32": _swizzle,
}
