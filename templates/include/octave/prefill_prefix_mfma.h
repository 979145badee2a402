// prefill_prefix, mfma tier (gfx942): partials of a chunk's query rows over one split of their packed prefix.
//
// The query is two int8 halves of a 16-bit integer in registers; scores are v_mfma_i32_16x16x32_i8 on K as int8, with
// the scale of each block of K; P·V is v_mfma_f32_16x16x16_f16 on V as fp16 numbers from the codebook.
#pragma once

#include "octave/prefill_prefix_source.h"

namespace octave {

// Weights are cut off to fp16, which takes 2⁻¹⁰ · 0.25/ln 2 of them on average.
inline constexpr float kTruncation = 1.0f + 0x1p-10f * 0.36067376f;

template <class Format, class Config, class Scalar>
OCTAVE_DEVICE void prefill_prefix_mfma(const Scalar* q, const uint8_t* cache, const int32_t* block_table,
                                       const int32_t* cu_seqlens_q, const int32_t* seq_lens, float* partials,
                                       int64_t q_token_stride, int64_t q_head_stride, int64_t cache_block_stride,
                                       int64_t cache_head_stride, int64_t cache_row_stride, int64_t block_table_stride,
                                       int64_t partial_token_stride, int64_t partial_head_stride,
                                       int64_t partial_split_stride, int32_t gqa_group, int32_t block_size,
                                       int32_t num_kv_splits, float sm_scale) {
  using Tile = PrefillTile<Config>;
  __shared__ PrefillShared<Format, Tile> shared;
  const int kv_head = workgroup_y();
  const int request_index = workgroup_z() / num_kv_splits;
  const int split = workgroup_z() - request_index * num_kv_splits;
  const auto request = PrefillRequest::of(cu_seqlens_q, seq_lens, request_index);
  const int first_row = workgroup_x() * Tile::kRows;
  const auto [begin, end] = split_range<Tile::kSplitGranule>(request.context, num_kv_splits, split);
  if (begin >= end || first_row >= request.tokens * gqa_group) return;

  const float unit = sm_scale * (kLog2E / Format::kLutOne);
  const int lane_row = first_row + wave_index() * Tile::kWaveRows + lane_index() % 16;
  PrefillQuery<Tile> query;
#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) {
    const auto row = PrefillRow::of(request, lane_row + 16 * i, gqa_group, kv_head);
    query.load(i, row.exists ? q + row.offset(request, q_token_stride, q_head_stride) : nullptr, unit);
  }

  auto packed = PackedUnit<Format, Tile>::of(static_cast<int>(cache_row_stride));
  PrefixSource<Format, Tile> source = {shared,
                                       packed,
                                       query,
                                       cache + kv_head * cache_head_stride,
                                       block_table + request_index * block_table_stride,
                                       cache_block_stride,
                                       block_size,
                                       begin,
                                       end};
  source.start();
  auto state = PrefillState<Tile>::empty();
  attend<Tile, _Float16>(source, shared.values, state, (end - begin + Tile::kTokens - 1) / Tile::kTokens);

#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) {
    const auto row = PrefillRow::of(request, lane_row + 16 * i, gqa_group, kv_head);
    const float total = state.total(i);
    if (!row.exists) continue;
    // The reference may lie above all scores. The partial's maximum does not: the chunk's weights are measured by it.
    const int exponent = min(__builtin_amdgcn_frexp_expf(total) - 1, 0);
    const float maximum = state.reference[i] + static_cast<float>(exponent);
    const float rescale = maximum == state.reference[i] ? 1.0f : exp2(state.reference[i] - maximum);
    float* partial =
        partials + row.offset(request, partial_token_stride, partial_head_stride) + split * partial_split_stride;
#pragma unroll
    for (int m = 0; m < Tile::kHeadSize / 64; ++m) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        // V stands for LUT[code] · scale / kLutOne
        const float4 dims = state.dims(i, m, r) * (rescale * (kTruncation / Format::kLutOne));
        __builtin_memcpy(partial + PrefillState<Tile>::first_dim(m, r), &dims, sizeof(dims));
      }
    }
    if (lane_index() < 16) {
      partial[Tile::kHeadSize] = maximum;
      partial[Tile::kHeadSize + 1] = total * rescale;
    }
  }
}

}  // namespace octave
