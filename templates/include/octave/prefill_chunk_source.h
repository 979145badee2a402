// The tiles of prefill_chunk's mfma tier: K and V of the chunk itself, in the query's dtype, causally.
#pragma once

#include "octave/prefill_mfma.h"

namespace octave {

template <class Tile>
struct ChunkShared {
  // 16-byte chunk c of a token of K lies at chunk c ^ (token % 8), so that neighbouring tokens meet different banks.
  alignas(16) uint4 keys[2][Tile::kTokens][Tile::kHeadSize / 8];
  alignas(16) ValueBuffer<Tile> values[2];
  // NaN for tokens whose V has an Inf or NaN, which V in LDS lacks; of tiles that not all rows see.
  alignas(16) float unfit[2][Tile::kTokens];
};

template <class Scalar>
OCTAVE_DEVICE uint32_t exponent_mask() {
  return is_half<Scalar>() ? 0x7C00u : 0x7F80u;
}

template <class Tile, class Scalar>
struct ChunkSource {
  static constexpr int kDepths = Tile::kHeadSize / 32;
  static constexpr int kScoreSteps = Tile::kSubtiles * kDepths;
  static constexpr int kKeyLoads = Tile::kTokens * Tile::kHeadSize / 8 / Tile::kThreads;
  ChunkShared<Tile>& shared;
  const Scalar* keys;
  const Scalar* values;
  int64_t key_stride;
  int64_t value_stride;
  float unit;
  int visible;  // tokens that the last row sees
  int common;   // tokens that every row sees
  // row lane % 16 of each row tile: dims 32·k + 8·(lane/16) … + 7, and how many tokens it sees
  uint4 query[Tile::kRowTiles][kDepths];
  int limit[Tile::kRowTiles];

  int loaded = 0;  // tiles of K
  uint4 key_words[kKeyLoads] = {};
  uint2 value_words[4] = {};
  // of the tile in hand
  uint4 key[2] = {};
  float4 power[Tile::kSubtiles][Tile::kRowTiles] = {};
  float2 added[Tile::kRowTiles] = {};

  OCTAVE_MEMBER bool seen_by_all(int t) const { return (t + 1) * Tile::kTokens <= common; }
  static OCTAVE_MEMBER int key_token(int e) { return (thread_index() + e * Tile::kThreads) / (Tile::kHeadSize / 8); }
  static OCTAVE_MEMBER int key_chunk() { return thread_index() % (Tile::kHeadSize / 8); }

  OCTAVE_MEMBER void look_ahead() {}
  OCTAVE_MEMBER void unpack_values(int) {}
  OCTAVE_MEMBER void load_keys() {
#pragma unroll
    for (int e = 0; e < kKeyLoads; ++e) {
      const int64_t token = min(loaded * Tile::kTokens + key_token(e), visible - 1);
      key_words[e] = *reinterpret_cast<const uint4*>(keys + token * key_stride + 8 * key_chunk());
    }
    ++loaded;
  }
  OCTAVE_MEMBER void store_keys(int buffer) {
#pragma unroll
    for (int e = 0; e < kKeyLoads; ++e)
      shared.keys[buffer][key_token(e)][key_chunk() ^ (key_token(e) % 8)] = key_words[e];
  }
  OCTAVE_MEMBER void load_values() {
    const auto unit_of_lane = ValueUnit<Tile>::of();
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int own = 16 * unit_of_lane.subtile + 4 * unit_of_lane.group + t;
      const int64_t token = min((loaded - 2) * Tile::kTokens + own, visible - 1);
      value_words[t] = *reinterpret_cast<const uint2*>(values + token * value_stride + 4 * unit_of_lane.quad);
    }
  }
  // The tile is the third last of those whose K was loaded.
  OCTAVE_MEMBER void store_values(int half, int buffer) {
    const auto unit_of_lane = ValueUnit<Tile>::of();
    if (half == 0 && !seen_by_all(loaded - 3)) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        bool fit = true;
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          const uint32_t mask = exponent_mask<Scalar>() << (16 * (d % 2));
          fit = fit && (value_words[t][d / 2] & mask) != mask;
        }
        if (!fit) value_words[t] = uint2{};
        const unsigned long unfit = __builtin_amdgcn_ballot_w64(!fit);
        constexpr int kLanes = Tile::kHeadSize / 4;
        const unsigned long own = ~0ul >> (kWaveSize - kLanes) << (lane_index() / kLanes * kLanes);
        if (lane_index() % kLanes == 0) {
          shared.unfit[buffer][16 * unit_of_lane.subtile + 4 * unit_of_lane.group + t] =
              (unfit & own) == 0 ? 0.0f : __builtin_nanf("");
        }
      }
    }
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      uint2 tokens;
#pragma unroll
      for (int pair = 0; pair < 2; ++pair)
        tokens[pair] = __builtin_amdgcn_perm(value_words[2 * pair + 1][half], value_words[2 * pair][half],
                                             d == 0 ? 0x05040100u : 0x07060302u);
      unit_of_lane.store(shared.values[buffer], 2 * half + d, tokens);
    }
  }

  OCTAVE_MEMBER void read(int step, int buffer) {
    if (step >= kScoreSteps) return;
    const int own = 16 * (step / kDepths) + lane_index() % 16;
    key[step % 2] = shared.keys[buffer][own][(4 * (step % kDepths) + lane_index() / 16) ^ (own % 8)];
  }
  OCTAVE_MEMBER void start_scores(int buffer) { read(0, buffer); }
  // 32 dims of a subtile
  OCTAVE_MEMBER void score(int step, int buffer) {
    const int s = step / kDepths;
    const int k = step % kDepths;
    read(step + 1, buffer);
    const uint4 own = key[step % 2];
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i)
      power[s][i] = mfma_16<Scalar>(own.xy, query[i][k].xy, k == 0 ? float4{} : power[s][i]);
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) power[s][i] = mfma_16<Scalar>(own.zw, query[i][k].zw, power[s][i]);
  }
  OCTAVE_MEMBER void weigh(int s, int i, int pair, const PrefillState<Tile>& state,
                           PrefillWeights<Tile, Scalar>& weights) {
    if (pair == 0) power[s][i] *= unit;
    weigh_power((pair == 0 ? power[s][i].xy : power[s][i].zw) - state.reference[i], s, i, pair, weights);
  }
  OCTAVE_MEMBER bool unsettled(int t, const PrefillWeights<Tile, Scalar>& weights) const {
    return !seen_by_all(t) || any_large<Tile, Scalar>(weights);
  }

  OCTAVE_MEMBER void settle(int t, PrefillState<Tile>& state, PrefillWeights<Tile, Scalar>& weights) {
    const int first = t * Tile::kTokens + lane_index() / 16 * 4;
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
      float largest = -kInfinity;
#pragma unroll
      for (int s = 0; s < Tile::kSubtiles; ++s) {
#pragma unroll
        for (int r = 0; r < 4; ++r)
          largest = first + 16 * s + r < limit[i] ? __builtin_fmaxf(largest, power[s][i][r]) : largest;
      }
      largest = __builtin_fmaxf(largest, lane_xor<16>(largest));
      largest = __builtin_fmaxf(largest, lane_xor<32>(largest));
      state.raise(i, largest + kHeadroom);
#pragma unroll
      for (int s = 0; s < Tile::kSubtiles; ++s) {
        float4 difference;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const bool seen = first + 16 * s + r < limit[i];
          difference[r] = seen ? power[s][i][r] - state.reference[i] : -kInfinity;
        }
        weigh_power(difference.xy, s, i, 0, weights);
        weigh_power(difference.zw, s, i, 1, weights);
      }
    }
  }

  OCTAVE_MEMBER void check_values(int t, int buffer, PrefillState<Tile>& state) const {
    if (t < 0 || seen_by_all(t)) return;
    const int group = lane_index() / 16;
#pragma unroll
    for (int s = 0; s < Tile::kSubtiles; ++s) {
      const float4 unfit = *reinterpret_cast<const float4*>(&shared.unfit[buffer][16 * s + 4 * group]);
#pragma unroll
      for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r)
          state.sum[i].x += t * Tile::kTokens + 16 * s + 4 * group + r < limit[i] ? unfit[r] : 0.0f;
      }
    }
  }

  // 2^difference, packed; what was packed is added, so that sums and outputs agree.
  OCTAVE_MEMBER void weigh_power(float2 difference, int s, int i, int pair, PrefillWeights<Tile, Scalar>& weights) {
    const float first = exp2(difference.x);
    const float second = exp2(difference.y);
    if constexpr (is_half<Scalar>()) {
      const half2 both = {static_cast<_Float16>(first), static_cast<_Float16>(second)};
      weights[0][s][i][pair] = bit_cast<uint32_t>(both);
      add({static_cast<float>(both[0]), static_cast<float>(both[1])}, s, i, pair);
    } else {
      const uint32_t upper[2] = {bit_cast<uint32_t>(first) & 0xFFFF0000u, bit_cast<uint32_t>(second) & 0xFFFF0000u};
      const float lower[2] = {first - bit_cast<float>(upper[0]), second - bit_cast<float>(upper[1])};
      weights[0][s][i][pair] = __builtin_amdgcn_perm(upper[1], upper[0], 0x07060302u);
      weights[1][s][i][pair] =
          __builtin_amdgcn_perm(bit_cast<uint32_t>(lower[1]), bit_cast<uint32_t>(lower[0]), 0x07060302u);
      add({first, second}, s, i, pair);
    }
  }
  OCTAVE_MEMBER void add(float2 p, int s, int i, int pair) { added[i] = s == 0 && pair == 0 ? p : added[i] + p; }
};

}  // namespace octave
