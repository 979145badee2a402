"""Packed slots to LDS for prefill: K as int8, V as fp16, scales as fp32. Each thread unpacks 16 dims of a token of K
and 4 dims of four tokens of V.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.kernels.flydsl.codebook import (
    PLACES,
    SIGNED,
    Book,
    half_book,
    lookup3,
    lookup4,
    nibble_codes,
    pair_bytes,
    plane_codes,
)
from octave_gen.kernels.flydsl.lanes import opaque
from octave_gen.kernels.flydsl.memory import buffer_of, load_half, load_word, memory, store
from octave_gen.kernels.flydsl.prefill_tile import Place, Tile, key_slot
from octave_gen.kernels.flydsl.unstable import Carried, Value, device, intrinsic


class PackedUnit(Carried):
    """What a thread brings in, as it is in memory; offsets in bytes from the first token of the wave's subtile."""

    carried = ("key_words", "scale_half", "value_words", "value_high_words")

    def __init__(self, layout: SlotLayout, tile: Tile, place: Place, row_stride: Value) -> None:
        self.layout, self.tile, self.place, self.row_stride = layout, tile, place, row_stride
        self.nibble_blocks = layout.k_nibbles.dims // 64
        self.block = place.wave & (tile.subtile_waves - 1)  # of K
        self.key_shift = fx.Uint32((place.group & 1) * 4)
        self.keys = self._key_offsets()
        scale = fx.min(4 * self.block + place.group, fx.Int32(layout.k_blocks))
        self.scale = place.row * row_stride + layout.k_scales.offset + 2 * scale
        rows, quad = 4 * place.value_group * row_stride, place.value_quad
        v_nibbles = layout.v_bits == 4
        self.value = rows + layout.v.offset + (quad >> 1 if v_nibbles else quad >> 2) * 4
        self.value_shift = fx.Uint32((quad & 1) * 4 if v_nibbles else (quad & 3) * 2)
        self.value_high = rows + layout.v.high_plane + (quad >> 3) * 4
        self.value_high_turn = fx.Uint32(((quad & 7) - 2) & 31)  # to bit 2 of each byte
        self.places = opaque(fx.Uint32(PLACES))
        self.key_words = [fx.Uint32(0), fx.Uint32(0)]
        self.scale_half = fx.Float16(0.0)
        self.value_words = [fx.Uint32(0)] * 4
        self.value_high_words = [fx.Uint32(0)] * (4 if layout.v_bits == 3 else 0)

    def _key_offsets(self) -> list[Value]:
        """Of the two words of K: neighbours of 4-bit codes, or the two planes of 3-bit ones."""
        layout, group = self.layout, self.place.group
        token = self.place.row * self.row_stride
        plane_block = self.block - self.nibble_blocks
        planes = [
            token + layout.k_planes.offset + 16 * plane_block + 4 * group,
            token + layout.k_planes.high_plane + 8 * plane_block + (group >> 1) * 4,
        ]
        if not self.nibble_blocks:
            return planes
        nibbles = token + layout.k_nibbles.offset + 32 * self.block + 8 * group
        in_nibbles = self.block < self.nibble_blocks
        return [in_nibbles.select(nibbles, planes[0]), in_nibbles.select(nibbles + 4, planes[1])]

    def load_keys(self, base: Value) -> None:
        """And the scale, of the subtile at ``base``."""
        buffer = buffer_of(base)
        self.key_words = [fx.Uint32(load_word(buffer, offset)) for offset in self.keys]
        self.scale_half = load_half(buffer, self.scale)

    def load_values(self, base: Value) -> None:
        """Of four tokens."""
        buffer = buffer_of(base)

        def words(offset: Value) -> list[Value]:
            return [fx.Uint32(load_word(buffer, offset, t * self.row_stride)) for t in fx.range_constexpr(4)]

        self.value_words = words(self.value)
        if self.layout.v_bits == 3:
            self.value_high_words = words(self.value_high)

    def store_keys(self, keys: Value, scales: Value) -> None:
        """To a tile's K and scales in LDS."""
        chunk = 4 * self.block + self.place.group
        token = 16 * self.place.subtile + self.place.row
        store(memory(scales, (chunk * self.tile.tokens + token) * 4), self.scale_half.to(fx.Float32))
        quads = self._quads()
        slot = key_slot(token, chunk, self.tile.head_size)
        store(memory(keys, slot), fx.Vector.from_elements(quads), alignment=16)

    @device
    def _quads(self) -> list[Value]:
        """Of K's dims, as int8."""
        quads = self._plane_quads()
        if fx.const_expr(self.nibble_blocks > 0):
            quads = self._nibble_quads() if self.block < self.nibble_blocks else self._plane_quads()
        return quads

    def _nibble_quads(self) -> list[Value]:
        return [
            self._lookup4(SIGNED, nibble_codes(self.key_words[quad // 2], quad % 2)) for quad in fx.range_constexpr(4)
        ]

    def _plane_quads(self) -> list[Value]:
        low, high = self.key_words
        return [lookup3(SIGNED, plane_codes(low, high >> self.key_shift, quad)) for quad in fx.range_constexpr(4)]

    def _lookup4(self, book: Book, codes: Value) -> Value:
        return lookup4(book, codes, self.places)

    def unpack_values(self, half: int) -> list[list[Value]]:
        """Dims 2 * half and 2 * half + 1 of the quad, of two pairs of tokens each."""
        codes = [self._value_codes(t) for t in fx.range_constexpr(4)]
        lookup = self._lookup4 if self.layout.v_bits == 4 else lookup3
        dims: list[list[Any]] = [[], []]
        for pair in fx.range_constexpr(2):
            mixed = pair_bytes(codes[2 * pair], codes[2 * pair + 1], half)
            low, high = (lookup(half_book(byte), mixed) for byte in fx.range_constexpr(2))
            for d in fx.range_constexpr(2):
                dims[d].append(pair_bytes(low, high, d))
        return dims

    def _value_codes(self, t: int) -> Value:
        codes = self.value_words[t] >> self.value_shift
        if self.layout.v_bits == 4:
            return codes
        word = self.value_high_words[t]
        high = intrinsic(fx.Uint32, "llvm.fshr.i32", word, word, self.value_high_turn)
        return (codes & 0x03030303) | (high & 0x04040404)
