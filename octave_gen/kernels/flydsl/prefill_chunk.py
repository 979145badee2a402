"""prefill_chunk: causal attention of a chunk's query rows to the chunk's own K and V, which goes on from the partials
of the prefix and writes the output. Both products are v_mfma_f32_16x16x16 of the query's dtype.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.arithmetic import INFINITY, LARGEST_HALF, LOG2_E, SCALARS, exp2
from octave_gen.kernels.flydsl.memory import load, memory, store
from octave_gen.kernels.flydsl.prefill_chunk_source import ChunkSource
from octave_gen.kernels.flydsl.prefill_pipeline import attend
from octave_gen.kernels.flydsl.prefill_rows import Row, Tokens
from octave_gen.kernels.flydsl.prefill_state import State, in_agpr
from octave_gen.kernels.flydsl.prefill_tile import Place, Tile, quotient
from octave_gen.kernels.flydsl.request import Request
from octave_gen.kernels.flydsl.splits import splits_in_use
from octave_gen.kernels.flydsl.unstable import Kernel, Value, device


@device
def merge_prefix(partials: Value, split_bytes: Value, splits: Value, i: int, state: State, place: Place) -> State:
    """The state of row i after the prefix: its splits' partials, merged."""
    tile = state.tile
    reference = state.reference[i]
    for s in range(splits):
        own = load(memory(partials, fx.Int64(fx.Int32(s)) * split_bytes + 4 * tile.head_size), fx.Float32)
        reference = fx.maxnumf(reference, own)
    total = fx.Float32(0.0)
    out = state.out[i]
    for s in range(splits):
        split = memory(partials, fx.Int64(fx.Int32(s)) * split_bytes)
        own = load(memory(split, 4 * tile.head_size), fx.Float32)
        weight = (own == reference).select(fx.Float32(1.0), exp2(own - reference))
        total = fx.math.fma(weight, load(memory(split, 4 * tile.head_size + 4), fx.Float32), total)
        out = _add_partial(memory(split, place.group * 64), weight, out, tile)
    state.reference[i] = reference
    state.out[i] = out
    state.sum[i] = fx.Vector.from_elements([(place.group == 0).select(total, fx.Float32(0.0)), fx.Float32(0.0)])
    return state


def _add_partial(split: Value, weight: Value, out: list[Any], tile: Tile) -> list[Any]:
    parts = [[out[n][r] for r in fx.range_constexpr(4)] for n in fx.range_constexpr(tile.out_tiles)]
    steps = tile.head_size // 64
    for m in fx.range_constexpr(steps):
        for r in fx.range_constexpr(4):
            dims = load(memory(split, 4 * tile.first_dim(m, r)), fx.Float32, 4)
            for j in fx.range_constexpr(4):
                parts[j * steps + m][r] = fx.math.fma(weight, dims[j], parts[j * steps + m][r])
    return [fx.Vector.from_elements(part) for part in parts]


def _to_output(x: Value, number: Any) -> Value:
    """To fp16, finite numbers stay so."""
    if number is fx.Float16:
        size = fx.math.absf(x)
        beyond = (size > LARGEST_HALF) & (size < INFINITY)
        x = beyond.select(fx.math.copysign(fx.Float32(LARGEST_HALF), x), x)
    return x.to(number)


@device
def write_row(state: State, i: int, row: Row, target: Value, number: Any) -> None:
    """Row i of a wave to its place in the output."""
    total = state.total(i)
    if row.exists:
        inverse = 1.0 / total
        for m in fx.range_constexpr(state.tile.head_size // 64):
            for r in fx.range_constexpr(0, 4, 2):
                dims = [_to_output(x * inverse, number) for x in state.dims(i, m, r) + state.dims(i, m, r + 1)]
                store(memory(target, 2 * state.tile.first_dim(m, r)), fx.Vector.from_elements(dims), alignment=16)


def make(request: Request) -> Kernel:
    """The kernel; its parameters are ``octave_gen.kernels.prefill.CHUNK_ARGUMENTS``."""
    tile = Tile.of(request)
    number = SCALARS[request.scalar]

    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])  # type: ignore[untyped-decorator]
    def prefill_chunk(
        q: fx.Pointer,
        k: fx.Pointer,
        v: fx.Pointer,
        out: fx.Pointer,
        partials: fx.Pointer,
        cu_seqlens_q: fx.Pointer,
        seq_lens: fx.Pointer,
        q_token_stride: fx.Int64,
        q_head_stride: fx.Int64,
        k_token_stride: fx.Int64,
        k_head_stride: fx.Int64,
        v_token_stride: fx.Int64,
        v_head_stride: fx.Int64,
        out_token_stride: fx.Int64,
        out_head_stride: fx.Int64,
        partial_token_stride: fx.Int64,
        partial_head_stride: fx.Int64,
        partial_split_stride: fx.Int64,
        gqa_group: fx.Int32,
        num_kv_splits: fx.Int32,
        sm_scale: fx.Float32,
    ) -> None:
        allocator = fx.SharedAllocator()
        kv_head = fx.block_idx.y
        tokens = Tokens.of(cu_seqlens_q, seq_lens, fx.block_idx.z)
        first_row = fx.block_idx.x * tile.rows
        if first_row < tokens.count * gqa_group:
            place = Place.of(tile)
            source = ChunkSource(tile, place, number, allocator)
            first, head = fx.Int64(tokens.first), fx.Int64(kv_head)
            source.of_request(
                memory(k, (first * k_token_stride + head * k_head_stride) * 2),
                memory(v, (first * v_token_stride + head * v_head_stride) * 2),
                k_token_stride * 2,
                v_token_stride * 2,
            )
            lane_row = first_row + place.wave * tile.wave_rows + place.row
            rows = [Row.of(tokens, lane_row + 16 * i, gqa_group, kv_head) for i in fx.range_constexpr(tile.row_tiles)]
            query = [_query_row(q, row.offset(tokens, q_token_stride, q_head_stride) * 2, tile, place) for row in rows]
            visible = fx.min(tokens.count, quotient(first_row + (tile.rows - 1), gqa_group) + 1)
            source.of_rows(
                query, [row.token + 1 for row in rows], visible, quotient(first_row, gqa_group) + 1, sm_scale * LOG2_E
            )
            splits = splits_in_use(tile.split_granule, tokens.context, num_kv_splits)
            state = State(tile)
            for i in fx.range_constexpr(tile.row_tiles):
                offset = rows[i].offset(tokens, partial_token_stride, partial_head_stride) * 4
                partial = memory(partials, offset)
                state = merge_prefix(partial, partial_split_stride * 4, splits, i, state, place)
            state = attend(source, state, quotient(visible + (tile.tokens - 1), tile.tokens))
            for i in fx.range_constexpr(tile.row_tiles):
                offset = rows[i].offset(tokens, out_token_stride, out_head_stride) * 2
                write_row(state, i, rows[i], memory(out, offset + fx.Int64(place.group * 32)), number)

    return prefill_chunk


def _query_row(q: Value, offset: Value, tile: Tile, place: Place) -> list[Any]:
    """Dims 32 * k + 8 * (lane / 16) … + 7 of a row."""
    words = []
    for k in fx.range_constexpr(tile.head_size // 32):
        eight = load(memory(q, offset + fx.Int64(place.group * 16 + 64 * k)), fx.Int32, 4, alignment=16)
        words.append(fx.Vector.from_elements([in_agpr(tile, word) for word in eight]))
    return words
