"""decode in FlyDSL (gfx942, gfx950): what the mfma tier computes, in the same order of operations.

A wave takes tiles of 16 tokens. Scores S = K·Qᵀ (v_mfma_i32_16x16x32_i8): K int8 from the codebook, the query as two
int8 halves of a 16-bit integer. Outputs Oᵀ = Vᵀ·Pᵀ (v_mfma_f32_16x16x16_f16): P in fp16, V as the fp16 denormals b·2⁻²⁴
of its biased bytes b. Both results have the query row in lane % 16, so that P needs no exchange of lanes.
"""

from __future__ import annotations

from types import SimpleNamespace

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.formats.octave.codebook import LUT_ONE
from octave_gen.kernels.flydsl import (
    decode_merge,
    decode_output,
    decode_rows,
    decode_score,
    decode_tile,
    lanes,
    matrix,
    memory,
    unstable,
)
from octave_gen.kernels.flydsl.arithmetic import LOG2_E
from octave_gen.kernels.flydsl.decode_tile import TOKENS, Shared, Tile
from octave_gen.kernels.flydsl.request import Request
from octave_gen.kernels.flydsl.unstable import Kernel, Value

_SCALARS = {"f16": fx.Float16, "bf16": fx.BFloat16}


def make(request: Request) -> Kernel:
    """The kernel that ``request`` asks for; its parameters are the tier's arguments."""
    tile, scalar = Tile.of(request), _SCALARS[request.scalar]

    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])  # type: ignore[untyped-decorator]
    def decode(
        query: fx.Pointer,
        cache: fx.Pointer,
        block_table: fx.Pointer,
        q_to_req: fx.Pointer,
        q_to_klen: fx.Pointer,
        group_starts: fx.Pointer,
        mid_o: fx.Pointer,
        k_signs: fx.Pointer,
        query_token_stride: fx.Int64,
        query_head_stride: fx.Int64,
        cache_block_stride: fx.Int64,
        cache_head_stride: fx.Int64,
        cache_row_stride: fx.Int64,
        block_table_stride: fx.Int64,
        mid_token_stride: fx.Int64,
        mid_head_stride: fx.Int64,
        mid_split_stride: fx.Int64,
        num_queries: fx.Int32,
        num_groups: fx.Int32,
        num_requests: fx.Int32,
        block_size: fx.Int32,
        num_kv_splits: fx.Int32,
        sm_scale: fx.Float32,
    ) -> None:
        strides = (query_token_stride, query_head_stride, cache_block_stride, cache_head_stride, cache_row_stride)
        more = (block_table_stride, mid_token_stride, mid_head_stride, mid_split_stride)
        num_queries = lanes.together(num_queries, *strides, *more)
        first, queries = decode_rows.query_range(tile, group_starts, num_groups, num_queries)
        if queries > 0:
            kv_head, split = fx.Int64(fx.block_idx.y), fx.Int64(fx.block_idx.z)
            query_first = fx.Int64(first) * query_token_stride + kv_head * tile.gqa_group * query_head_stride
            mid_first = (
                fx.Int64(first) * mid_token_stride
                + kv_head * tile.gqa_group * mid_head_stride
                + split * mid_split_stride
            )
            _attend(
                tile,
                SimpleNamespace(
                    query=memory.pointer(query, scalar, 2) + query_first,
                    scalar=scalar,
                    token_stride=query_token_stride,
                    head_stride=query_head_stride,
                    signs=k_signs,
                    q_to_req=memory.pointer(q_to_req, fx.Int32, 4) + first,
                    q_to_klen=memory.pointer(q_to_klen, fx.Int32, 4) + first,
                    count=queries,
                    num_requests=num_requests,
                    unit=sm_scale,
                ),
                SimpleNamespace(
                    head=memory.memory(cache) + kv_head * cache_head_stride,
                    block_stride=cache_block_stride,
                    row_stride=cache_row_stride,
                    table=memory.pointer(block_table, fx.Int32, 4),
                    table_stride=block_table_stride,
                    block_size=block_size,
                    splits=num_kv_splits,
                ),
                SimpleNamespace(
                    first=memory.pointer(mid_o, fx.Float32, 4) + mid_first, token=mid_token_stride, head=mid_head_stride
                ),
            )

    return decode


@unstable.device
def _attend(tile: Tile, asked: SimpleNamespace, cache: SimpleNamespace, target: SimpleNamespace) -> None:
    """All that a workgroup does: the query rows, the walk over the split's tiles, the merge."""
    shared = memory.shared_bytes(Shared(tile).size)
    group = decode_rows.load_group(tile, asked.q_to_req, asked.q_to_klen, asked.count)
    lanes.schedule_barrier()
    rows = decode_rows.load_rows(
        tile,
        asked.query,
        asked.scalar,
        asked.signs,
        asked.count * tile.gqa_group,
        asked.token_stride,
        asked.head_stride,
    )
    cache.row = fx.Int32(cache.row_stride)
    place = decode_tile.places(tile, cache.row)
    lanes.schedule_barrier()
    group, attending = decode_rows.settle(tile, group, asked.count, asked.num_requests)
    decode_rows.put_group(tile, group, shared)

    run = decode_rows.run_from(tile, group, fx.Int32(0))
    walk, first_block = _open_run(tile, run, cache, asked.q_to_req)
    lanes.schedule_barrier()
    unit = asked.unit * (LOG2_E / (LUT_ONE * decode_rows.QUERY_RANGE))
    own = decode_rows.own_rows(tile)
    before = min(2, own // 2)
    decode_rows.quantize_rows(tile, rows, 0, before, attending, unit, shared)
    lanes.schedule_barrier()
    words = _load_first(tile, walk, first_block, cache, place)
    lanes.schedule_barrier()
    decode_rows.quantize_rows(tile, rows, before, own - before, attending, unit, shared)
    lanes.workgroup_barrier()

    fixed = _fixed(tile, shared, place)
    scale = Shared(tile).query_scale
    states = []
    for c in fx.range_constexpr(tile.columns):
        at = shared + (fx.Int32(decode_score.column_row(tile)) * 4 + (scale + 64 * c))
        column = decode_output.new_column(memory.load(at, fx.Float32))
        out = [matrix.zero_sums(fx.Float32)] * tile.value_dims
        states.append(SimpleNamespace(column=column, out=out, bias=matrix.zero_sums(fx.Float32)))

    words, states = _walk_run(tile, run, walk, words, states, shared, fixed, cache)
    if fx.const_expr(tile.queries > 1):
        while run.next < tile.queries:
            run = decode_rows.run_from(tile, decode_rows.group_in(tile, shared), run.next)
            walk, first_block = _open_run(tile, run, cache, asked.q_to_req)
            words = _load_first(tile, walk, first_block, cache, place)
            words, states = _walk_run(tile, run, walk, words, states, shared, fixed, cache)
    # V stands for LUT[code] · scale / LUT_ONE
    decode_merge.merge_waves(tile, shared, states, 2.0**24 / LUT_ONE, asked.count, target, decode_tile.all_words(words))


def _fixed(tile: Tile, shared: Value, place: SimpleNamespace) -> SimpleNamespace:
    """What the loop over tiles reads and does not change."""
    lane = lanes.lane_index()
    return SimpleNamespace(
        place=place,
        pair_weight=(lane % 16 < 8).select(fx.Float32(128.0), fx.Float32(1.0)),
        kept=decode_score.kept_query(tile, shared) if tile.kept else [],
        query_place=decode_score.query_place(tile),
        first_token=fx.Int32(lane // 16 * 4),
    )


def _scalar_table(tile: Tile) -> bool:
    """Scalar loads answer to the counter of LDS, which rotations of more than 16 lanes wait for: of the first block."""
    return tile.kept and tile.layout.k_block_size <= 16 * tile.elements


def _open_run(
    tile: Tile, run: SimpleNamespace, cache: SimpleNamespace, somewhere: Value
) -> tuple[SimpleNamespace, Value]:
    """The wave's way over the tiles of a run, and the block of its first one.

    token, base: of the tile at hand; next_token, page, row: of the wave's next tile, block: its block; end: of the
    split. Page and row advance without a division. Where a tile is not there, ``somewhere`` is read, or nothing.
    """
    begin, end = decode_rows.split_range(tile.granule, run.length, cache.splits)
    step = tile.waves * TOKENS
    token = begin + fx.Int32(lanes.wave_index()) * TOKENS
    size = fx.Uint32(cache.block_size)
    page = fx.Uint32(token) // size
    row = fx.Int32(fx.Uint32(token) - page * size)
    pages = fx.Uint32(step) // size
    cache.step_pages, cache.step_rows = fx.Int32(pages), fx.Int32(fx.Uint32(step) - pages * size)
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


def _load_first(
    tile: Tile, walk: SimpleNamespace, first_block: Value, cache: SimpleNamespace, place: SimpleNamespace
) -> SimpleNamespace:
    """The words of a run's first tile."""
    walk.base = _base_of(cache, first_block, walk.row)
    if tile.kept:
        walk.block = lanes.uniform(walk.block)
    buffer = memory.buffer_of(walk.base, walk.token < walk.end)
    key = decode_tile.load_key(tile, buffer, cache.row, place)
    # The loop waits for as many loads as are behind K's on either way into it.
    lanes.schedule_barrier()
    return SimpleNamespace(key=key, value=decode_tile.load_value(tile, buffer, cache.row, place))


@unstable.device
def _walk_run(
    tile: Tile,
    run: SimpleNamespace,
    walk: SimpleNamespace,
    words: SimpleNamespace,
    states: list[SimpleNamespace],
    shared: Value,
    fixed: SimpleNamespace,
    cache: SimpleNamespace,
) -> tuple[SimpleNamespace, list[SimpleNamespace]]:
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
        query = _query(tile, shared, fixed, base)
        scores = decode_score.score_tile(tile, words.key, fixed.place, query, fixed.pair_weight)
        words.key = decode_tile.load_key(tile, buffer, cache.row, fixed.place)
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
        words.value = decode_tile.load_value(tile, buffer, cache.row, fixed.place)
        walk.base = base
        walk.token = next_token
    return words, states


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
    place = unstable.inline_asm(fx.Uint32, "", "=v,0,s", fixed.query_place, fx.ptrtoint(base))
    return lambda column, half, block: decode_score.query_operand(tile, shared, place, column, half, block)
