"""What both kernels of prefill share: sizes of a tile, a thread's place in it, places in LDS, integers.

A workgroup takes 16 * row_tiles query rows for each wave, and tiles of ``tokens`` tokens that all of its waves read
from LDS. Scores S = K Q^T have the row in lane % 16 and tokens 4 * (lane / 16) + r of a subtile of 16; O^T = V^T P^T
takes P just so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from octave_gen.kernels.flydsl.lanes import WAVE, uniform
from octave_gen.kernels.flydsl.request import Request
from octave_gen.kernels.flydsl.unstable import Value


@dataclass(frozen=True)
class Tile:
    """Sizes of a workgroup's work. split_granule: tokens that a KV split starts at a multiple of."""

    head_size: int
    waves: int
    row_tiles: int
    split_granule: int

    @classmethod
    def of(cls, request: Request) -> Tile:
        """The sizes that a request's constants name."""
        config = request.config
        return cls(request.head_size, config["waves"], config["row_tiles"], config["split_granule"])

    @property
    def threads(self) -> int:
        return self.waves * WAVE

    @property
    def wave_rows(self) -> int:
        return 16 * self.row_tiles

    @property
    def rows(self) -> int:
        return self.waves * self.wave_rows

    @property
    def subtiles(self) -> int:
        """As many as make one unit of K (16 dims) and one of V (4 tokens of 4 dims) for each thread."""
        return self.waves * 64 // self.head_size

    @property
    def tokens(self) -> int:
        return 16 * self.subtiles

    @property
    def subtile_waves(self) -> int:
        """Waves that bring in one subtile together."""
        return self.waves // self.subtiles

    @property
    def out_tiles(self) -> int:
        return self.head_size // 16

    @property
    def quads(self) -> int:
        """Of dims, in a head."""
        return self.head_size // 4

    @property
    def value_bytes(self) -> int:
        """Of one tile's V in LDS: fp16 or bf16."""
        return 2 * self.tokens * self.head_size

    def first_dim(self, m: int, r: int) -> int:
        """The dims of out[i][n][r] are four neighbours 4 * r + j for n = j * (head / 64) + m; the first of them, beside
        16 * (lane / 16)."""
        return 64 * m + 4 * r


@dataclass(frozen=True)
class Place:
    """A thread in its workgroup: lane of a wave, as row lane % 16 and group lane / 16; which of V it brings in."""

    thread: Value
    wave: Value
    lane: Value
    row: Value
    group: Value
    subtile: Value
    value_group: Value
    value_quad: Value

    @classmethod
    def of(cls, tile: Tile) -> Place:
        """Where this thread is."""
        thread = fx.thread_idx.x
        wave, lane = uniform(quotient(thread, WAVE)), remainder(thread, WAVE)
        unit = remainder(wave, tile.subtile_waves) * WAVE + lane
        return cls(
            thread,
            wave,
            lane,
            row=remainder(lane, 16),
            group=quotient(lane, 16),
            subtile=quotient(wave, tile.subtile_waves),
            value_group=quotient(unit, tile.quads),
            value_quad=remainder(unit, tile.quads),
        )

    def value_offset(self, tile: Tile, j: int) -> Value:
        """In a tile's V in LDS, which has four tokens side by side: where dim 4 * quad + j of this thread's is.

        Slot s of a head holds dim 4 * (s % (head / 4)) + s / (head / 4), so that lanes which hold neighbouring quads of
        dims write neighbouring slots.
        """
        tokens = 4 * self.subtile + self.value_group
        return (tokens * tile.head_size + self.value_quad + j * tile.quads) * 8


def shared(size: int, allocator: Any) -> Value:
    """A pointer to ``size`` bytes of LDS."""
    return allocator.allocate(fx.Array[fx.Uint8, size, 16]).peek().ptr


def key_slot(token: Value, chunk: Value, token_bytes: int) -> Value:
    """In a tile's K in LDS: 16-byte chunk c of a token lies at chunk c ^ (token % 8), so that neighbouring tokens meet
    different banks."""
    return token * token_bytes + (chunk ^ (token & 7)) * 16


def quotient(a: Value, b: Value | int) -> Value:
    """a / b of 32-bit integers that are not negative."""
    return fx.Int32(fx.Uint32(a) // fx.Uint32(b))


def remainder(a: Value, b: Value | int) -> Value:
    """a % b of 32-bit integers that are not negative."""
    return fx.Int32(fx.Uint32(a) % fx.Uint32(b))
