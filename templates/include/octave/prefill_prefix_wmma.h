// prefill_prefix, wmma tier (gfx1100): partials of 128 query rows over one KV split of their packed prefix.
//
// Each tile of 16 tokens is unpacked once for all rows, as fp16 with the scales multiplied in. The query is fp16 as it
// is; bf16 rows are brought into fp16's range by a power of two, which changes no bit of theirs that matters.
#pragma once

#include "octave/decode_group.h"
#include "octave/prefill_rows.h"
#include "octave/prefill_wmma_tile.h"
#include "octave/prefill_wmma_unpack.h"

namespace octave {

// 2^exponent, cut to the range of normal numbers.
OCTAVE_DEVICE float power_of_two(int exponent) {
  return bit_cast<float>(static_cast<uint32_t>(max(1, min(254, exponent + 127))) << 23);
}

// The wave's 16 rows as fp16 operands. Returns what 1.0 of the lane's row stands for.
template <class Tile>
OCTAVE_DEVICE float load_query(const _Float16* source, QueryOperands<Tile>& query, PrefillShared<Tile>& shared,
                               const PrefillLane<Tile>& lane) {
#pragma unroll
  for (int step = 0; step < Tile::kSteps; ++step) {
    query.put(step, load<WmmaOperand>(__builtin_assume_aligned(source + 16 * step, 16)), shared, lane);
  }
  return 1.0f;
}

template <class Tile>
OCTAVE_DEVICE float load_query(const __bf16* source, QueryOperands<Tile>& query, PrefillShared<Tile>& shared,
                               const PrefillLane<Tile>& lane) {
  // The largest magnitude's exponent, as integers: NaN and Inf have the largest of all.
  uint32_t largest = 0;
#pragma unroll 4
  for (int step = 0; step < Tile::kSteps; ++step) {
    const auto operand = load<WmmaOperand>(__builtin_assume_aligned(source + 16 * step, 16));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = operand.words[i] & 0x7FFF7FFFu;
      largest = __builtin_elementwise_max(largest, __builtin_elementwise_max(word >> 16, word & 0xFFFFu));
    }
  }
  const int exponent = static_cast<int>(largest >> 7) - 127;
  const int shift = exponent == 128 ? 0 : min(14 - exponent, 126);
  const float scale = power_of_two(shift);
#pragma unroll
  for (int step = 0; step < Tile::kSteps; ++step) {
    // Keeps the loads from being issued all at once, for which there are no registers.
    if (step % 4 == 0) schedule_barrier();
    auto operand = load<WmmaOperand>(__builtin_assume_aligned(source + 16 * step, 16));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const half2 pair = {static_cast<_Float16>(bit_cast<float>(operand.words[i] << 16) * scale),
                          static_cast<_Float16>(bit_cast<float>(operand.words[i] & 0xFFFF0000u) * scale)};
      operand.words[i] = bit_cast<uint32_t>(pair);
    }
    query.put(step, operand, shared, lane);
  }
  return power_of_two(-shift);
}

// From memory that nothing writes, at an address that is the same in all lanes: a scalar load, which waits for no
// vector load, though for reads of LDS, whose counter it shares.
OCTAVE_DEVICE int load_uniform(const int32_t* source) {
  return *reinterpret_cast<const __attribute__((address_space(4))) int32_t*>(
      reinterpret_cast<__UINTPTR_TYPE__>(source));
}

// The tiles of a split in order: page and row of the block table advance without a division, and the entry of a tile
// is read one tile ahead.
struct PrefixWalk {
  const int32_t* blocks;
  int last_page;
  int block_size;
  int page;
  int row;
  int block;
  int next_block;

  static OCTAVE_MEMBER PrefixWalk from(const int32_t* blocks, TokenRange range, int block_size) {
    PrefixWalk walk = {
        blocks, (range.end - 1) / block_size, block_size, range.begin / block_size, range.begin % block_size, 0, 0};
    walk.block = load_uniform(blocks + walk.page);
    walk.next_block = load_uniform(blocks + min(walk.page + 1, walk.last_page));
    return walk;
  }
  OCTAVE_MEMBER void advance() {
    row += 16;
    if (row >= block_size) {
      row = 0;
      ++page;
      block = next_block;
      next_block = load_uniform(blocks + min(page + 1, last_page));
    }
  }
};

template <class Format, class Config, class Scalar>
OCTAVE_DEVICE void prefill_prefix_wmma(const Scalar* q, const uint8_t* cache, const int32_t* block_table,
                                       const int32_t* cu_seqlens_q, const int32_t* seq_lens, float* partials,
                                       int64_t q_token_stride, int64_t q_head_stride, int64_t cache_block_stride,
                                       int64_t cache_head_stride, int64_t cache_row_stride, int64_t block_table_stride,
                                       int64_t partial_token_stride, int64_t partial_head_stride,
                                       int64_t partial_split_stride, int32_t gqa_group, int32_t block_size,
                                       int32_t num_kv_splits, float sm_scale) {
  using Tile = PrefillTile<Config>;
  __shared__ PrefillShared<Tile> shared;
  const int request = workgroup_z() / num_kv_splits;
  const int split = workgroup_z() % num_kv_splits;
  const auto tokens = PrefillRequest::of(cu_seqlens_q, seq_lens, request);
  const int first_row = workgroup_x() * Tile::kRows;
  if (first_row >= tokens.tokens * gqa_group) return;
  const auto range = split_range<Config::kSplitGranule>(tokens.context, num_kv_splits, split);
  if (range.begin >= range.end) return;

  const auto lane = PrefillLane<Tile>::of();
  // What lies behind the last row computes it once more, and writes nothing.
  const int row_number = first_row + wave_index() * 16 + lane_index() % 16;
  const bool exists = row_number < tokens.tokens * gqa_group;
  const auto row = PrefillRow::of(tokens, min(row_number, tokens.tokens * gqa_group - 1), gqa_group, workgroup_y());

  QueryOperands<Tile> query;
  const float one = load_query(q + row.offset(tokens, q_token_stride, q_head_stride), query, shared, lane);
  auto state = RowState<Tile>::of(sm_scale * kLog2E * kUnpackedUnit * one);

  const int row_stride = static_cast<int>(cache_row_stride);
  const uint8_t* head_cache = cache + workgroup_y() * cache_head_stride;
  auto walk = PrefixWalk::from(block_table + request * block_table_stride, range, block_size);
  const auto base_of = [&](const PrefixWalk& at) {
    return head_cache + at.block * cache_block_stride + at.row * cache_row_stride;
  };
  const auto unpack_lane = UnpackLane<Format, Tile>::of(row_stride);
  PackedPart<Format> part;
  load_part(base_of(walk), row_stride, unpack_lane, part);
  for (int tile_token = range.begin; tile_token < range.end; tile_token += Tile::kTokens) {
    TileBuffer<Tile>& tile = shared.tile;
    workgroup_barrier();
    const int visible = range.end - tile_token;
    if (visible < Tile::kTokens) cut_part(visible, unpack_lane, part);
    if (unpack_lane.part.takes_key) unpack_key(part, unpack_lane, tile);
    if (unpack_lane.part.takes_value) unpack_value(part, unpack_lane, tile);
    workgroup_barrier();
    if (tile_token + Tile::kTokens < range.end) {
      walk.advance();
      load_part(base_of(walk), row_stride, unpack_lane, part);
    }
    const auto scores = score_tile<_Float16>(tile, shared, query, lane);
    const auto p = probabilities(scores, visible < Tile::kTokens, visible - lane_index() / 16 * 8, state);
    accumulate_tile(tile, p, lane, state);
  }

  const float sum = state.sum + lane_xor<16>(state.sum);
  if (!exists) return;
  float* partial =
      partials + row.offset(tokens, partial_token_stride, partial_head_stride) + split * partial_split_stride;
#pragma unroll
  for (int n = 0; n < Tile::kSteps; ++n) {
    const float8 values = state.out[n] * kUnpackedUnit;
    __builtin_memcpy(partial + 16 * n + lane_index() / 16 * 8, &values, sizeof(values));
  }
  if (lane_index() < 16) {
    partial[Tile::kHeadSize] = state.reference * state.unit;
    partial[Tile::kHeadSize + 1] = sum;
  }
}

}  // namespace octave
