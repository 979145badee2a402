"""Input and output modifiers: op_sel, DPP and SDWA selection, clamp.

Sources: "Data Parallel Processing (DPP)" and "Sub-Dword Addressing (SDWA)" in AMD's CDNA3 and RDNA3 instruction set
documents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import Instruction, Operand
from octave_gen.isa.operands import Reader, Selection, UnknownError, reader
from octave_gen.isa.types import Array, Type

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

Lanes = NDArray[np.intp]


def selection(instruction: Instruction, position: int, type_: Type) -> Selection:
    """What op_sel, op_sel_hi, neg_lo and neg_hi ask of source ``position``."""
    low = instruction.flags("op_sel", (0, 0, 0, 0))[position]
    if instruction.base == "v_pk_mov_b32":  # op_sel alone says which half of each source is moved
        return Selection(low=low, high=low)
    if type_.elements == 2:
        return Selection(
            low=low,
            high=instruction.flags("op_sel_hi", (1, 1, 1, 1))[position],
            negate_low=bool(instruction.flags("neg_lo", (0, 0, 0, 0))[position]),
            negate_high=bool(instruction.flags("neg_hi", (0, 0, 0, 0))[position]),
        )
    if type_.mixed:
        return Selection(
            half=low,
            mixed=bool(instruction.flags("op_sel_hi", (0, 0, 0, 0))[position]),
            negate_low=bool(instruction.flags("neg_lo", (0, 0, 0, 0))[position]),
            negate_high=bool(instruction.flags("neg_hi", (0, 0, 0, 0))[position]),
        )
    return Selection(half=low)


def clamped(value: Array) -> Array:
    """A float result limited to [0, 1]; NaN becomes 0 (DX10_CLAMP is on in every kernel clang makes)."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    return np.where(np.isnan(value), zero, np.clip(value, zero, one))


# DPP ------------------------------------------------------------------------------------------------------------------


class DppLanes:
    """Which lane every lane reads source 0 from, and which lanes are written.

    bound_control: lanes without a valid source read 0 instead of staying as they are; fetch_inactive: lanes that are
    switched off may be read.
    """

    def __init__(self, instruction: Instruction, lanes: int) -> None:
        lane = np.arange(lanes)
        self.source, self.inside = _dpp_pattern(instruction, lane)
        eight = "dpp8" in instruction.modifiers
        rows, banks = instruction.number("row_mask", 15), instruction.number("bank_mask", 15)
        self.written = (rows >> (lane >> 4) & 1 & (banks >> (lane >> 2 & 3))).astype(np.bool_)
        self.everywhere = bool(self.written.all() and self.inside.all())
        self.bound_control = "bound_ctrl" in instruction.modifiers or eight
        self.fetch_inactive = instruction.number("fi") == 1

    def valid(self, b: Batch) -> Mask:
        """Lanes whose source may be read."""
        if self.fetch_inactive:
            return np.broadcast_to(self.inside, b.exec.shape)
        return b.exec[:, self.source] & self.inside

    def wrap(self, read: Reader) -> Reader:
        """``read`` through the pattern; 0 where the source is not valid."""

        def shifted(b: Batch) -> Array:
            value = read(b)
            if value.shape != b.exec.shape:
                value = np.broadcast_to(value, b.exec.shape)
            value = value[:, self.source]
            if self.everywhere and b.full:
                return value
            return np.where(self.valid(b), value, value.dtype.type(0))

        return shifted

    def mask(self, b: Batch) -> Mask:
        """Lanes that are written."""
        if self.everywhere and b.full:
            return b.exec
        written: Mask = b.exec & self.written
        return written if self.bound_control else written & self.valid(b)


def _dpp_pattern(instruction: Instruction, lane: Lanes) -> tuple[Lanes, NDArray[np.bool_]]:
    """(source lane, whether it lies inside the row or wave) for every lane."""
    modifiers, count = instruction.modifiers, len(lane)
    row, place = lane & ~15, lane & 15
    always = np.ones(count, np.bool_)

    def shift(distance: int, inside: NDArray[np.bool_]) -> tuple[Lanes, NDArray[np.bool_]]:
        return np.where(inside, lane + distance, lane), inside

    for name, value in modifiers.items():
        if name == "quad_perm" and isinstance(value, tuple):
            return (lane & ~3) | np.array(value)[lane & 3], always
        if name == "dpp8" and isinstance(value, tuple):
            return (lane & ~7) | np.array(value)[lane & 7], always
        if not isinstance(value, int):
            continue
        if name == "row_shl":
            return shift(value, place + value < 16)
        if name == "row_shr":
            return shift(-value, place - value >= 0)
        if name == "row_ror":
            return row | (place - value & 15), always
        if name in ("row_share", "row_newbcast"):
            return row | value, always
        if name == "row_xmask":
            return row | (place ^ value), always
        if name == "row_mirror":
            return row | (15 - place), always
        if name == "row_half_mirror":
            return (lane & ~7) | (7 - (lane & 7)), always
        if name == "wave_shl":
            return shift(1, lane < count - 1)
        if name == "wave_shr":
            return shift(-1, lane > 0)
        if name in ("wave_rol", "wave_ror"):
            return (lane + (1 if name == "wave_rol" else -1)) % count, always
        if name == "row_bcast" and value == 15:
            return np.maximum(row - 1, 0), lane >= 16
        if name == "row_bcast" and value == 31:
            return np.full(count, 31), lane >= 32
    raise UnknownError(f"{instruction.mnemonic}: DPP control")


# SDWA -----------------------------------------------------------------------------------------------------------------

_PARTS = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}
"""First bit and width of what an SDWA operand selects."""
_U32 = Type("u32", np.dtype("<u4"), 1)


def sdwa_reader(instruction: Instruction, operand: Operand, position: int, type_: Type) -> Reader:
    """Source ``position`` of an SDWA instruction: a byte, half or all of a register, sign-extended, with its signs."""
    part = instruction.word(f"src{position}_sel", "DWORD")
    offset, width = _PARTS[part]
    if type_.registers != 1 or type_.elements != 1 or type_.mixed:
        raise UnknownError(f"{instruction.mnemonic}: SDWA operand of type {type_.name}")
    if width == 32 and not operand.sign_extend:
        return reader(operand, type_)
    plain = reader(Operand(operand.text, operand.kind, operand.index, operand.count), _U32)
    shift, keep = np.uint32(offset), np.uint32((1 << width) - 1)
    sign = np.uint32(1 << width - 1) if operand.sign_extend else np.uint32(0)
    size = type_.dtype.itemsize
    top = 8 * size - 1
    unsigned = np.dtype(f"<u{size}")
    clear = unsigned.type((1 << top) - 1 if operand.absolute else (1 << top + 1) - 1)
    flip = unsigned.type(1 << top if operand.negate else 0)

    def read(b: Batch) -> Array:
        field = plain(b) >> shift & keep
        bits = ((field ^ sign) - sign).astype(unsigned)
        value: Array = ((bits & clear) ^ flip).view(type_.dtype)
        return value

    return read


def sdwa_result(instruction: Instruction) -> Callable[[Array, Array], Array] | None:
    """``(result bits, old register) -> register`` as dst_sel and dst_unused ask; None when all of it is written."""
    offset, width = _PARTS[instruction.word("dst_sel", "DWORD")]
    if width == 32:
        return None
    unused = instruction.word("dst_unused", "UNUSED_PAD")
    field, shift = np.uint32((1 << width) - 1), np.uint32(offset)
    rest = np.uint32(0xFFFFFFFF ^ ((1 << width) - 1) << offset)
    if unused == "UNUSED_PAD":
        return lambda value, old: (value & field) << shift
    if unused == "UNUSED_PRESERVE":
        return lambda value, old: ((value & field) << shift) | (old & rest)
    sign = np.uint32(1 << width - 1)
    return lambda value, old: (((value & field) ^ sign) - sign) << shift
