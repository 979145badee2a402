// prefill_chunk, mfma tier (gfx942): causal attention of a chunk's query rows to the chunk's own K and V, which goes on
// from the partials of the prefix and writes the output. Both products are v_mfma_f32_16x16x16 of the query's dtype.
#pragma once

#include "octave/prefill_chunk_source.h"

namespace octave {

// The state of row i after the prefix: its splits' partials, merged.
template <class Tile>
OCTAVE_DEVICE void merge_prefix(const float* partials, int64_t split_stride, int splits, int i,
                                PrefillState<Tile>& state) {
  for (int s = 0; s < splits; ++s)
    state.reference[i] = __builtin_fmaxf(state.reference[i], partials[s * split_stride + Tile::kHeadSize]);
  float sum = 0.0f;
  for (int s = 0; s < splits; ++s) {
    const float* partial = partials + s * split_stride;
    const float reference = partial[Tile::kHeadSize];
    const float weight = reference == state.reference[i] ? 1.0f : exp2(reference - state.reference[i]);
    sum = __builtin_fmaf(weight, partial[Tile::kHeadSize + 1], sum);
#pragma unroll
    for (int m = 0; m < Tile::kHeadSize / 64; ++m) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const auto dims = octave::load<float4>(partial + PrefillState<Tile>::first_dim(m, r));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int n = j * (Tile::kHeadSize / 64) + m;
          state.out[i][n][r] = __builtin_fmaf(weight, dims[j], state.out[i][n][r]);
        }
      }
    }
  }
  state.sum[i] = {lane_index() < 16 ? sum : 0.0f, 0.0f};
}

template <class Config, class Scalar>
OCTAVE_DEVICE void prefill_chunk_mfma(const Scalar* q, const Scalar* k, const Scalar* v, Scalar* out,
                                      const float* partials, const int32_t* cu_seqlens_q, const int32_t* seq_lens,
                                      int64_t q_token_stride, int64_t q_head_stride, int64_t k_token_stride,
                                      int64_t k_head_stride, int64_t v_token_stride, int64_t v_head_stride,
                                      int64_t out_token_stride, int64_t out_head_stride, int64_t partial_token_stride,
                                      int64_t partial_head_stride, int64_t partial_split_stride, int32_t gqa_group,
                                      int32_t num_kv_splits, float sm_scale) {
  using Tile = PrefillTile<Config>;
  using Eight = Scalar __attribute__((ext_vector_type(8)));
  __shared__ ChunkShared<Tile> shared;
  const int kv_head = workgroup_y();
  const auto request = PrefillRequest::of(cu_seqlens_q, seq_lens, workgroup_z());
  const int first_row = workgroup_x() * Tile::kRows;
  if (first_row >= request.tokens * gqa_group) return;

  const int visible = min(request.tokens, (first_row + Tile::kRows - 1) / gqa_group + 1);
  ChunkSource<Tile, Scalar> source = {shared,
                                      k + request.first_token * k_token_stride + kv_head * k_head_stride,
                                      v + request.first_token * v_token_stride + kv_head * v_head_stride,
                                      k_token_stride,
                                      v_token_stride,
                                      sm_scale * kLog2E,
                                      visible,
                                      first_row / gqa_group + 1,
                                      {},
                                      {}};
  const int splits = splits_in_use<Tile::kSplitGranule>(request.context, num_kv_splits);
  const int lane_row = first_row + wave_index() * Tile::kWaveRows + lane_index() % 16;
  auto state = PrefillState<Tile>::empty();
#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) {
    const auto row = PrefillRow::of(request, lane_row + 16 * i, gqa_group, kv_head);
    source.limit[i] = row.token + 1;
    const Scalar* query = q + row.offset(request, q_token_stride, q_head_stride) + lane_index() / 16 * 8;
#pragma unroll
    for (int d = 0; d < Tile::kHeadSize / 32; ++d) {
      const uint4 dims = row.exists ? *reinterpret_cast<const uint4*>(query + 32 * d) : uint4{};
#pragma unroll
      for (int e = 0; e < 4; ++e) source.query[i][d][e] = in_agpr<Tile>(dims[e]);
    }
    if (row.exists) {
      merge_prefix(partials + row.offset(request, partial_token_stride, partial_head_stride), partial_split_stride,
                   splits, i, state);
    }
  }
  attend<Tile, Scalar>(source, shared.values, state, (visible + Tile::kTokens - 1) / Tile::kTokens);

#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) {
    const auto row = PrefillRow::of(request, lane_row + 16 * i, gqa_group, kv_head);
    const float total = state.total(i);
    if (!row.exists) continue;
    Scalar* target = out + row.offset(request, out_token_stride, out_head_stride);
    const float inverse = 1.0f / total;
#pragma unroll
    for (int m = 0; m < Tile::kHeadSize / 64; ++m) {
#pragma unroll
      for (int r = 0; r < 4; r += 2) {
        Eight dims;
#pragma unroll
        for (int d = 0; d < 8; ++d) dims[d] = to_output<Scalar>(state.dims(i, m, r + d / 4)[d % 4] * inverse);
        *reinterpret_cast<Eight*>(target + PrefillState<Tile>::first_dim(m, r)) = dims;
      }
    }
  }
}

}  // namespace octave
