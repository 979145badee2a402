"""The end of decode: the outputs of the waves, each with a reference of its own, become one partial."""

from __future__ import annotations

from types import SimpleNamespace

import flydsl.expr as fx

from octave_gen.kernels.flydsl import lanes, memory, unstable
from octave_gen.kernels.flydsl.arithmetic import INFINITY, exp2
from octave_gen.kernels.flydsl.decode_tile import Shared, Tile
from octave_gen.kernels.flydsl.unstable import Value

Target = SimpleNamespace
"""Where partials go: ``first``, that of the workgroup's first query token and kv head's first query head, and the
strides ``token`` and ``head``, in floats."""


def merge_waves(
    tile: Tile,
    shared: Value,
    states: list[SimpleNamespace],
    unit: float,
    queries: Value,
    target: Target,
    before_stores: list[Value],
) -> None:
    """Writes the partials of the workgroup's rows. unit: what V's codebook entries are multiplied by; before_stores:
    values whose registers are kept until the first of the stores."""
    for c, state in enumerate(states):
        _put_level(tile, shared, c, state)
    lanes.workgroup_barrier()
    levels = [_level(tile, shared, c, unit) for c in range(tile.columns)]
    for c, level in enumerate(levels):
        for part in range(0, 4, tile.merge_parts):
            lanes.workgroup_barrier()
            _put_outputs(tile, shared, states[c].out, part)
            lanes.workgroup_barrier()
            for value in before_stores:
                lanes.hold(value)
            before_stores = []
            if part == 0:
                _place(tile, level, c, queries, target)
            _take_outputs(tile, shared, level, c, part, target)


@unstable.device
def _put_level(tile: Tile, shared: Value, c: int, state: SimpleNamespace) -> None:
    place, lane = Shared(tile), lanes.lane_index()
    row = (fx.Int32(lanes.wave_index()) + c * tile.waves) * 16 + fx.Int32(lane % 16)
    memory.store(shared + (row * 16 + fx.Int32(lane // 16) * 4 + place.sum), state.column.sum)
    if lane < 16:
        level = fx.Vector.from_elements([state.column.reference, state.bias[0]], fx.Float32)
        memory.store(shared + (row * 8 + place.level), level, alignment=8)


def _level(tile: Tile, shared: Value, c: int, unit: float) -> SimpleNamespace:
    """Of the column's rows, row lane % 16 in a lane. factor: what a wave's outputs are multiplied by; bias: of the
    sums of all waves; reference, sum: of the partial."""
    place, lane = Shared(tile), fx.Int32(lanes.lane_index() % 16)
    levels, sums = [], []
    for w in range(tile.waves):
        row = lane + (c * tile.waves + w) * 16
        levels.append(memory.load(shared + (row * 8 + place.level), fx.Float32, 2, alignment=8))
        sums.append(memory.load(shared + (row * 16 + place.sum), fx.Float32, 4, alignment=16))
    reference = fx.Float32(-INFINITY)
    for level in levels:
        reference = fx.maxnumf(reference, level[0])
    total, bias, factors = fx.Float32(0.0), fx.Float32(0.0), []
    for level, four in zip(levels, sums, strict=True):
        factor = (level[0] == reference).select(fx.Float32(1.0), exp2(level[0] - reference))
        total = fx.fma((four[0] + four[1]) + (four[2] + four[3]), factor, total)
        factors.append(factor * unit)
        bias = fx.fma(level[1], factors[-1], bias)
    return SimpleNamespace(factor=factors, bias=bias, reference=reference, sum=total)


@unstable.device
def _place(tile: Tile, level: SimpleNamespace, c: int, queries: Value, target: Target) -> None:
    """Adds to a level the offset of each row's partial, in bytes, and a bit for each row that has one; writes reference
    and sum of the partials."""
    lane = lanes.lane_index()
    row = lane % 16 + c * 16
    query = row // tile.gqa_group if tile.queries > 1 else fx.Uint32(0)
    head = row - query * tile.gqa_group
    level.offset = 4 * (fx.Int64(fx.Uint64(query)) * target.token + fx.Int64(fx.Uint64(head)) * target.head)
    attends = (lane < tile.column_rows) & (row < tile.rows) & (fx.Int32(query) < queries)
    level.attending = fx.Uint32(lanes.ballot(attends))
    if attends & (lanes.wave_index() == c % tile.waves):
        behind = memory.memory(target.first, level.offset + 4 * tile.head_size)
        reference = (level.sum == 0.0).select(fx.Float32(-INFINITY), level.reference)
        memory.store(behind, fx.Vector.from_elements([reference, level.sum], fx.Float32))


def _at(tile: Tile, row: Value, group: Value, dim: Value | int) -> Value:
    """In bytes from a row's first: merge_parts floats of a dim slot. Swizzled, so that neither 16 rows nor 16 dims meet
    in a bank."""
    dims = tile.value_dims
    return (group * dims + (fx.Uint32(dim) ^ ((row ^ group % 2 * 8) % dims))) * (4 * tile.merge_parts)


@unstable.device
def _put_outputs(tile: Tile, shared: Value, out: list[Value], part: int) -> None:
    """What the wave has of a column, from register ``part`` of each of its outputs on."""
    place, lane = Shared(tile), lanes.lane_index()
    if (lane % 16 < 8) | (not tile.paired):
        row = lane % tile.column_rows
        mine = (lanes.wave_index() * tile.column_rows + row) * place.merge_row
        for n in fx.range_constexpr(tile.value_dims):
            parts = fx.Vector.from_elements([out[n][part + r] for r in range(tile.merge_parts)], fx.Float32)
            at = shared + fx.Int32(mine + _at(tile, row, lane // 16, n))
            memory.store(at, parts, alignment=4 * tile.merge_parts)


@unstable.device
def _take_outputs(tile: Tile, shared: Value, level: SimpleNamespace, c: int, part: int, target: Target) -> None:
    """Each wave takes rows of the query, a row after the other, so that all of a row's addresses are scalar."""
    place, lane, dims = Shared(tile), lanes.lane_index(), tile.value_dims
    own = 4 * dims * tile.merge_parts // lanes.WAVE
    n, group, half = lane % dims, lane // dims % 4, lane // (4 * dims) * own
    wave, rows = lanes.wave_index(), range(tile.column_rows // tile.waves)
    values = []
    for i in rows:
        row = wave + i * tile.waves
        found = []
        for w in fx.range_constexpr(tile.waves):
            mine = (row + w * tile.column_rows) * place.merge_row + _at(tile, row, group, n) + half * 4
            found.append(_several(memory.load(shared + fx.Int32(mine), fx.Float32, own, alignment=4 * own), own))
        values.append(found)
    for i in rows:
        if fx.const_expr(c * 16 + i * tile.waves < tile.rows):
            row = wave + i * tile.waves
            if (level.attending >> row & 1) != 0:
                partial = memory.memory(target.first, lanes.lane_value64(level.offset, row))
                bias = -lanes.lane_value(level.bias, row)
                factors = [lanes.lane_value(factor, row) for factor in level.factor]
                for j in fx.range_constexpr(own):
                    total = bias
                    for w in fx.range_constexpr(tile.waves):
                        total = fx.fma(values[i][w][j], factors[w], total)
                    dim = dims * (4 * group + half + (part + j)) + n
                    memory.store(partial + fx.Int32(dim * 4), total)


def _several(loaded: Value, count: int) -> list[Value]:
    return [loaded] if count == 1 else [loaded[j] for j in range(count)]
