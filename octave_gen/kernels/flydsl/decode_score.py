"""Scores of decode: S = K·Qᵀ with K as int8 from the codebook and the query as two int8 halves of a 16-bit integer."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import flydsl.expr as fx

from octave_gen.kernels.flydsl import arithmetic, codebook, lanes, matrix, memory
from octave_gen.kernels.flydsl.codebook import SIGNED
from octave_gen.kernels.flydsl.decode_tile import Shared, Tile
from octave_gen.kernels.flydsl.unstable import Value

Operand = list[Value]
"""Four words: 16 dims of a block of a query row, or of a token of K."""
Query = Callable[[int, int, int], Operand]
"""The operand of a column, a half and a block."""


def column_row(tile: Tile) -> Value:
    """The query row of the lane's column, within its column block."""
    return lanes.lane_index() % tile.column_rows


def query_place(tile: Tile) -> Value:
    """Where in LDS the lane's operands of the query lie, in bytes."""
    place, lane = Shared(tile), lanes.lane_index()
    half = lane % 16 // 8 * place.query_half if tile.paired else 0
    return half + column_row(tile) * place.query_stride + lane // 16 * 16


def query_operand(tile: Tile, shared: Value, place: Value, column: int, half: int, block: int) -> Operand:
    """The query's operand of a block of dims, from LDS."""
    shape = Shared(tile)
    offset = half * shape.query_half + column * 16 * shape.query_stride + 64 * block
    return list(memory.load(shared + (fx.Int32(place) + offset), fx.Int32, 4, alignment=16))


def kept_query(tile: Tile, shared: Value) -> list[list[Operand]]:
    """The operands of the one column block, [half][block]. They are waited for here, not in the loop over tiles, where
    that would be for the loop's scalar loads as well."""
    place = query_place(tile)
    read = [[query_operand(tile, shared, place, 0, h, b) for b in range(tile.blocks)] for h in range(tile.halves)]
    return [[[lanes.opaque(word) for word in operand] for operand in half] for half in read]


def score_tile(
    tile: Tile, key: SimpleNamespace, place: SimpleNamespace, query: Query, pair_weight: Value
) -> list[list[Value]]:
    """Scores of the tile times K's scales, before the query's scale, [column][r]: token 4·(lane / 16) + r of row
    lane % 16."""
    # Halves in two instructions share an accumulator where each block is scaled at once: fewer registers.
    shared_sum = not tile.paired and tile.scales > 1
    scores = [[fx.Float32(0.0)] * 4 for _ in range(tile.columns)]
    sums = [[matrix.zero_sums(fx.Int32)] * (1 if shared_sum else tile.halves) for _ in range(tile.columns)]
    for b in range(tile.blocks):
        keys = key_operand(tile, key, place, b)
        for c in range(tile.columns):
            for h in range(tile.halves):
                slot = 0 if shared_sum else h
                if shared_sum and h == 1:
                    sums[c][0] = sums[c][0] << 7
                sums[c][slot] = multiply(tile, keys, query(c, h, b), sums[c][slot])
        if tile.scales == 1 and b < tile.blocks - 1:
            continue
        for c in range(tile.columns):
            total = sums[c][0]
            if not tile.paired and not shared_sum:
                total = (total << 7) + sums[c][1]
            word, half = divmod(0 if tile.scales == 1 else b, 2)
            for r in range(4):
                scores[c][r] = arithmetic.fma_half(key.scale[r][word], half, total[r].to(fx.Float32), scores[c][r])
            sums[c] = [matrix.zero_sums(fx.Int32)] * len(sums[c])
    return [_joined(scores[0], pair_weight)] if tile.paired else scores


def key_operand(tile: Tile, key: SimpleNamespace, place: SimpleNamespace, block: int) -> Operand:
    """int8 of the lane's 16 dims of a block."""
    if block < tile.nibble_blocks:
        words = [fx.Uint32(word) for word in key.nibbles[block]]
        return [codebook.lookup4(SIGNED, codebook.nibble_codes(words[q // 2], q % 2), place.bytes) for q in range(4)]
    low, high = (fx.Uint32(word) for word in key.planes[block - tile.nibble_blocks])
    high = high >> place.key_shift
    return [codebook.lookup3(SIGNED, codebook.plane_codes(low, high, q)) for q in range(4)]


def multiply(tile: Tile, keys: Operand, part: Operand, total: Value) -> Value:
    """The product over a block's 64 dims, of which a lane holds the same 16 of both operands."""
    if tile.wide:
        return matrix.multiply_int8(keys, part, total)
    total = matrix.multiply_int8(keys[:2], part[:2], total)
    return matrix.multiply_int8(keys[2:], part[2:], total)


def _joined(scores: list[Value], pair_weight: Value) -> list[Value]:
    """The sums of the two halves, which lie in lanes of the same row, 8 apart."""
    own = fx.Vector.from_elements(scores, fx.Float32) * pair_weight
    other = [lanes.move_dpp(own[r], lanes.ROW_ROTATE_8) for r in range(4)]
    joined = own + fx.Vector.from_elements(other, fx.Float32)
    return [joined[r] for r in range(4)]
