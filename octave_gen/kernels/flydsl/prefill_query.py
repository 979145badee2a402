"""The query of prefill over packed tokens: two int8 halves of a 16-bit integer, with one scale a row."""

from __future__ import annotations

import math
from typing import Any

import flydsl.expr as fx

from octave_gen.kernels.flydsl.arithmetic import INFINITY, QUERY_FLOOR, QUERY_RANGE, bits, from_bits
from octave_gen.kernels.flydsl.lanes import lane_xor
from octave_gen.kernels.flydsl.memory import load, memory
from octave_gen.kernels.flydsl.prefill_state import in_agpr
from octave_gen.kernels.flydsl.prefill_tile import Place, Tile
from octave_gen.kernels.flydsl.unstable import Value


class Query:
    """The operand of one row of a lane: dims 64 * b + 16 * (lane / 16) … + 15.

    half: the high (0) and low (1) halves, by block b, four words each; scale: of the integers, times ``unit``.
    """

    def __init__(self, row: Value, number: Any, tile: Tile, place: Place, unit: Value) -> None:
        """``row``: where its dims are, fp16 or bf16."""
        raw = _load(row, tile, place)
        largest = _largest(raw, number)
        finite = largest < INFINITY
        used = finite & (largest >= QUERY_FLOOR)
        zero = fx.Float32(0.0)
        inverse = used.select(QUERY_RANGE / largest, zero)
        # Not what is not finite, times 0.
        raw = [used.select(words, fx.Vector.filled(4, 0, fx.Int32)) for words in raw]
        blocks = fx.range_constexpr(tile.head_size // 64)
        codes = [_codes(_floats(words, number), inverse) for words in raw]
        self.half = [
            [[in_agpr(tile, codes[2 * b + quad // 2][quad % 2][h]) for quad in fx.range_constexpr(4)] for b in blocks]
            for h in fx.range_constexpr(2)
        ]
        self.scale = used.select(largest / QUERY_RANGE * unit, finite.select(zero, fx.Float32(math.nan)))


def _load(row: Value, tile: Tile, place: Place) -> list[Value]:
    """Eight dims each: two for each block."""
    return [
        load(memory(row, fx.Int64(place.group * 32 + (128 * b + 16 * e))), fx.Int32, 4, alignment=16)
        for b in fx.range_constexpr(tile.head_size // 64)
        for e in fx.range_constexpr(2)
    ]


def _floats(words: Value, number: Any) -> list[Value]:
    return list(words.bitcast(number).to(fx.Float32))


def _largest(raw: list[Value], number: Any) -> Value:
    """The largest magnitude of the row; as integers, so that a NaN is larger than all numbers and does not get lost
    between finite ones."""
    largest = fx.Uint32(0)
    for words in raw:
        for x in _floats(words, number):
            largest = fx.max(largest, bits(fx.math.absf(x)))
    for mask in (16, 32):
        largest = fx.max(largest, lane_xor(largest, mask))
    return from_bits(largest)


def _codes(eight: list[Value], inverse: Value) -> list[tuple[Value, Value]]:
    """The two halves of two quads of dims, a byte each."""
    quads = []
    for quad in (eight[:4], eight[4:]):
        high, low = fx.Int32(0), fx.Int32(0)
        for d, x in enumerate(quad):
            code = fx.Int32(fx.math.roundeven(x * inverse))
            upper = (code + 64) >> 7
            high = high | (upper & 0xFF) << (8 * d)
            low = low | (code - upper * 128 & 0xFF) << (8 * d)
        quads.append((high, low))
    return quads
