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
    decode_walk,
    lanes,
    matrix,
    memory,
    unstable,
)
from octave_gen.kernels.flydsl.arithmetic import LOG2_E, QUERY_RANGE, SCALARS
from octave_gen.kernels.flydsl.decode_tile import Shared, Tile
from octave_gen.kernels.flydsl.request import Request
from octave_gen.kernels.flydsl.unstable import Kernel


def make(request: Request) -> Kernel:
    """The kernel that ``request`` asks for; its parameters are the tier's arguments."""
    tile, scalar = Tile.of(request), SCALARS[request.scalar]

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
    offsets = decode_tile.offsets(tile, cache.row)
    lanes.schedule_barrier()
    group, attending = decode_rows.settle(tile, group, asked.count, asked.num_requests)
    decode_rows.put_group(tile, group, shared)

    run = decode_rows.run_from(tile, group, fx.Int32(0))
    decode_walk.set_steps(tile, cache)
    walk, first_block = decode_walk.open_run(tile, run, cache, asked.q_to_req)
    lanes.schedule_barrier()
    unit = asked.unit * (LOG2_E / (LUT_ONE * QUERY_RANGE))
    own = decode_rows.own_rows(tile)
    before = min(2, own // 2)
    decode_rows.quantize_rows(tile, rows, 0, before, attending, unit, shared)
    lanes.schedule_barrier()
    words = decode_walk.load_first(tile, walk, first_block, cache, offsets)
    lanes.schedule_barrier()
    decode_rows.quantize_rows(tile, rows, before, own - before, attending, unit, shared)
    lanes.workgroup_barrier()

    fixed = decode_walk.fixed(tile, shared)
    scale = Shared(tile).query_scale
    states = []
    for c in fx.range_constexpr(tile.columns):
        at = shared + (fx.Int32(decode_score.column_row(tile)) * 4 + (scale + 64 * c))
        column = decode_output.new_column(memory.load(at, fx.Float32))
        out = [matrix.zero_sums(fx.Float32)] * tile.value_dims
        states.append(SimpleNamespace(column=column, out=out, bias=matrix.zero_sums(fx.Float32)))

    if fx.const_expr(tile.queries == 1):
        words, offsets, states = decode_walk.walk_run(tile, run, walk, words, offsets, states, shared, fixed, cache)
    else:
        more = fx.Boolean(True)
        while more:
            words, offsets, states = decode_walk.walk_run(tile, run, walk, words, offsets, states, shared, fixed, cache)
            more = run.next < tile.queries
            if more:
                run = decode_rows.run_from(tile, decode_rows.group_in(tile, shared), run.next)
                walk, first_block = decode_walk.open_run(tile, run, cache, asked.q_to_req)
                words = decode_walk.load_first(tile, walk, first_block, cache, offsets)
    # V stands for LUT[code] · scale / LUT_ONE
    decode_merge.merge_waves(tile, shared, states, 2.0**24 / LUT_ONE, asked.count, target, decode_tile.all_words(words))
