"""Packed codes of the Octave format: bit planes to one code per byte, codes to bytes of a codebook by v_perm_b32.
Words are Uint32."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import flydsl.expr as fx

from octave_gen.formats.octave import codebook
from octave_gen.kernels.flydsl import unstable
from octave_gen.kernels.flydsl.unstable import Value

PLACES = 0x03020100
"""The bytes of a word in their own order, as a selector."""


@dataclass(frozen=True)
class Book:
    """Bytes that codes stand for, as operands of v_perm_b32: of 3-bit codes (low, high), of 4-bit ones four dwords."""

    three: tuple[int, ...]
    four: tuple[int, ...]


def _book(byte_of: dict[int, list[int]]) -> Book:
    dwords = {
        bits: tuple(int.from_bytes(bytes(found[i : i + 4]), "little") for i in range(0, len(found), 4))
        for bits, found in byte_of.items()
    }
    return Book(dwords[3], dwords[4])


SIGNED = _book({bits: [value & 0xFF for value in codebook.LUT[bits]] for bits in (3, 4)})
"""The values themselves, int8."""
BIASED = _book({bits: [value + 128 for value in codebook.LUT[bits]] for bits in (3, 4)})
"""The values plus 128: unsigned bytes."""


def half_book(byte: int) -> Book:
    """Byte 0 or 1 of the values in fp16."""
    return _book({bits: [struct.pack("<e", value)[byte] for value in codebook.LUT[bits]] for bits in (3, 4)})


def permute_bytes(high: Value, low: Value, selector: Value) -> Value:
    """Byte i of the result is byte (selector byte i) of the eight bytes low, high."""
    words = (fx.Uint32(word) for word in (high, low, selector))
    return unstable.intrinsic(fx.Uint32, "llvm.amdgcn.perm", *words)


def pair_bytes(first: Value, second: Value, half: int) -> Value:
    """Bytes 0 and 1 (half 0) or 2 and 3 of two dwords, side by side: first, second, first, second."""
    return permute_bytes(second, first, 0x07030602 if half else 0x05010400)


def lookup3(book: Book, codes: Value) -> Value:
    """The bytes of four 3-bit codes, one per byte."""
    low, high = book.three
    return permute_bytes(high, low, codes)


def lookup4(book: Book, codes: Value, places: Value | int = PLACES) -> Value:
    """The bytes of four 4-bit codes, one per byte; bits above a code are ignored. Both halves of the table, then one
    of them by bit 3 of each code.

    places: PLACES, or the same in a vector register of its own, which saves an instruction.
    """
    dwords = book.four
    index = codes & 0x07070707
    lower = permute_bytes(dwords[1], dwords[0], index)
    upper = permute_bytes(dwords[3], dwords[2], index)
    return permute_bytes(upper, lower, ((codes >> 1) & 0x04040404) | places)


def nibble_codes(nibbles: Value, quad: int) -> Value:
    """Codes of a quad of a dword of 4-bit codes (8 dims): quad 0 in the low nibbles, quad 1 in the high ones. The
    upper bits of each byte are not cleared."""
    return nibbles >> (4 * quad) if quad else nibbles


def plane_codes(low: Value, high: Value, quad: int) -> Value:
    """Codes of a quad of 3-bit codes: ``quad`` 0 to 3 within the dword of the 2-bit plane (16 dims), ``high`` the
    dword of the 1-bit plane (32 dims), shifted so that the same 16 dims start at bit 0 of each byte."""
    upper = high << (2 - quad) if quad < 2 else high >> (quad - 2)
    lower = low >> (2 * quad) if quad else low
    return (lower & 0x03030303) | (upper & 0x04040404)
