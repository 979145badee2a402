"""prefill_prefix: partials of a chunk's query rows over one split of their packed prefix.

The query is two int8 halves of a 16-bit integer in registers; scores are v_mfma_i32_16x16x32_i8 on K as int8, with the
scale of each block of K; P V is v_mfma_f32_16x16x16_f16 on V as fp16 numbers from the codebook.
"""

from __future__ import annotations

import math

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.formats.octave.codebook import LUT_ONE
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.kernels.flydsl.arithmetic import LOG2_E, SCALARS, exp2
from octave_gen.kernels.flydsl.memory import memory, store
from octave_gen.kernels.flydsl.prefill_pipeline import attend
from octave_gen.kernels.flydsl.prefill_prefix_source import PrefixSource
from octave_gen.kernels.flydsl.prefill_query import Query
from octave_gen.kernels.flydsl.prefill_rows import Row, Tokens
from octave_gen.kernels.flydsl.prefill_state import State
from octave_gen.kernels.flydsl.prefill_tile import Place, Tile, quotient
from octave_gen.kernels.flydsl.request import Request
from octave_gen.kernels.flydsl.splits import split_range
from octave_gen.kernels.flydsl.unstable import Kernel, Value, device, intrinsic

TRUNCATION = 1.0 + 2.0**-10 * 0.25 / math.log(2)
"""Weights are cut off to fp16, which takes 2^-10 * 0.25/ln 2 of them on average."""


@device
def write_partial(state: State, i: int, row: Row, partial: Value, place: Place) -> None:
    """What row i of a wave has seen, to its place in the workspace."""
    head_size = state.tile.head_size
    total = state.total(i)
    if row.exists:
        # The reference may lie above all scores. The partial's maximum does not: the chunk's weights are measured by
        # it.
        exponent = fx.min(intrinsic(fx.Int32, "llvm.amdgcn.frexp.exp.i32.f32", total) - 1, fx.Int32(0))
        maximum = state.reference[i] + exponent.to(fx.Float32)
        same = maximum == state.reference[i]
        rescale = same.select(fx.Float32(1.0), exp2(state.reference[i] - maximum))
        # V stands for LUT[code] * scale / LUT_ONE
        unit = rescale * (TRUNCATION / LUT_ONE)
        lane = memory(partial, fx.Int64(place.group * 64))
        for m in fx.range_constexpr(head_size // 64):
            for r in fx.range_constexpr(4):
                dims = fx.Vector.from_elements([x * unit for x in state.dims(i, m, r)])
                store(memory(lane, 4 * state.tile.first_dim(m, r)), dims)
        if place.group == 0:
            store(memory(partial, 4 * head_size), fx.Vector.from_elements([maximum, total * rescale]))


def make(request: Request) -> Kernel:
    """The kernel; its parameters are ``octave_gen.kernels.prefill.PREFIX_ARGUMENTS``."""
    tile, layout = Tile.of(request), request.layout
    assert isinstance(layout, SlotLayout)
    number = SCALARS[request.scalar]

    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])  # type: ignore[untyped-decorator]
    def prefill_prefix(
        q: fx.Pointer,
        cache: fx.Pointer,
        block_table: fx.Pointer,
        cu_seqlens_q: fx.Pointer,
        seq_lens: fx.Pointer,
        partials: fx.Pointer,
        q_token_stride: fx.Int64,
        q_head_stride: fx.Int64,
        cache_block_stride: fx.Int64,
        cache_head_stride: fx.Int64,
        cache_row_stride: fx.Int64,
        block_table_stride: fx.Int64,
        partial_token_stride: fx.Int64,
        partial_head_stride: fx.Int64,
        partial_split_stride: fx.Int64,
        gqa_group: fx.Int32,
        block_size: fx.Int32,
        num_kv_splits: fx.Int32,
        sm_scale: fx.Float32,
    ) -> None:
        allocator = fx.SharedAllocator()
        kv_head = fx.block_idx.y
        index = quotient(fx.block_idx.z, num_kv_splits)
        split = fx.block_idx.z - index * num_kv_splits
        tokens = Tokens.of(cu_seqlens_q, seq_lens, index)
        first_row = fx.block_idx.x * tile.rows
        begin, end = split_range(tile.split_granule, tokens.context, num_kv_splits, split)
        if (begin < end) & (first_row < tokens.count * gqa_group):
            place = Place.of(tile)
            unit = sm_scale * (LOG2_E / LUT_ONE)
            lane_row = first_row + place.wave * tile.wave_rows + place.row
            rows = [Row.of(tokens, lane_row + 16 * i, gqa_group, kv_head) for i in fx.range_constexpr(tile.row_tiles)]
            source = PrefixSource(layout, tile, place, cache_row_stride.to(fx.Int32), allocator)
            addresses = [memory(q, row.offset(tokens, q_token_stride, q_head_stride) * 2) for row in rows]
            source.of_rows([Query(address, number, tile, place, unit) for address in addresses])
            head = memory(cache, fx.Int64(kv_head) * cache_head_stride)
            table = memory(block_table, fx.Int64(index) * block_table_stride * 4)
            source.of_split(head, table, cache_block_stride, block_size, begin, end)
            state = attend(source, State(tile), quotient(end - begin + (tile.tokens - 1), tile.tokens))
            for i in fx.range_constexpr(tile.row_tiles):
                offset = rows[i].offset(tokens, partial_token_stride, partial_head_stride)
                partial = memory(partials, (offset + fx.Int64(split) * partial_split_stride) * 4)
                write_partial(state, i, rows[i], partial, place)

    return prefill_prefix
