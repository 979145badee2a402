"""The softmax of a wave's rows, one of each row tile in a lane, and the weights of a tile of tokens."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from octave_gen.kernels.flydsl.lanes import ballot, exp2, lane_xor, larger
from octave_gen.kernels.flydsl.matrix import mfma_bf16, mfma_f16
from octave_gen.kernels.flydsl.prefill_tile import Carried, Place, Tile
from octave_gen.kernels.flydsl.unstable import Value

INFINITY = float("inf")
HEADROOM = 8.0
"""The references are raised to this far above the largest weight, so that they need not be again for a while."""

Weights = list[list[list[list[Any]]]]
"""Of one tile, by part, subtile, row tile and pair: tokens 4 * (lane / 16) + 0 … 3 of each subtile, two to a dword. A
bf16 has too few bits for one: what it leaves over is a second part."""


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
        self.out = [
            [fx.Vector.filled(4, 0.0, fx.Float32) for _ in fx.range_constexpr(tile.out_tiles)] for _ in tiles
        ]

    def dims(self, i: int, m: int, r: int) -> list[Value]:
        """The four dims from ``tile.first_dim(m, r)`` on."""
        return [self.out[i][j * (self.tile.head_size // 64) + m][r] for j in fx.range_constexpr(4)]

    def raise_to(self, i: int, reference: Value) -> None:
        """Raises a reference that is lower."""
        raised = larger(self.reference[i], reference)
        rescale = (raised == self.reference[i]).select(fx.Float32(1.0), exp2(self.reference[i] - raised))
        self.reference[i] = raised
        self.sum[i] = self.sum[i] * rescale
        self.out[i] = [out * rescale for out in self.out[i]]

    def total(self, i: int, place: Place) -> Value:
        """A row's sum, in all of its lanes."""
        own = self.sum[i][0] + self.sum[i][1]
        half = own + lane_xor(own, 16, place.lane)
        return half + lane_xor(half, 32, place.lane)


def weight_parts(number: Any) -> int:
    """Numbers of the type ``number`` that make one weight."""
    return 1 if number is fx.Float16 else 2


def no_weights(tile: Tile, number: Any) -> Weights:
    """Zeros."""
    rows, subtiles = fx.range_constexpr(tile.row_tiles), fx.range_constexpr(tile.subtiles)
    return [[[[fx.Int32(0), fx.Int32(0)] for _ in rows] for _ in subtiles] for _ in fx.range_constexpr(weight_parts(number))]


def any_large(weights: Weights) -> Value:
    """Whether a lane has a weight that is 2 or more, Inf or NaN: bit 14 of an fp16 and of a bf16."""
    bits = None
    for subtile in weights[0]:
        for pairs in subtile:
            both = pairs[0] | pairs[1]
            bits = both if bits is None else bits | both
    return ballot((bits & 0x40004000) != 0) != 0


def mfma_16(number: Any, a: Value, b: Value, c: Value) -> Value:
    """c and the dot products of 16 dims or tokens, which are fp16 or bf16."""
    return mfma_f16(a, b, c) if number is fx.Float16 else mfma_bf16(a, b, c)
