"""The softmax of a wave's rows, one of each row tile in a lane, and the weights of a tile of tokens."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import flydsl.expr as fx

from octave_gen.kernels.flydsl import unstable
from octave_gen.kernels.flydsl.arithmetic import INFINITY, exp2
from octave_gen.kernels.flydsl.lanes import ballot, lane_xor
from octave_gen.kernels.flydsl.matrix import zero_sums
from octave_gen.kernels.flydsl.prefill_tile import Tile
from octave_gen.kernels.flydsl.unstable import Carried, Value

HEADROOM = 8.0
"""The references are raised to this far above the largest weight, so that they need not be again for a while."""

Weights = list[list[list[list[Any]]]]
"""Of one tile, by part, subtile, row tile and pair: tokens 4 * (lane / 16) + 0 … 3 of each subtile, two to a dword. A
bf16 has too few bits for one: what it leaves over is a second part."""


def reference_above(largest: Value) -> Value:
    """The reference for this largest weight: itself where HEADROOM is rounded to 16: weights would be denormals."""
    raised = largest + HEADROOM
    return (raised - largest > HEADROOM).select(largest, raised)


class State(Carried):
    """p = 2^(score - reference). The reference follows the largest weight lazily.

    By row tile: reference; ``sum``: a lane's part of the row's, in two numbers; ``out``: by tile of 16 dims.
    """

    carried = ("reference", "sum", "out")

    def __init__(self, tile: Tile) -> None:
        """Of rows that have seen nothing."""
        tiles = fx.range_constexpr(tile.row_tiles)
        self.tile = tile
        self.reference = [fx.Float32(-INFINITY) for _ in tiles]
        self.sum = [fx.Vector.filled(2, 0.0, fx.Float32) for _ in tiles]
        self.out = [[zero_sums(fx.Float32) for _ in fx.range_constexpr(tile.out_tiles)] for _ in tiles]

    def dims(self, i: int, m: int, r: int) -> list[Value]:
        """The four dims from ``tile.first_dim(m, r)`` and 16 * (lane / 16) on."""
        return [self.out[i][j * (self.tile.head_size // 64) + m][r] for j in fx.range_constexpr(4)]

    def raise_to(self, i: int, reference: Value) -> None:
        """Raises a reference that is lower."""
        raised = fx.maxnumf(self.reference[i], reference)
        rescale = (raised == self.reference[i]).select(fx.Float32(1.0), exp2(self.reference[i] - raised))
        self.reference[i] = raised
        self.sum[i] = self.sum[i] * rescale
        self.out[i] = [out * rescale for out in self.out[i]]

    def total(self, i: int) -> Value:
        """A row's sum, in all of its lanes."""
        own = self.sum[i][0] + self.sum[i][1]
        half = own + lane_xor(own, 16)
        return half + lane_xor(half, 32)


def weight_parts(number: Any) -> int:
    """Numbers of the type ``number`` that make one weight."""
    return 1 if number is fx.Float16 else 2


def no_weights(tile: Tile, number: Any) -> Weights:
    """Zeros."""
    rows, subtiles = fx.range_constexpr(tile.row_tiles), fx.range_constexpr(tile.subtiles)
    return [
        [[[fx.Int32(0), fx.Int32(0)] for _ in rows] for _ in subtiles] for _ in fx.range_constexpr(weight_parts(number))
    ]


def any_large(weights: Weights) -> Value:
    """Whether a lane has a weight that is 2 or more, Inf or NaN: bit 14 of an fp16 and of a bf16."""
    pairs = [pair for subtile in weights[0] for own in subtile for pair in own]
    return ballot((reduce(or_, pairs) & 0x40004000) != 0) != 0


def in_agpr(tile: Tile, word: Value) -> Value:
    """Puts an operand of matrix instructions into an AGPR, for them to read it there: left alone, the compiler copies
    what does not fit into the VGPRs back and forth."""
    return unstable.inline_asm(fx.Int32, "", "=a,0", word) if tile.head_size > 128 else word
