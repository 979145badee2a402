"""The walk of a wave over a split's tiles: where they lie, what is in flight, scores, weights and outputs of each."""

from __future__ import annotations

from types import SimpleNamespace

import flydsl.expr as fx

from octave_gen.kernels.flydsl import decode_output, decode_score, decode_tile, lanes, memory, unstable
from octave_gen.kernels.flydsl.decode_tile import TOKENS, Shared, Tile
from octave_gen.kernels.flydsl.splits import split_range
from octave_gen.kernels.flydsl.unstable import Value


def fixed(tile: Tile, shared: Value) -> SimpleNamespace:
    """What the loop over tiles reads and does not change."""
    lane = lanes.lane_index()
    return SimpleNamespace(
        place=decode_tile.places(tile),
        pair_weight=(lane % 16 < 8).select(fx.Float32(128.0), fx.Float32(1.0)),
        kept=decode_score.kept_query(tile, shared) if tile.kept else [],
        query_place=decode_score.query_place(tile),
        first_token=fx.Int32(lane // 16 * 4),
    )


def set_steps(tile: Tile, cache: SimpleNamespace) -> None:
    """Adds to a cache how many blocks and slots a wave goes on from tile to tile."""
    step, size = fx.Uint32(tile.waves * TOKENS), fx.Uint32(cache.block_size)
    pages = step // size
    cache.step_pages, cache.step_rows = fx.Int32(pages), fx.Int32(step - pages * size)


def _scalar_table(tile: Tile) -> bool:
    """Scalar loads answer to the counter of LDS, which rotations of more than 16 lanes wait for: of the first block."""
    return tile.kept and tile.layout.k_block_size <= 16 * tile.elements


def open_run(
    tile: Tile, run: SimpleNamespace, cache: SimpleNamespace, somewhere: Value
) -> tuple[SimpleNamespace, Value]:
    """The wave's way over the tiles of a run, and the block of its first one.

    token, base: of the tile at hand; next_token, page, row: of the wave's next tile, block: its block; end: of the
    split. Page and row advance without a division. Where a tile is not there, ``somewhere`` is read, or nothing.
    """
    begin, end = split_range(tile.granule, run.length, cache.splits, fx.Int32(fx.block_idx.z))
    step = tile.waves * TOKENS
    token = begin + fx.Int32(lanes.wave_index()) * TOKENS
    size = fx.Uint32(cache.block_size)
    page = fx.Uint32(token) // size
    row = fx.Int32(fx.Uint32(token) - page * size)
    walk = SimpleNamespace(
        token=token,
        end=end,
        row=row,
        next_token=token,
        page=fx.Int32(page),
        next_row=row,
        blocks=cache.table + fx.Int64(run.request) * cache.table_stride,
    )
    first_page = walk.page
    _advance(walk, step, cache)
    if _scalar_table(tile):
        first_block = _block_or(walk.blocks, first_page, token < end, somewhere)
        walk.block = _block_or(walk.blocks, walk.page, walk.next_token < end, somewhere)
    else:
        first_block = _vector_block(walk.blocks, first_page, token < end)
        walk.block = _vector_block(walk.blocks, walk.page, walk.next_token < end)
    return walk, first_block


def _advance(walk: SimpleNamespace, step: int, cache: SimpleNamespace) -> None:
    row = walk.next_row + cache.step_rows
    over = row >= cache.block_size
    walk.next_token = walk.next_token + step
    walk.page = walk.page + cache.step_pages + over.select(fx.Int32(1), fx.Int32(0))
    walk.next_row = over.select(row - cache.block_size, row)


def _block_or(blocks: Value, page: Value, there: Value, somewhere: Value) -> Value:
    """An entry of the block table by a scalar load; of ``somewhere`` where it is not there, without a branch."""
    return memory.load_constant(there.select(blocks + page, somewhere))


def _vector_block(blocks: Value, page: Value, there: Value | None = None) -> Value:
    """An entry of the block table by a vector load, which comes back in order with those of tiles."""
    return memory.load_word(memory.buffer_of(blocks, there), fx.Int32(0), 4 * page)


def _base_of(cache: SimpleNamespace, block: Value, row: Value) -> Value:
    first = fx.Int64(lanes.uniform(block)) * cache.block_stride + fx.Int64(row) * cache.row_stride
    return cache.head + first


def load_first(
    tile: Tile, walk: SimpleNamespace, first_block: Value, cache: SimpleNamespace, offsets: SimpleNamespace
) -> SimpleNamespace:
    """The words of a run's first tile."""
    walk.base = _base_of(cache, first_block, walk.row)
    if tile.kept:
        walk.block = lanes.uniform(walk.block)
    buffer = memory.buffer_of(walk.base, walk.token < walk.end)
    key = decode_tile.load_key(tile, buffer, cache.row, offsets)
    # The loop waits for as many loads as are behind K's on either way into it.
    lanes.schedule_barrier()
    return SimpleNamespace(key=key, value=decode_tile.load_value(tile, buffer, cache.row, offsets))


@unstable.device
def walk_run(
    tile: Tile,
    run: SimpleNamespace,
    walk: SimpleNamespace,
    words: SimpleNamespace,
    offsets: SimpleNamespace,
    states: list[SimpleNamespace],
    shared: Value,
    fixed: SimpleNamespace,
    cache: SimpleNamespace,
) -> tuple[SimpleNamespace, SimpleNamespace, list[SimpleNamespace]]:
    """The wave's tiles of a run. Registers hold the words of one tile: as soon as K's are multiplied, K of the next
    tile is asked for, as soon as V's are, its V. The block is asked for two tiles ahead."""
    visible = [_visible(tile, run, walk.end, shared, c) for c in range(tile.columns)]
    whole = fx.min(run.shortest, walk.end)
    while walk.token < walk.end:
        token, next_token = walk.token, walk.next_token
        base = walk.base
        if next_token < walk.end:
            base = _base_of(cache, walk.block, walk.next_row)
        _advance(walk, tile.waves * TOKENS, cache)
        if walk.next_token < walk.end:
            walk.block = (
                memory.load_constant(walk.blocks + walk.page) if tile.kept else _vector_block(walk.blocks, walk.page)
            )
        buffer = memory.buffer_of(base)
        offsets = decode_tile.afresh(offsets, base)
        query = _query(tile, shared, fixed, base)
        scores = decode_score.score_tile(tile, words.key, fixed.place, query, fixed.pair_weight)
        words.key = decode_tile.load_key(tile, buffer, cache.row, offsets)
        partial = token + TOKENS > whole
        weighted = []
        for c in fx.range_constexpr(tile.columns):
            scale = words.value.scale
            if tile.columns > 1:
                scale = [lanes.after_half(s, score) for s, score in zip(scale, scores[c], strict=True)]
            first = token + fixed.first_token
            operand, states[c] = decode_output.weigh_tile(scores[c], scale, partial, first, visible[c], states[c])
            weighted.append(operand)
        decode_output.accumulate_tile(tile, words.value, fixed.place, weighted, states)
        words.value = decode_tile.load_value(tile, buffer, cache.row, offsets)
        walk.base = base
        walk.token = next_token
    return words, offsets, states


def _visible(tile: Tile, run: SimpleNamespace, end: Value, shared: Value, c: int) -> Value:
    """How many tokens the row of the lane's column sees."""
    q = fx.Int32((decode_score.column_row(tile) + c * 16) // tile.gqa_group)
    length = memory.load(shared + (fx.min(q, tile.queries - 1) * 4 + Shared(tile).length), fx.Int32)
    return ((q >= run.first) & (q < run.next)).select(fx.min(length, end), fx.Int32(0))


def _query(tile: Tile, shared: Value, fixed: SimpleNamespace, base: Value) -> decode_score.Query:
    """Where the tile's scores get the query's operands from."""
    if tile.kept:
        return lambda column, half, block: fixed.kept[half][block]
    # Keeps the compiler from holding all of it in registers from tile to tile.
    place = lanes.after_scalar(fixed.query_place, base)
    return lambda column, half, block: decode_score.query_operand(tile, shared, place, column, half, block)
