// prefill_prefix, mfma tier (gfx942): partials of a chunk's query rows over one split of their packed prefix.
//
// The query is two int8 halves of a 16-bit integer in registers; scores are v_mfma_i32_16x16x32_i8 on K as int8, with
// the scale of each block of K; P·V is v_mfma_f32_16x16x16_f16 on V as fp16 numbers from the codebook.
#pragma once

#include "octave/mfma_score.h"
#include "octave/prefill_unpack.h"

namespace octave {

// The operand of a wave's rows: row lane % 16 of each row tile, dims 64·b + 16·(lane/16) … + 15.
template <class Tile>
struct PrefillQuery {
  static constexpr int kBlocks = Tile::kHeadSize / 64;
  int4 half[Tile::kRowTiles][2][kBlocks];
  float scale[Tile::kRowTiles];

  template <class Scalar>
  OCTAVE_MEMBER void load(int i, const Scalar* row, float unit) {
    using Eight = Scalar __attribute__((ext_vector_type(8)));
    Eight raw[kBlocks][2] = {};
    if (row != nullptr) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          raw[b][e] = *reinterpret_cast<const Eight*>(row + 64 * b + lane_index() / 16 * 16 + 8 * e);
      }
    }
    // As integers, so that a NaN is larger than all numbers and does not get lost between finite ones.
    uint32_t bits = 0;
#pragma unroll
    for (int d = 0; d < 16 * kBlocks; ++d) {
      const float x = static_cast<float>(raw[d / 16][d / 8 % 2][d % 8]);
      bits = MaxBits{}(bits, bit_cast<uint32_t>(__builtin_fabsf(x)));
    }
    bits = MaxBits{}(bits, lane_xor<16>(bits));
    bits = MaxBits{}(bits, lane_xor<32>(bits));
    const float largest = bit_cast<float>(bits);
    constexpr float kRange = 127.0f * 128.0f;
    const bool finite = largest < kInfinity;
    const bool used = finite && largest >= kQueryFloor;
    const float inverse = used ? kRange / largest : 0.0f;
    if (!used) __builtin_memset(raw, 0, sizeof(raw));
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) {
        uint32_t high = 0;
        uint32_t low = 0;
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          const float x = static_cast<float>(raw[b][quad / 2][quad % 2 * 4 + d]);
          const int code = static_cast<int>(__builtin_rintf(x * inverse));
          const int upper = (code + 64) >> 7;
          high |= (static_cast<uint32_t>(upper) & 0xFFu) << (8 * d);
          low |= (static_cast<uint32_t>(code - upper * 128) & 0xFFu) << (8 * d);
        }
        half[i][0][b][quad] = static_cast<int>(in_agpr<Tile>(high));
        half[i][1][b][quad] = static_cast<int>(in_agpr<Tile>(low));
      }
    }
    scale[i] = used ? largest / kRange * unit : finite ? 0.0f : __builtin_nanf("");
  }
};

// Integer sums start at the bits of 1.5·2²³, so that they are, as they are, floats of that plus the sum: no conversion.
// 256 dims of 127·127 stay within ±2²².
inline constexpr int kFloatBits = 0x4B400000;
inline constexpr float kFloatOffset = 12582912.0f;

// Weights are cut off to fp16, which takes 2⁻¹⁰ · 0.25/ln 2 of them on average.
inline constexpr float kTruncation = 1.0f + 0x1p-10f * 0.36067376f;

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
  const uint8_t* base = nullptr;
  int4 float_bits = int4(kFloatBits);
  // of the tile in hand
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
  OCTAVE_MEMBER void load_keys() {
    base = head_cache + block * block_stride + static_cast<int64_t>(row) * packed.row_stride;
    packed.load_keys(base);
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
  OCTAVE_MEMBER void load_values() { packed.load_values(base); }
  OCTAVE_MEMBER void store_keys(int buffer) { packed.store_keys(shared, buffer); }
  OCTAVE_MEMBER void store_values(int half, int buffer) { packed.store_values(shared, half, buffer); }

  OCTAVE_MEMBER void read(int step, int buffer) {
    if (step >= kScoreSteps) return;
    const int own = 16 * (step / kBlocks) + lane_index() % 16;
    keys[step % 2] = shared.keys[buffer][own][(4 * (step % kBlocks) + lane_index() / 16) ^ (own % 8)];
  }
  // of K's block of dims, V's is behind the last one
  OCTAVE_MEMBER float4 scale_of(int s, int block, int buffer) const {
    return *reinterpret_cast<const float4*>(&shared.scales[buffer][block][16 * s + lane_index() / 16 * 4]);
  }
  OCTAVE_MEMBER void start_scores(int buffer) { read(0, buffer); }
  // 64 dims of a subtile
  OCTAVE_MEMBER void score(int step, int buffer) {
    const int s = step / kBlocks;
    const int b = step % kBlocks;
    read(step + 1, buffer);
    if (b % kBlocksOfScale == 0) scale[step / kBlocksOfScale % 2] = scale_of(s, b / kBlocksOfScale, buffer);
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
      state.raise(i, largest + kHeadroom);
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

  const float unit = sm_scale * (1.4426950408889634f / Format::kLutOne);
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
