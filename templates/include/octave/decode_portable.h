// decode, portable tier: int8 query, dot4 on the packed K, fp32 probabilities and outputs.
//
// A workgroup takes one query group, one kv head and one KV split; its rows are the query heads of all query tokens of
// the group. Per tile of tokens: addresses, scores (an aligned group of lanes per token), softmax (a wave per row),
// outputs (a group of lanes per token, each lane a few dims of all rows), with a barrier between them.
#pragma once

#include "octave/decode_group.h"
#include "octave/device.h"
#include "octave/portable_output.h"
#include "octave/portable_score.h"
#include "octave/portable_tile.h"

namespace octave {

template <class Format, class Config, class Scalar>
OCTAVE_DEVICE void decode(const Scalar* query, const uint8_t* cache, const int32_t* block_table,
                          const int32_t* q_to_req, const int32_t* q_to_klen, const int32_t* group_starts, float* mid_o,
                          const uint32_t* k_signs, int64_t query_token_stride, int64_t query_head_stride,
                          int64_t cache_block_stride, int64_t cache_head_stride, int64_t cache_row_stride,
                          int64_t block_table_stride, int64_t mid_token_stride, int64_t mid_head_stride,
                          int64_t mid_split_stride, int32_t num_queries, int32_t num_groups, int32_t num_requests,
                          int32_t block_size, int32_t num_kv_splits, float sm_scale) {
  using Tile = DecodeTile<Format, Config>;
  __shared__ DecodeShared<Tile> shared;
  const auto [first_query, queries] = query_range<Config>(group_starts, num_groups, num_queries);
  if (queries <= 0) return;
  const int64_t kv_head = workgroup_y();
  const int64_t split = workgroup_z();

  load_query_group<Tile::kQueries>(q_to_req + first_query, q_to_klen + first_query, queries, num_requests,
                                   shared.request, shared.length);
  for (int row = thread_index(); row < Tile::kRowStride; row += Tile::kThreads) {
    shared.maximum[row] = -kInfinity;
    shared.sum[row] = 0.0f;
    shared.rescale[row] = 1.0f;
  }
  workgroup_barrier();

  // Scores are in log2 units; a stored K value is LUT[code] · scale / kLutOne.
  const float unit = sm_scale * (kLog2E / Format::kLutOne);
  for (int row = wave_index(); row < Tile::kRows; row += Tile::kWaves) {
    const int64_t q = first_query + row / Config::kGqaGroup;
    const int64_t head = kv_head * Config::kGqaGroup + row % Config::kGqaGroup;
    const bool attends = uniform(shared.request[row / Config::kGqaGroup]) >= 0;
    quantize_query_row<Format>(attends ? query + q * query_token_stride + head * query_head_stride : nullptr, k_signs,
                               unit, shared, row);
  }

  Pair out[Tile::kRows][Tile::kValueDims / 2] = {};
  const uint8_t* head_cache = cache + kv_head * cache_head_stride;

  // Consecutive query tokens of one request share each read of K and V; normally the group is one such run.
  for (int run = 0, next_run = 0; run < Tile::kQueries; run = next_run) {
    const int request = uniform(shared.request[run]);
    int length = 0;
    for (; next_run < Tile::kQueries && uniform(shared.request[next_run]) == request; ++next_run) {
      length = max(length, uniform(shared.length[next_run]));
    }
    const auto [begin, end] = split_range<Config::kSplitGranule>(length, num_kv_splits, split);

    for (int tile = begin; tile < end; tile += Tile::kTokens) {
      const int count = min(Tile::kTokens, end - tile);
      workgroup_barrier();
      locate_tile<Format>(head_cache, block_table + request * block_table_stride, cache_block_stride, cache_row_stride,
                          block_size, tile, count, shared);
      workgroup_barrier();
      score_tile<Format>(head_cache, shared);
      workgroup_barrier();
      for (int row = wave_index(); row < Tile::kRows; row += Tile::kWaves) {
        const int q = row / Config::kGqaGroup;
        const bool in_run = q >= run && q < next_run;
        softmax_row(in_run ? uniform(shared.length[q]) - tile : 0, count, shared, row);
      }
      workgroup_barrier();
      accumulate_tile<Format>(head_cache, count, shared, out);
    }
  }
  write_partials<Tile, Config>(
      mid_o + first_query * mid_token_stride + kv_head * Config::kGqaGroup * mid_head_stride + split * mid_split_stride,
      mid_token_stride, mid_head_stride, queries, shared, out);
}

}  // namespace octave
