// decode, wmma tier (gfx1100): both products on the matrix cores, one unpack of K and V for all query rows.
//
// A workgroup of four waves takes tiles of 64 tokens. Scores S = K·Qᵀ: each wave those of 16 tokens, all query rows.
// Outputs Oᵀ = Vᵀ·Pᵀ: each wave those of a quarter of the dims, all tokens; the probabilities pass through LDS, with a
// barrier between. Results of both have the query row in lane % 16. A wave unpacks what it multiplies into its own
// stretch of LDS and reads it back as operands, so that no lane unpacks what another one does.
#pragma once

#include "octave/decode_group.h"
#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/wmma_operand.h"
#include "octave/wmma_score.h"
#include "octave/wmma_softmax.h"
#include "octave/wmma_tile.h"

namespace octave {

template <class Format, class Config, class Scalar>
OCTAVE_DEVICE void decode_wmma(const Scalar* query, const uint8_t* cache, const int32_t* block_table,
                               const int32_t* q_to_req, const int32_t* q_to_klen, const int32_t* group_starts,
                               float* mid_o, const uint32_t* k_signs, int64_t query_token_stride,
                               int64_t query_head_stride, int64_t cache_block_stride, int64_t cache_head_stride,
                               int64_t cache_row_stride, int64_t block_table_stride, int64_t mid_token_stride,
                               int64_t mid_head_stride, int64_t mid_split_stride, int32_t num_queries,
                               int32_t num_groups, int32_t num_requests, int32_t block_size, int32_t num_kv_splits,
                               float sm_scale) {
  using Tile = WmmaTile<Format, Config>;
  __shared__ WmmaShared<Tile> shared;
  const auto [first_query, queries] = query_range<Config>(group_starts, num_groups, num_queries);
  if (queries <= 0) return;
  const int64_t kv_head = workgroup_y();
  const int64_t split = workgroup_z();

  load_query_group<Tile::kQueries>(q_to_req + first_query, q_to_klen + first_query, queries, num_requests,
                                   shared.request, shared.length);
  if (thread_index() < Tile::kColumns * 16) {
    const int q = thread_index() / Config::kGqaGroup;
    const int64_t head = kv_head * Config::kGqaGroup + thread_index() % Config::kGqaGroup;
    const int64_t place = (first_query + q) * mid_token_stride + head * mid_head_stride + split * mid_split_stride;
    shared.partial[thread_index()] = thread_index() < Tile::kRows && q < queries ? place : -1;
  }
  workgroup_barrier();
  const float unit = sm_scale * (kLog2E / Format::kLutOne);
  for (int row = wave_index(); row < Tile::kColumns * 16; row += Tile::kWaves) {
    const int64_t q = first_query + row / Config::kGqaGroup;
    const int64_t head = kv_head * Config::kGqaGroup + row % Config::kGqaGroup;
    const bool attends = row < Tile::kRows && uniform(shared.request[row / Config::kGqaGroup]) >= 0;
    round_row<Format>(attends ? query + q * query_token_stride + head * query_head_stride : nullptr, k_signs, unit,
                      shared, row);
  }
  workgroup_barrier();

  const int lane_row = lane_index() % 16;
  const int half = lane_index() / 16;
  WmmaColumn columns[Tile::kColumns];
  float8 out[Tile::kColumns][Tile::kChunks] = {};
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c)
    columns[c] = {shared.query_scale[16 * c + lane_row], -kInfinity, kInfinity, 0.0f};

  const uint8_t* head_cache = cache + kv_head * cache_head_stride;
  const auto lane = WmmaLane<Format, Tile>::of(static_cast<int>(cache_row_stride));
  auto& own = shared.wave[lane.wave];
  int parity = 0;
  for (int run = 0, next_run = 0; run < Tile::kQueries; run = next_run) {
    const int request = uniform(shared.request[run]);
    int length = 0;
    int shortest = 0x7FFFFFFF;
    for (; next_run < Tile::kQueries && uniform(shared.request[next_run]) == request; ++next_run) {
      length = max(length, uniform(shared.length[next_run]));
      shortest = min(shortest, uniform(shared.length[next_run]));
    }
    const auto [begin, end] = split_range<Config::kSplitGranule>(length, num_kv_splits, split);
    if (begin >= end) continue;

    // Tokens that a lane's rows see, counted from the first of its own in a tile at 0; rows of other runs see none.
    int visible[Tile::kColumns];
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
      const int q = (c * 16 + lane_row) / Config::kGqaGroup;
      const bool in_run = q >= run && q < next_run;
      visible[c] = (in_run ? min(shared.length[min(q, Tile::kQueries - 1)], end) : 0) -
                   (lane.wave * Tile::kWaveTokens + 8 * half);
      columns[c].active = in_run ? columns[c].reference : kInfinity;
    }
    const int32_t* blocks = block_table + request * block_table_stride;
    auto walk = TokenWalk::from(begin, block_size);
    const TokenWalk inside = walk;
    auto pending = PendingPlaces::ask(blocks, walk, inside, end, block_size);
    auto places = pending.wait(lane.wave);
    pending = PendingPlaces::ask(blocks, walk, inside, end, block_size);
    const auto slots_at = [&](int block, int row) {
      return slots_from(head_cache + (block * cache_block_stride + row * cache_row_stride));
    };
    const auto slots_of = [&](int t) { return slots_at(places.block[t], places.row[t]); };
    KeyWords<Format, Tile> keys;
    ValueWords<Format, Tile> values;
#pragma unroll
    for (int b = 0; b < Tile::kBlocks; ++b) load_key(slots_at(places.own_block, places.own_row), lane, b, keys);
    load_value(slots_of, lane, values);
    for (int token = begin; token < end; token += Tile::kTokens) {
      places = pending.wait(lane.wave);
      pending = PendingPlaces::ask(blocks, walk, inside, end, block_size);
      if (half == 0) {
#pragma unroll
        for (int i = 0; i <= Tile::kScales; ++i) own.scale[i][lane_row % 2 * 8 + lane_row / 2] = keys.scale(i);
      }
      float8 scores[Tile::kColumns];
      score_tile(keys, slots_at(places.own_block, places.own_row), lane, shared, scores);
      // No reference is known before the first tile of a run, and in the last one rows see different tokens.
      const bool special = token == begin || token + Tile::kTokens > min(shortest, end);
      float sums[Tile::kColumns];
      if (!special) {
        const float8 value_scale = *reinterpret_cast<const float8*>(&own.scale[Tile::kScales][8 * half]);
        bool large = false;
#pragma unroll
        for (int c = 0; c < Tile::kColumns; ++c) {
          const auto made = weigh(scores[c], value_scale, columns[c]);
          write_weights(shared, parity, c, lane.wave, made);
          sums[c] = made.sum;
          large |= made.large;
        }
        shared.large[parity][lane.wave] = __builtin_amdgcn_ballot_w32(large);
      }
      workgroup_barrier();
      const auto flags = *reinterpret_cast<const uint4*>(shared.large[parity]);
      if (special || uniform((flags[0] | flags[1]) | (flags[2] | flags[3])) != 0) {
        const float8 value_scale = *reinterpret_cast<const float8*>(&own.scale[Tile::kScales][8 * half]);
#pragma unroll
        for (int c = 0; c < Tile::kColumns; ++c) {
          const float largest = largest_power(scores[c], value_scale, columns[c], visible[c] - token);
          shared.exchange[lane.wave][16 * c + lane_row] = __builtin_fmaxf(largest, lane_xor<16>(largest));
        }
        workgroup_barrier();
#pragma unroll
        for (int c = 0; c < Tile::kColumns; ++c) {
          float largest = -kInfinity;
#pragma unroll
          for (int w = 0; w < Tile::kWaves; ++w)
            largest = __builtin_fmaxf(largest, shared.exchange[w][16 * c + lane_row]);
          const float raised = __builtin_fmaxf(columns[c].reference, largest - kReferenceMargin);
          const float rescale = raised == columns[c].reference ? 1.0f : exp2(columns[c].reference - raised);
          columns[c].reference = raised;
          columns[c].active = columns[c].active == kInfinity ? kInfinity : raised;
          columns[c].sum *= rescale;
#pragma unroll
          for (int n = 0; n < Tile::kChunks; ++n) out[c][n] *= rescale;
          const auto made = weigh_seen(scores[c], value_scale, columns[c], visible[c] - token);
          write_weights(shared, parity, c, lane.wave, made);
          sums[c] = made.sum;
        }
        workgroup_barrier();
      }
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) columns[c].sum += sums[c];

#pragma unroll
      for (int n = 0; n < Tile::kChunks; ++n) {
        unpack_value(values, lane, n, own.operand);
        operand_fence();
        if (n == Tile::kChunks - 1) load_value(slots_of, lane, values);
#pragma unroll
        for (int step = 0; step < Tile::kWaves; ++step) {
          const _Float16* place = &own.operand[lane_row][16 * step];
          const half16 operand = read_operand(place, place + 8);
#pragma unroll
          for (int c = 0; c < Tile::kColumns; ++c) {
            out[c][n] = wmma(operand, read_weights(shared, parity, c, step), out[c][n]);
            limit_reads<Tile>(step, c);
          }
        }
        operand_fence();
      }
      parity ^= 1;
    }
  }

  // Each wave has the outputs of its dims; the sums are of its tokens.
  workgroup_barrier();
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c)
    shared.exchange[lane.wave][16 * c + lane_row] = columns[c].sum + lane_xor<16>(columns[c].sum);
  workgroup_barrier();
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) {
    const int row = 16 * c + lane_row;
    if (shared.partial[row] < 0) continue;
    float* partial = mid_o + shared.partial[row];
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int place = 2 * r + half;
      const int dim = lane.wave * Tile::kWaveDims + place / 8 * Tile::kLaneDims + place % 8 * Tile::kChunks;
      // V stands for LUT[code] · scale / kLutOne
#pragma unroll
      for (int n = 0; n < Tile::kChunks; ++n) partial[dim + n] = out[c][n][r] * (1.0f / Format::kLutOne);
    }
    if (thread_index() < 16) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < Tile::kWaves; ++w) total += shared.exchange[w][row];
      partial[Tile::kHeadSize] = total == 0.0f ? -kInfinity : columns[c].reference;
      partial[Tile::kHeadSize + 1] = total;
    }
  }
}

}  // namespace octave
