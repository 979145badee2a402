// decode, mfma tier (gfx942): both products on the matrix cores, one unpack of K and V for all query rows.
//
// A wave takes tiles of 16 tokens. Scores S = K·Qᵀ (v_mfma_i32_16x16x32_i8): K int8 from the codebook, the query as two
// int8 halves of a 16-bit integer. Outputs Oᵀ = Vᵀ·Pᵀ (v_mfma_f32_16x16x16_f16): P in fp16, V as the fp16 denormals
// b·2⁻²⁴ of its biased bytes b. Both results have the query row in lane % 16, so that P needs no exchange of lanes.
#pragma once

#include "octave/decode_group.h"
#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/mfma_output.h"
#include "octave/mfma_score.h"
#include "octave/mfma_tile.h"

namespace octave {

// Where a wave's tiles lie: page and row advance without a division.
struct TileWalk {
  int token;
  int page;
  int row;
  int step_tokens;
  int step_pages;
  int step_rows;
  int block_size;

  static OCTAVE_MEMBER TileWalk from(int token, int step, int block_size) {
    return {token, token / block_size, token % block_size, step, step / block_size, step % block_size, block_size};
  }
  OCTAVE_MEMBER void advance() {
    token += step_tokens;
    page += step_pages;
    row += step_rows;
    if (row >= block_size) {
      row -= block_size;
      ++page;
    }
  }
};

template <class Format, class Config, class Scalar>
OCTAVE_DEVICE void decode_mfma(const Scalar* query, const uint8_t* cache, const int32_t* block_table,
                               const int32_t* q_to_req, const int32_t* q_to_klen, const int32_t* group_starts,
                               float* mid_o, const uint32_t* k_signs, int64_t query_token_stride,
                               int64_t query_head_stride, int64_t cache_block_stride, int64_t cache_head_stride,
                               int64_t cache_row_stride, int64_t block_table_stride, int64_t mid_token_stride,
                               int64_t mid_head_stride, int64_t mid_split_stride, int32_t num_queries,
                               int32_t num_groups, int32_t num_requests, int32_t block_size, int32_t num_kv_splits,
                               float sm_scale) {
  using Tile = MfmaTile<Format, Config>;
  __shared__ MfmaShared<Tile> shared;
  const auto [first_query, queries] = query_range<Config>(group_starts, num_groups, num_queries);
  if (queries <= 0) return;
  const int64_t kv_head = workgroup_y();
  const int64_t split = workgroup_z();

  load_query_group<Tile::kQueries>(q_to_req + first_query, q_to_klen + first_query, queries, num_requests,
                                   shared.request, shared.length);
  workgroup_barrier();
  const float unit = sm_scale * (1.4426950408889634f / Format::kLutOne);
  for (int row = wave_index(); row < Tile::kColumns * Tile::kColumnRows; row += Tile::kWaves) {
    const int64_t q = first_query + row / Config::kGqaGroup;
    const int64_t head = kv_head * Config::kGqaGroup + row % Config::kGqaGroup;
    const bool attends = row < Tile::kRows && uniform(shared.request[row / Config::kGqaGroup]) >= 0;
    quantize_row16<Format>(attends ? query + q * query_token_stride + head * query_head_stride : nullptr, k_signs, unit,
                           shared, row);
  }
  workgroup_barrier();

  const int column_row = Tile::kPaired ? lane_index() % 8 : lane_index() % 16;
  const float pair_weight = lane_index() % 16 < 8 ? 128.0f : 1.0f;
  auto fragments = QueryFragments<Tile>::of(shared, column_row);
  MfmaColumn columns[Tile::kColumns];
  float4 out[Tile::kColumns][Tile::kValueTiles] = {};
  float4 bias[Tile::kColumns] = {};
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) columns[c] = {shared.query_scale[c * 16 + column_row], -kInfinity, 0.0f};

  const uint8_t* head_cache = cache + kv_head * cache_head_stride;
  const auto lane = MfmaLane<Format, Tile>::of(static_cast<int>(cache_row_stride));
  for (int run = 0, next_run = 0; run < Tile::kQueries; run = next_run) {
    const int request = uniform(shared.request[run]);
    int length = 0;
    int shortest = 0x7FFFFFFF;
    for (; next_run < Tile::kQueries && uniform(shared.request[next_run]) == request; ++next_run) {
      length = max(length, uniform(shared.length[next_run]));
      shortest = min(shortest, uniform(shared.length[next_run]));
    }
    // Rows of other runs see nothing of this one.
    if (next_run - run < Tile::kQueries) shortest = 0;
    const auto [begin, end] = split_range<Config::kSplitGranule>(length, num_kv_splits, split);
    if (begin + wave_index() * Tile::kTokens >= end) continue;

    int visible[Tile::kColumns];
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      const int q = (c * 16 + column_row) / Config::kGqaGroup;
      visible[c] = q >= run && q < next_run ? min(shared.length[min(q, Tile::kQueries - 1)], end) : 0;
    }
    const int32_t* blocks = block_table + request * block_table_stride;
    auto walk = TileWalk::from(begin + wave_index() * Tile::kTokens, Tile::kWaves * Tile::kTokens, block_size);
    // The block of a tile is asked for two tiles ahead. Where the loop reads LDS, which answers to the same counter as
    // scalar loads, it comes as a vector load, in front of those of the next tile: they come back in order.
    const auto block_of = [&](const TileWalk& at) {
      if constexpr (decltype(fragments)::kInRegisters) {
        return blocks[at.page];
      } else {
        const auto table = buffer_of(reinterpret_cast<const uint8_t*>(blocks));
        return static_cast<int32_t>(__builtin_amdgcn_raw_buffer_load_b32(table, 0, 4 * at.page, 0));
      }
    };
    const auto address_of = [&](int32_t block, int row) {
      return head_cache + uniform(block) * cache_block_stride + row * cache_row_stride;
    };
    const int row_stride = static_cast<int>(cache_row_stride);
    TileWords<Format, Tile> words;
    const uint8_t* base = address_of(block_of(walk), walk.row);
    int token = walk.token;
    walk.advance();
    int32_t block = walk.token < end ? block_of(walk) : 0;
    load_key(base, row_stride, lane, words);
    // The loop waits for as many loads as are behind K's on either way into it.
    __builtin_amdgcn_sched_barrier(0);
    load_value(base, row_stride, lane, words);
    while (true) {
      const bool last = walk.token >= end;
      const int next_token = walk.token;
      const uint8_t* next = last ? base : address_of(block, walk.row);
      walk.advance();
      if (walk.token < end) block = block_of(walk);
      float4 scores[Tile::kColumns];
      fragments.next_tile(next);
      score_tile(words, lane, fragments, pair_weight, scores);
      load_key(next, row_stride, lane, words);
      const bool partial = token + Tile::kTokens > min(shortest, end);
      half4 weighted[Tile::kColumns];
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        _Float16 scale[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) scale[r] = words.value_scale[r];
        if (partial) {
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const bool seen = token + 4 * (lane_index() / 16) + r < visible[c];
            scores[c][r] = seen ? scores[c][r] : 0.0f;
            scale[r] = seen ? scale[r] : static_cast<_Float16>(0.0f);
          }
        }
        float4 p;
        weighted[c] = probabilities<Tile, false>(scores[c], scale, columns[c], p);
        if (__builtin_amdgcn_ballot_w64(any_large(weighted[c])) != 0) {
          float largest = -kInfinity;
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const bool seen = !partial || token + 4 * (lane_index() / 16) + r < visible[c];
            const float size = __builtin_fmaxf(static_cast<float>(scale[r]), 0x1p-30f);
            float x = scores[c][r] * columns[c].query_scale;
            if (!is_huge(x)) x += __builtin_amdgcn_logf(size);
            largest = seen ? __builtin_fmaxf(largest, x) : largest;
          }
          largest = __builtin_fmaxf(largest, lane_xor<16>(largest));
          largest = __builtin_fmaxf(largest, lane_xor<32>(largest));
          const float raised = __builtin_fmaxf(columns[c].reference, is_huge(largest) ? largest : largest + 8.0f);
          const float rescale = raised == columns[c].reference ? 1.0f : exp2(columns[c].reference - raised);
          columns[c].reference = raised;
          columns[c].sum *= rescale;
          bias[c] *= rescale;
#pragma unroll
          for (int n = 0; n < Tile::kValueTiles; ++n) out[c][n] *= rescale;
          weighted[c] = probabilities<Tile, true>(scores[c], scale, columns[c], p);
        }
        if (partial) {
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const bool seen = token + 4 * (lane_index() / 16) + r < visible[c];
            p[r] = seen ? p[r] : 0.0f;
            weighted[c][r] = seen ? weighted[c][r] : static_cast<_Float16>(0.0f);
          }
        }
        columns[c].sum += (p[0] + p[1]) + (p[2] + p[3]);
      }
      accumulate_tile(words, lane, weighted, out, bias);
      load_value(next, row_stride, lane, words);
      if (last) break;
      base = next;
      token = next_token;
    }
  }

  // Merge of the waves, column by column, one register of the accumulators after the other: each wave leaves its
  // outputs in LDS, by the largest reference of all, and all threads add them up.
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) {
    float sum = columns[c].sum;
    sum += lane_xor<16>(sum);
    sum += lane_xor<32>(sum);
    if (lane_index() < 16) {
      shared.reference[wave_index()][lane_index()] = columns[c].reference;
      shared.sum[wave_index()][lane_index()] = sum;
    }
    workgroup_barrier();
    float reference = -kInfinity;
#pragma unroll
    for (int w = 0; w < Tile::kWaves; ++w)
      reference = __builtin_fmaxf(reference, shared.reference[w][lane_index() % 16]);
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < Tile::kWaves; ++w) {
      const float other = shared.reference[w][lane_index() % 16];
      total =
          __builtin_fmaf(shared.sum[w][lane_index() % 16], other == reference ? 1.0f : exp2(other - reference), total);
    }
    // V stands for LUT[code] · scale / kLutOne
    const float rescale = (columns[c].reference == reference ? 1.0f : exp2(columns[c].reference - reference)) *
                          (0x1p24f / Format::kLutOne);
#pragma unroll
    for (int n = 0; n < Tile::kValueTiles; ++n) out[c][n] = (out[c][n] - bias[c]) * rescale;
    const int first_row = c * 16;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (!Tile::kPaired || lane_index() % 16 < 8) {
#pragma unroll
        for (int n = 0; n < Tile::kValueDims; ++n) {
          shared.merge[wave_index()][column_row][lane_index() / 16 * Tile::kValueDims + n] = out[c][n][r];
        }
      }
      workgroup_barrier();
      for (int i = thread_index(); i < Tile::kColumnRows * Tile::kMergeDims; i += Tile::kThreads) {
        const int row = first_row + i / Tile::kMergeDims;
        const int q = row / Config::kGqaGroup;
        const int place = i % Tile::kMergeDims;
        if (row < Tile::kRows && q < queries) {
          float sum = 0.0f;
#pragma unroll
          for (int w = 0; w < Tile::kWaves; ++w) sum += shared.merge[w][i / Tile::kMergeDims][place];
          const int dim = Tile::kValueDims * (4 * (place / Tile::kValueDims) + r) + place % Tile::kValueDims;
          mid_o[(first_query + q) * mid_token_stride +
                (kv_head * Config::kGqaGroup + row % Config::kGqaGroup) * mid_head_stride + split * mid_split_stride +
                dim] = sum;
        }
      }
      workgroup_barrier();
    }
    const int row = first_row + thread_index();
    if (thread_index() < Tile::kColumnRows && row < Tile::kRows && row / Config::kGqaGroup < queries) {
      const int q = row / Config::kGqaGroup;
      float* partial = mid_o + (first_query + q) * mid_token_stride +
                       (kv_head * Config::kGqaGroup + row % Config::kGqaGroup) * mid_head_stride +
                       split * mid_split_stride + Tile::kHeadSize;
      partial[0] = total == 0.0f ? -kInfinity : reference;
      partial[1] = total;
    }
  }
}

}  // namespace octave
