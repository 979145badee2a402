// The tiles of prefill_prefix's mfma tier: packed slots, scores with the scales of K's blocks, weights with that of V.
#pragma once

#include "octave/prefill_query.h"
#include "octave/prefill_unpack.h"

namespace octave {

// Integer sums start at the bits of 1.5·2²³, so that they are, as they are, floats of that plus the sum: no conversion.
// 256 dims of 127·127 stay within ±2²².
inline constexpr int kFloatBits = 0x4B400000;
inline constexpr float kFloatOffset = 12582912.0f;

template <class Format, class Tile>
struct PrefixSource {
  static constexpr int kBlocks = Tile::kHeadSize / 64;
  static constexpr int kBlocksOfScale = kBlocks / Format::kKBlocks;
  static constexpr int kScoreSteps = Tile::kSubtiles * kBlocks;

  PrefillShared<Format, Tile>& shared;
  PackedUnit<Format, Tile>& packed;
  const PrefillQuery<Tile>& query;
  const uint8_t* head_cache;
  const int32_t* blocks;
  int64_t block_stride;
  int block_size;
  int begin;
  int end;

  // of the wave's next subtile
  int token = 0;
  int page = 0;
  int row = 0;
  int block = 0;
  const uint8_t* key_base = nullptr;
  const uint8_t* value_base = nullptr;
  int4 float_bits = int4(kFloatBits);
  // of the tile in hand
  uint2 dims[2] = {};
  int4 keys[2] = {};
  float4 scale[2] = {};
  int4 sums[Tile::kRowTiles][2] = {};
  float4 scores[Tile::kSubtiles][Tile::kRowTiles] = {};
  float2 added[Tile::kRowTiles] = {};
  float4 value_scale[Tile::kSubtiles] = {};

  OCTAVE_MEMBER void start() {
    token = begin + 16 * (wave_index() / Tile::kSubtileWaves);
    if (token >= end) token = begin;
    page = token / block_size;
    row = token - page * block_size;
    block = blocks[page];
  }
  OCTAVE_MEMBER void look_ahead() {
    if (token + Tile::kTokens < end) {
      token += Tile::kTokens;
      row += Tile::kTokens;
      while (row >= block_size) {
        row -= block_size;
        ++page;
      }
    }
    block = blocks[page];
  }
  OCTAVE_MEMBER void load_keys() {
    value_base = key_base;
    key_base = head_cache + block * block_stride + static_cast<int64_t>(row) * packed.row_stride;
    packed.load_keys(key_base);
  }
  OCTAVE_MEMBER void load_values() { packed.load_values(value_base); }
  OCTAVE_MEMBER void store_keys(int buffer) { packed.store_keys(shared, buffer); }
  OCTAVE_MEMBER void unpack_values(int half) { packed.unpack_values(half, dims); }
  OCTAVE_MEMBER void store_values(int half, int buffer) {
    packed.unit.store(shared.values[buffer], 2 * half, dims[0]);
    packed.unit.store(shared.values[buffer], 2 * half + 1, dims[1]);
  }

  OCTAVE_MEMBER void read(int step, int buffer) {
    if (step >= kScoreSteps) return;
    const int own = 16 * (step / kBlocks) + lane_index() % 16;
    keys[step % 2] = shared.keys[buffer][own][(4 * (step % kBlocks) + lane_index() / 16) ^ (own % 8)];
  }
  // of K's block of dims, V's is behind the last one
  OCTAVE_MEMBER float4 scale_of(int s, int block, int buffer) const {
    return *reinterpret_cast<const float4*>(&shared.scales[buffer][block][16 * s + lane_index() / 16 * 4]);
  }
  OCTAVE_MEMBER void start_scores(int buffer) {
    read(0, buffer);
    scale[0] = scale_of(0, 0, buffer);
  }
  // 64 dims of a subtile
  OCTAVE_MEMBER void score(int step, int buffer) {
    const int s = step / kBlocks;
    const int b = step % kBlocks;
    read(step + 1, buffer);
    if (b == kBlocks - 1) value_scale[s] = scale_of(s, Format::kKBlocks, buffer);
    const int4 key = keys[step % 2];
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int4 before = b % kBlocksOfScale == 0 ? float_bits : sums[i][h];
        sums[i][h] = mfma_i8(key[0], key[1], query.half[i][h][b][0], query.half[i][h][b][1], before);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h)
        sums[i][h] = mfma_i8(key[2], key[3], query.half[i][h][b][2], query.half[i][h][b][3], sums[i][h]);
      // Beside them, the sums that the row tile before this one has complete.
      const int done = i == 0 ? step : step + 1;
      if (done > 0 && done % kBlocksOfScale == 0)
        rescale(done / kBlocksOfScale - 1, (i + Tile::kRowTiles - 1) % Tile::kRowTiles);
      const int run = step / kBlocksOfScale + 1;
      if (i == 0 && b % kBlocksOfScale == 0 && step + kBlocksOfScale < kScoreSteps)
        scale[run % 2] = scale_of(run / Format::kKBlocks, run % Format::kKBlocks, buffer);
    }
  }
  // Adds the dims of one scale of K.
  OCTAVE_MEMBER void rescale(int run, int i) {
    constexpr int kRuns = Format::kKBlocks;
    // 128·high - offset, which is exact
    const float4 high = bit_cast<float4>(sums[i][0]) - (kFloatOffset + kFloatOffset / 128.0f);
    const float4 sum = __builtin_elementwise_fma(high, float4(128.0f), bit_cast<float4>(sums[i][1]));
    float4& score = scores[run / kRuns][i];
    score = run % kRuns == 0 ? scale[run % 2] * sum : __builtin_elementwise_fma(scale[run % 2], sum, score);
  }
  OCTAVE_MEMBER void weigh(int s, int i, int pair, const PrefillState<Tile>& state,
                           PrefillWeights<Tile, _Float16>& weights) {
    if (s == Tile::kSubtiles - 1 && i == Tile::kRowTiles - 1 && pair == 0) rescale(kScoreSteps / kBlocksOfScale - 1, i);
    // Rounded before the reference, which was rounded alike, is taken off: no difference of large ones overflows.
    const float2 both = pair == 0 ? scores[s][i].xy : scores[s][i].zw;
    const float2 power = both * query.scale[i] - state.reference[i];
    const float2 result = {exp2(power.x), exp2(power.y)};
    added[i] = s == 0 && pair == 0 ? result : added[i] + result;
    const float2 product = result * (pair == 0 ? value_scale[s].xy : value_scale[s].zw);
    weights[0][s][i][pair] = bit_cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(product.x, product.y));
  }
  OCTAVE_MEMBER bool unsettled(int t, const PrefillWeights<Tile, _Float16>& weights) const {
    return begin + (t + 1) * Tile::kTokens > end || any_large<Tile, _Float16>(weights);
  }

  OCTAVE_MEMBER void settle(int t, PrefillState<Tile>& state, PrefillWeights<Tile, _Float16>& weights) {
    const int first = begin + t * Tile::kTokens + lane_index() / 16 * 4;
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
      float largest = -kInfinity;
      float4 power[Tile::kSubtiles];
#pragma unroll
      for (int s = 0; s < Tile::kSubtiles; ++s) {
        power[s] = scores[s][i] * query.scale[i];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float weight = power[s][r] + __builtin_amdgcn_logf(__builtin_fmaxf(value_scale[s][r], 0x1p-30f));
          largest = first + 16 * s + r < end ? __builtin_fmaxf(largest, weight) : largest;
        }
      }
      largest = __builtin_fmaxf(largest, lane_xor<16>(largest));
      largest = __builtin_fmaxf(largest, lane_xor<32>(largest));
      state.raise(i, reference_above(largest));
      added[i] = {};
#pragma unroll
      for (int s = 0; s < Tile::kSubtiles; ++s) {
        float4 product;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const bool seen = first + 16 * s + r < end;
          const float p = exp2(power[s][r] - state.reference[i]);
          added[i][r % 2] += seen ? p : 0.0f;
          product[r] = seen ? p * value_scale[s][r] : 0.0f;
        }
        weights[0][s][i][0] = bit_cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(product[0], product[1]));
        weights[0][s][i][1] = bit_cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(product[2], product[3]));
      }
    }
  }

  OCTAVE_MEMBER void check_values(int, int, PrefillState<Tile>&) const {}
};

}  // namespace octave
