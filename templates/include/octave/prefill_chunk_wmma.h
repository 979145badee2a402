// prefill_chunk, wmma tier (gfx1100): 128 query rows attend causally to their chunk's own K and V.
//
// K is multiplied in the query's dtype, V and the probabilities in fp16. The kernel goes on from the partials of the
// prefix's splits, and writes the output.
#pragma once

#include "octave/prefill_rows.h"
#include "octave/prefill_wmma_chunk.h"
#include "octave/prefill_wmma_tile.h"

namespace octave {

template <class Tile>
struct ChunkShared {
  PrefillShared<Tile> operands;
  // Of each wave: whether its part of the tile holds outliers of V.
  alignas(16) int outliers[Tile::kWaves];
};

// The row as the prefix left it: the sum of the splits' partials, with the largest reference of them, outputs times
// `scale`.
template <class Tile>
OCTAVE_DEVICE void merge_partials(const float* partials, int64_t split_stride, int splits, float scale,
                                  RowState<Tile>& row) {
  if (splits == 0) return;
  float largest = -kInfinity;
  for (int split = 0; split < splits; ++split)
    largest = __builtin_fmaxf(largest, partials[split * split_stride + Tile::kHeadSize]);
  for (int split = 0; split < splits; ++split) {
    const float* partial = partials + split * split_stride;
    const float reference = partial[Tile::kHeadSize];
    const float weight = reference == largest ? 1.0f : exp2(reference - largest);
    // a row's two lanes add their sums in the end
    const float sum = lane_index() < 16 ? partial[Tile::kHeadSize + 1] : 0.0f;
    row.sum = __builtin_fmaf(weight, sum, row.sum);
#pragma unroll
    for (int n = 0; n < Tile::kSteps; ++n) {
      const auto values = load<float8>(partial + 16 * n + lane_index() / 16 * 8);
      row.out[n] = __builtin_elementwise_fma(float8{} + weight * scale, values, row.out[n]);
    }
  }
  row.reference = row.unit == 0.0f ? 0.0f : largest / row.unit;
}

template <class Config, class Scalar>
OCTAVE_DEVICE void prefill_chunk_wmma(const Scalar* q, const Scalar* k, const Scalar* v, Scalar* out,
                                      const float* partials, const int32_t* cu_seqlens_q, const int32_t* seq_lens,
                                      int64_t q_token_stride, int64_t q_head_stride, int64_t k_token_stride,
                                      int64_t k_head_stride, int64_t v_token_stride, int64_t v_head_stride,
                                      int64_t out_token_stride, int64_t out_head_stride, int64_t partial_token_stride,
                                      int64_t partial_head_stride, int64_t partial_split_stride, int32_t gqa_group,
                                      int32_t num_kv_splits, float sm_scale) {
  using Tile = PrefillTile<Config>;
  __shared__ ChunkShared<Tile> shared;
  const auto request = PrefillRequest::of(cu_seqlens_q, seq_lens, workgroup_z());
  const int first_row = workgroup_x() * Tile::kRows;
  if (first_row >= request.tokens * gqa_group) return;

  const auto lane = PrefillLane<Tile>::of();
  // What lies behind the last row computes it once more, and writes nothing.
  const int row_number = first_row + wave_index() * 16 + lane_index() % 16;
  const bool exists = row_number < request.tokens * gqa_group;
  const auto row = PrefillRow::of(request, min(row_number, request.tokens * gqa_group - 1), gqa_group, workgroup_y());
  const Scalar* source = q + row.offset(request, q_token_stride, q_head_stride);
  QueryOperands<Tile> query;
#pragma unroll
  for (int step = 0; step < Tile::kSteps; ++step) {
    query.put(step, load<WmmaOperand>(__builtin_assume_aligned(source + 16 * step, 16)), shared.operands, lane);
  }
  auto state = RowState<Tile>::of(sm_scale * kLog2E);
  merge_partials(partials + row.offset(request, partial_token_stride, partial_head_stride), partial_split_stride,
                 splits_in_use<Config::kSplitGranule>(request.context, num_kv_splits), ChunkValues<Scalar>::kScale,
                 state);

  // Tokens of the chunk that every row of the workgroup sees, and that any row of it or of the wave sees.
  const int all_see = first_row / gqa_group + 1;
  const int any_sees = min(request.tokens, (first_row + Tile::kRows - 1) / gqa_group + 1);
  const int wave_row = first_row + wave_index() * 16;
  const int wave_all_see = wave_row / gqa_group + 1;
  const int wave_any_sees = (wave_row + 15) / gqa_group + 1;
  const Scalar* keys = k + request.first_token * k_token_stride + workgroup_y() * k_head_stride;
  const Scalar* chunk_values = v + request.first_token * v_token_stride + workgroup_y() * v_head_stride;
  const Scalar* values = chunk_values;
  const auto chunk_lane = TilePart<Tile>::of();
  ChunkPart part;
  load_part(keys, values, k_token_stride, v_token_stride, request.tokens, chunk_lane, part);
  for (int token = 0; token < any_sees; token += Tile::kTokens) {
    TileBuffer<Tile>& tile = shared.operands.tile;
    workgroup_barrier();
    const bool checked = ChunkValues<Scalar>::kEveryTile || token + Tile::kTokens > all_see;
    if (checked) {
      const bool found = chunk_lane.takes_value && any_outlier<Scalar>(part);
      if (found) remove_outliers<Scalar>(part);
      if (lane_index() == 0) shared.outliers[wave_index()] = found;
    }
    write_part<Scalar>(part, chunk_lane, tile);
    workgroup_barrier();
    if (token + Tile::kTokens < any_sees) {
      keys += Tile::kTokens * k_token_stride;
      values += Tile::kTokens * v_token_stride;
      load_part(keys, values, k_token_stride, v_token_stride, request.tokens - token - Tile::kTokens, chunk_lane, part);
    }
    if (token >= wave_any_sees) continue;
    const int visible = row.token + 1 - token;
    const auto scores = score_tile<Scalar>(tile, shared.operands, query, lane);
    const auto p = probabilities(scores, token + Tile::kTokens > wave_all_see, visible - lane_index() / 16 * 8, state);
    accumulate_tile(tile, p, lane, state);
    if (checked) {
      int found = 0;
#pragma unroll
      for (int w = 0; w < Tile::kWaves; ++w) found |= shared.outliers[w];
      if (uniform(found) != 0) {
        add_outliers(chunk_values + token * v_token_stride, v_token_stride, p, min(visible, request.tokens - token),
                     state);
      }
    }
  }

  const float sum = state.sum + lane_xor<16>(state.sum);
  if (!exists) return;
  const float share = 1.0f / (sum * ChunkValues<Scalar>::kScale);
  Scalar* target = out + row.offset(request, out_token_stride, out_head_stride) + lane_index() / 16 * 8;
#pragma unroll
  for (int n = 0; n < Tile::kSteps; ++n) {
    Scalar rounded[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) rounded[r] = to_output<Scalar>(state.out[n][r] * share);
    __builtin_memcpy(__builtin_assume_aligned(target + 16 * n, 16), rounded, sizeof(rounded));
  }
}

}  // namespace octave
