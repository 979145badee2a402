// decode, mfma tier (gfx942): both products on the matrix cores, one unpack of K and V for all query rows.
//
// A wave takes tiles of 16 tokens. Scores S = K·Qᵀ (v_mfma_i32_16x16x32_i8): K int8 from the codebook, the query as two
// int8 halves of a 16-bit integer. Outputs Oᵀ = Vᵀ·Pᵀ (v_mfma_f32_16x16x16_f16): P in fp16, V as the fp16 denormals
// b·2⁻²⁴ of its biased bytes b. Both results have the query row in lane % 16, so that P needs no exchange of lanes.
#pragma once

#include "octave/decode_group.h"
#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/mfma_merge.h"
#include "octave/mfma_output.h"
#include "octave/mfma_query.h"
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
    const auto size = static_cast<uint32_t>(block_size);
    const uint32_t page = token / size;
    const uint32_t step_pages = step / size;
    return {token,     static_cast<int>(page),       static_cast<int>(token - page * size),
            step,      static_cast<int>(step_pages), static_cast<int>(step - step_pages * size),
            block_size};
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

// The first of a lane's four tokens of a tile. Opaque, or the compiler would compare for all tiles at once what few of
// them need.
OCTAVE_DEVICE int first_token(int token) {
  asm("" : "+s"(token));
  return token + 4 * (lane_index() / 16);
}

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
  num_queries = together(num_queries, query_token_stride, query_head_stride, cache_block_stride, cache_head_stride,
                         cache_row_stride, block_table_stride, mid_token_stride, mid_head_stride, mid_split_stride);
  const auto [first_query, queries] = query_range<Config>(group_starts, num_groups, num_queries);
  if (queries <= 0) return;
  const int64_t kv_head = workgroup_y();
  const int64_t split = workgroup_z();

  // Read instead of what is not there, so that no branch is needed.
  const int32_t* somewhere = q_to_req + first_query;
  auto group = QueryGroup<Tile::kQueries>::from(q_to_req + first_query, q_to_klen + first_query, queries);
  schedule_barrier();
  MfmaQueryRows<Format, Config, Scalar> rows;
  rows.load_from(query + first_query * query_token_stride + kv_head * Config::kGqaGroup * query_head_stride, k_signs,
                 queries * Config::kGqaGroup, query_token_stride, query_head_stride);
  const uint8_t* head_cache = cache + kv_head * cache_head_stride;
  const int row_stride = static_cast<int>(cache_row_stride);
  auto lane = MfmaLane<Format, Tile>::of(row_stride);
  schedule_barrier();
  const uint32_t attending = group.settle(queries, num_requests);
  group.put(shared.request, shared.length);

  // The wave's first tile of a run, and the block of its next one. Where there is none, its loads give zeros.
  QueryRun run = group.run_from(0);
  const int32_t* blocks = nullptr;
  TileWalk walk;
  int token = 0;
  int end = 0;
  int row = 0;
  int32_t first_block = 0;
  int32_t block = 0;
  const uint8_t* base = nullptr;
  TileWords<Format, Tile> words;
  // Scalar loads answer to the counter of LDS, which rotations of more than 16 lanes wait for.
  constexpr bool kScalarFirst =
      QueryFragments<Tile>::kInRegisters && Format::kKBlockSize <= 16 * kElements<Tile::kHeadSize>;
  const auto vector_block = [&](int page, bool there) {
    const auto table = buffer_of(reinterpret_cast<const uint8_t*>(blocks), there);
    return static_cast<int32_t>(__builtin_amdgcn_raw_buffer_load_b32(table, 0, 4 * page, 0));
  };
  const auto address_of = [&](int32_t block, int row) {
    return head_cache + uniform(block) * cache_block_stride + row * cache_row_stride;
  };
  const auto open_run = [&] {
    const auto range = split_range<Config::kSplitGranule>(run.length, num_kv_splits, split);
    end = range.end;
    token = range.begin + wave_index() * Tile::kTokens;
    blocks = block_table + run.request * block_table_stride;
    walk = TileWalk::from(token, Tile::kWaves * Tile::kTokens, block_size);
    const int page = walk.page;
    row = walk.row;
    walk.advance();
    if constexpr (kScalarFirst) {
      first_block = *(token < end ? blocks + page : somewhere);
      block = *(walk.token < end ? blocks + walk.page : somewhere);
    } else {
      first_block = vector_block(page, token < end);
      block = vector_block(walk.page, walk.token < end);
    }
  };
  const auto load_first = [&] {
    base = address_of(first_block, row);
    if constexpr (QueryFragments<Tile>::kInRegisters) block = uniform(block);
    load_key(base, row_stride, lane, words, token < end);
    // The loop waits for as many loads as are behind K's on either way into it.
    schedule_barrier();
    load_value(base, row_stride, lane, words, token < end);
  };
  open_run();
  schedule_barrier();
  const float unit = sm_scale * (kLog2E / (Format::kLutOne * kQueryRange));
  constexpr int kOwn = decltype(rows)::kOwn;
  constexpr int kBefore = max(1, min(2, kOwn / 2));
  rows.template quantize<0, kBefore>(attending, unit, shared);
  schedule_barrier();
  load_first();
  schedule_barrier();
  if constexpr (kBefore < kOwn) rows.template quantize<kBefore, kOwn - kBefore>(attending, unit, shared);
  workgroup_barrier();

  const int column_row = Tile::kPaired ? lane_index() % 8 : lane_index() % 16;
  const float pair_weight = lane_index() % 16 < 8 ? 128.0f : 1.0f;
  auto fragments = QueryFragments<Tile>::of(shared, column_row);
  MfmaColumn columns[Tile::kColumns];
  float4 out[Tile::kColumns][Tile::kValueTiles];
  float4 bias[Tile::kColumns];
  // Not a constant, which the compiler would write on the way to the loop and again on its entry.
  float zero = 0.0f;
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) {
    columns[c] = {shared.query_scale[c * 16 + column_row], -kInfinity, 0.0f};
    bias[c] = zero;
#pragma unroll
    for (int n = 0; n < Tile::kValueTiles; ++n) out[c][n] = zero;
  }

  while (true) {
    int visible[Tile::kColumns];
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      const int q = (c * 16 + column_row) / Config::kGqaGroup;
      visible[c] = q >= run.first && q < run.next ? min(shared.length[min(q, Tile::kQueries - 1)], end) : 0;
    }
    // The block of a tile is asked for two tiles ahead. Where the loop reads LDS, which answers to the same counter as
    // scalar loads, it comes as a vector load, in front of those of the next tile: they come back in order.
    const auto block_of = [&](const TileWalk& at) {
      if constexpr (QueryFragments<Tile>::kInRegisters) {
        return blocks[at.page];
      } else {
        return vector_block(at.page, true);
      }
    };
    if (token < end)
      while (true) {
        const bool last = walk.token >= end;
        const int next_token = walk.token;
        const uint8_t* next = last ? base : address_of(block, walk.row);
        walk.advance();
        if (walk.token < end) block = block_of(walk);
        float4 scores[Tile::kColumns];
        fragments.next_tile(next);
        lane.next_tile(next);
        score_tile(words, lane, fragments, pair_weight, scores);
        load_key(next, row_stride, lane, words);
        const bool partial = token + Tile::kTokens > min(run.shortest, end);
        uint2 weighted[Tile::kColumns];
#pragma unroll
        for (int c = 0; c < Tile::kColumns; ++c) {
          uint32_t scale[4];
#pragma unroll
          for (int r = 0; r < 4; ++r)
            scale[r] = c > 0 ? after(words.value_scale[r], scores[c][r]) : words.value_scale[r];
          if (partial) {
            const int first = first_token(token);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
              const bool seen = first + r < visible[c];
              scores[c][r] = seen ? scores[c][r] : 0.0f;
              scale[r] = seen ? scale[r] : 0;
            }
          }
          float4 p;
          weighted[c] = probabilities<Tile, false>(scores[c], scale, columns[c], p);
          if (__builtin_amdgcn_ballot_w64(any_large(weighted[c])) != 0) {
            const int first = first_token(token);
            float largest = -kInfinity;
#pragma unroll
            for (int r = 0; r < 4; ++r) {
              const bool seen = !partial || first + r < visible[c];
              const float size = __builtin_fmaxf(half_of(scale[r]), 0x1p-30f);
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
            const int first = first_token(token);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
              const bool seen = first + r < visible[c];
              p[r] = seen ? p[r] : 0.0f;
              weighted[c][r / 2] &= seen ? 0xFFFFFFFFu : 0xFFFF0000u >> (16 * (r % 2));
            }
          }
          const float2 pairs = float2{p[0], p[2]} + float2{p[1], p[3]};
          columns[c].sum += pairs[0] + pairs[1];
        }
        accumulate_tile(words, lane, weighted, out, bias);
        load_value(next, row_stride, lane, words);
        if (last) break;
        base = next;
        token = next_token;
      }
    if (run.next >= Tile::kQueries) break;
    run = QueryGroup<Tile::kQueries>::from(shared.request, shared.length).run_from(run.next);
    open_run();
    load_first();
  }

  float* partials =
      mid_o + first_query * mid_token_stride + kv_head * Config::kGqaGroup * mid_head_stride + split * mid_split_stride;
  // V stands for LUT[code] · scale / kLutOne
  merge_waves<Tile, Config::kGqaGroup>(shared, columns, out, bias, 0x1p24f / Format::kLutOne, queries,
                                       {partials, mid_token_stride, mid_head_stride}, [&] { words.hold(); });
}

}  // namespace octave
