"""What a load or store moves between memory and registers, the same for global memory, scratch, buffers and LDS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from octave_gen.isa.decode import Operand
from octave_gen.isa.types import Array

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask, RegisterFile


@dataclass(frozen=True)
class Format:
    """One load or store: ``size`` bytes; ``signed``: sign-extended; ``half``: the 16 bits of a register it moves."""

    size: int
    signed: bool = False
    half: int | None = None

    @property
    def registers(self) -> int:
        """32-bit registers of the data."""
        return max(1, self.size // 4)


FORMATS: dict[str, Format] = {
    "ubyte": Format(1),
    "u8": Format(1),
    "sbyte": Format(1, signed=True),
    "i8": Format(1, signed=True),
    "byte": Format(1),
    "b8": Format(1),
    "ushort": Format(2),
    "u16": Format(2),
    "sshort": Format(2, signed=True),
    "i16": Format(2, signed=True),
    "short": Format(2),
    "b16": Format(2),
    "dword": Format(4),
    "b32": Format(4),
    "dwordx2": Format(8),
    "b64": Format(8),
    "dwordx3": Format(12),
    "b96": Format(12),
    "dwordx4": Format(16),
    "b128": Format(16),
    "ubyte_d16": Format(1, half=0),
    "ubyte_d16_hi": Format(1, half=1),
    "sbyte_d16": Format(1, signed=True, half=0),
    "sbyte_d16_hi": Format(1, signed=True, half=1),
    "short_d16": Format(2, half=0),
    "short_d16_hi": Format(2, half=1),
    "byte_d16_hi": Format(1, half=1),
    "d16_u8": Format(1, half=0),
    "d16_hi_u8": Format(1, half=1),
    "d16_i8": Format(1, signed=True, half=0),
    "d16_hi_i8": Format(1, signed=True, half=1),
    "d16_b16": Format(2, half=0),
    "d16_hi_b16": Format(2, half=1),
    "d16_hi_b8": Format(1, half=1),
    "u8_d16": Format(1, half=0),
    "u8_d16_hi": Format(1, half=1),
    "i8_d16": Format(1, signed=True, half=0),
    "i8_d16_hi": Format(1, signed=True, half=1),
    "u16_d16": Format(2, half=0),
    "u16_d16_hi": Format(2, half=1),
    "b8_d16_hi": Format(1, half=1),
    "b16_d16_hi": Format(2, half=1),
}
"""By the last words of the mnemonic, in gfx9's and gfx11's spelling."""


def chosen(values: Array, mask: Mask | None) -> Array:
    """The lanes of ``values`` [waves, lanes] in ``mask``, in one row; None: all lanes."""
    lanes: Array = values.reshape(-1) if mask is None else values[mask]
    return lanes


def register_file(b: Batch, operand: Operand) -> RegisterFile:
    """VGPRs or AGPRs, as the operand says."""
    return b.a if operand.kind == "a" else b.v


def stored(b: Batch, operand: Operand, format_: Format, mask: Mask | None) -> Array:
    """The units that a store takes out of the registers from ``operand`` on, for the lanes in ``mask``."""
    words = register_file(b, operand).u32
    if format_.size < 4:
        half = format_.half if operand.half is None else operand.half
        value = chosen(words[operand.index], mask) >> np.uint32(16 if half else 0)
        narrow: Array = value.astype(np.uint8 if format_.size == 1 else np.uint16)
        return narrow
    if format_.size == 4:
        return chosen(words[operand.index], mask)
    return np.stack([chosen(words[operand.index + word], mask) for word in range(format_.registers)], -1)


def loaded(b: Batch, operand: Operand, format_: Format, mask: Mask | None, units: Array) -> None:
    """Writes the units of a load to the registers from ``operand`` on, in the lanes of ``mask``."""
    file = register_file(b, operand)
    if format_.size >= 8:
        for word in range(format_.registers):
            _put(file.u32[operand.index + word], mask, units[:, word])
        return
    if format_.signed:
        units = units.view(np.int8 if format_.size == 1 else np.int16)
    half = format_.half if operand.half is None else operand.half
    if half is not None:
        _put(file.u16[operand.index][..., half], mask, units.astype(np.int16).view(np.uint16))
    elif format_.signed:
        _put(file.i32[operand.index], mask, units)
    else:
        _put(file.u32[operand.index], mask, units)


def _put(row: Array, mask: Mask | None, values: Array) -> None:
    if mask is None:
        row[...] = values.reshape(row.shape)
    else:
        row[mask] = values
