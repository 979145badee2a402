// What both kernels of prefill's mfma tier share: tiles, the softmax of a wave's rows, P·V, and the pipeline.
//
// A workgroup takes 16·kRowTiles query rows for each wave, and tiles of kTokens tokens that all of its waves read from
// LDS. Scores S = K·Qᵀ have the row in lane % 16 and tokens 4·(lane/16) + r of a subtile of 16; Oᵀ = Vᵀ·Pᵀ takes P just
// so.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/prefill_rows.h"

namespace octave {

using short4 = short __attribute__((ext_vector_type(4)));

template <class Config>
struct PrefillTile {
  static constexpr int kHeadSize = Config::kHeadSize;
  static constexpr int kWaves = Config::kWaves;
  static constexpr int kThreads = kWaves * kWaveSize;
  static constexpr int kRowTiles = Config::kRowTiles;
  static constexpr int kWaveRows = 16 * kRowTiles;
  static constexpr int kRows = kWaves * kWaveRows;
  // As many tokens as make one unit of K (16 dims) and one of V (4 tokens × 4 dims) for each thread.
  static constexpr int kSubtiles = kWaves * 64 / kHeadSize;
  static constexpr int kTokens = 16 * kSubtiles;
  // Waves that bring in one subtile together.
  static constexpr int kSubtileWaves = kWaves / kSubtiles;
  static constexpr int kOutTiles = kHeadSize / 16;
  static constexpr int kSplitGranule = Config::kSplitGranule;
};

// V in LDS: fp16 or bf16 of four tokens side by side. Slot s of a head holds dim 4·(s % (head/4)) + s / (head/4), so
// that lanes which hold neighbouring quads of dims write neighbouring slots.
template <class Tile>
using ValueBuffer = uint2[Tile::kSubtiles * 4][Tile::kHeadSize];

// Which of a subtile's V a thread brings in.
template <class Tile>
struct ValueUnit {
  int subtile;
  int group;
  int quad;

  static OCTAVE_MEMBER ValueUnit of() {
    const int unit = wave_index() % Tile::kSubtileWaves * kWaveSize + lane_index();
    return {wave_index() / Tile::kSubtileWaves, unit / (Tile::kHeadSize / 4), unit % (Tile::kHeadSize / 4)};
  }
  // dim 4·quad + j of four tokens
  OCTAVE_MEMBER void store(ValueBuffer<Tile>& buffer, int j, uint2 tokens) const {
    buffer[4 * subtile + group][j * (Tile::kHeadSize / 4) + quad] = tokens;
  }
};

// The softmax of a wave's rows, one of each row tile in a lane: p = 2^(score - reference). The reference follows the
// largest weight lazily; `sum` is a lane's part of the row's.
template <class Tile>
struct PrefillState {
  float reference[Tile::kRowTiles];
  float2 sum[Tile::kRowTiles];
  float4 out[Tile::kRowTiles][Tile::kOutTiles];

  static OCTAVE_MEMBER PrefillState empty() {
    PrefillState self = {};
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) self.reference[i] = -kInfinity;
    return self;
  }
  // The dims of out[i][n][r], which are four neighbours 4·r + j for n = j·(head/64) + m.
  static OCTAVE_MEMBER int first_dim(int m, int r) { return 64 * m + lane_index() / 16 * 16 + 4 * r; }
  OCTAVE_MEMBER float4 dims(int i, int m, int r) const {
    constexpr int kStep = Tile::kHeadSize / 64;
    return {out[i][m][r], out[i][kStep + m][r], out[i][2 * kStep + m][r], out[i][3 * kStep + m][r]};
  }
  OCTAVE_MEMBER void raise(int i, float reference_to) {
    const float raised = __builtin_fmaxf(reference[i], reference_to);
    const float rescale = raised == reference[i] ? 1.0f : exp2(reference[i] - raised);
    reference[i] = raised;
    sum[i] *= rescale;
#pragma unroll
    for (int n = 0; n < Tile::kOutTiles; ++n) out[i][n] *= rescale;
  }
  // A row's sum, in all of its lanes.
  OCTAVE_MEMBER float total(int i) const {
    const float own = sum[i].x + sum[i].y;
    const float half = own + lane_xor<16>(own);
    return half + lane_xor<32>(half);
  }
};

// The references are raised to this far above the largest weight, so that they need not be again for a while.
inline constexpr float kHeadroom = 8.0f;

// The reference for this largest weight: where kHeadroom is rounded up, to 16, weights would be denormals; then none.
OCTAVE_DEVICE float reference_above(float largest) {
  const float raised = largest + kHeadroom;
  return raised - largest > kHeadroom ? largest : raised;
}

// Weights of one tile, packed: tokens 4·(lane/16) + 0…3 of each subtile. A bf16 has too few bits for one: what it
// leaves over is a second one.
template <class Number>
inline constexpr int kWeightParts = is_half<Number>() ? 1 : 2;

template <class Tile, class Number>
using PrefillWeights = uint2[kWeightParts<Number>][Tile::kSubtiles][Tile::kRowTiles];

// Whether a weight is 2 or more, Inf or NaN: bit 14 of an fp16 and of a bf16.
template <class Tile, class Number>
OCTAVE_DEVICE bool any_large(const PrefillWeights<Tile, Number>& weights) {
  uint32_t bits = 0;
#pragma unroll
  for (int s = 0; s < Tile::kSubtiles; ++s) {
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) bits |= weights[0][s][i][0] | weights[0][s][i][1];
  }
  return __builtin_amdgcn_ballot_w64((bits & 0x40004000u) != 0) != 0;
}

// Puts an operand of matrix instructions into an AGPR, for them to read it there: left alone, the compiler copies what
// does not fit into the VGPRs back and forth.
template <class Tile>
OCTAVE_DEVICE uint32_t in_agpr(uint32_t value) {
  if constexpr (Tile::kHeadSize > 128) asm("" : "+a"(value));
  return value;
}

// Dot products of 16 (fp16, bf16) dims or tokens.
template <class Number>
OCTAVE_DEVICE float4 mfma_16(uint2 a, uint2 b, float4 c) {
  if constexpr (is_half<Number>()) {
    return __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<half4>(a), bit_cast<half4>(b), c, 0, 0, 0);
  } else {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<short4>(a), bit_cast<short4>(b), c, 0, 0, 0);
  }
}

// P·V of a tile, one tile of 16 dims after the other.
template <class Tile, class Number>
struct ValueReader {
  // Reads run so far ahead of the matrix instructions that LDS has time for them.
  static constexpr int kAhead = 4 / Tile::kSubtiles;
  const uint2* lane;
  uint2 operands[kAhead + 1][Tile::kSubtiles];

  static OCTAVE_MEMBER ValueReader of(const ValueBuffer<Tile>& values) {
    ValueReader self;
    self.lane = &values[lane_index() / 16][lane_index() % 16];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) self.read(n);
    return self;
  }
  OCTAVE_MEMBER void read(int n) {
    if (n >= Tile::kOutTiles) return;
#pragma unroll
    for (int s = 0; s < Tile::kSubtiles; ++s) operands[n % (kAhead + 1)][s] = lane[4 * s * Tile::kHeadSize + 16 * n];
  }
  OCTAVE_MEMBER void accumulate(int n, const PrefillWeights<Tile, Number>& weights, PrefillState<Tile>& state) {
    read(n + kAhead);
#pragma unroll
    for (int s = 0; s < Tile::kSubtiles; ++s) {
#pragma unroll
      for (int part = 0; part < kWeightParts<Number>; ++part) {
#pragma unroll
        for (int i = 0; i < Tile::kRowTiles; ++i)
          state.out[i][n] = mfma_16<Number>(operands[n % (kAhead + 1)][s], weights[part][s][i], state.out[i][n]);
      }
    }
  }
};

// The pipeline over a workgroup's tiles. While tile t is scored, its V and K of tile t+1 are unpacked to LDS; while P·V
// of tile t-1 runs, its weights are made. What comes after them is on its way from memory. Nothing but the operands of
// its first matrix instructions is waited for after a barrier, and beside them there is K to unpack. What is written
// between two schedule barriers runs side by side, matrix instructions beside vector arithmetic. Source brings in tiles
// and scores them:
//   look_ahead()                  where the next tile is; behind the last one, any that exists
//   load_keys()                   of it, from memory
//   load_values()                 of the tile before the one whose keys were loaded last
//   store_keys(b)                 what was loaded, into buffer b
//   unpack_values(half)           dims 2·half and 2·half + 1 of each quad
//   store_values(half, b)         the same, into buffer b
//   start_scores(b)               of the tile in buffer b; then kScoreSteps times score(step, b)
//   weigh(s, i, pair, …)          weights of two tokens of a subtile and row tile; `added` are their sums
//   unsettled(t, weights)         whether they are not yet right
//   settle(t, state, weights)     makes them and `added` so: references and masks
//   check_values(t, b, state)     once V of tile t is in buffer b, and its weights are in the sums
template <class Tile, class Number, class Source>
OCTAVE_DEVICE void attend(Source& source, ValueBuffer<Tile> (&values)[2], PrefillState<Tile>& state, int tiles) {
  PrefillWeights<Tile, Number> weights = {};
  source.load_keys();
  source.store_keys(0);
  source.look_ahead();
  source.load_keys();
  schedule_barrier();
  source.load_values();
#pragma unroll
  for (int j = 0; j < 4; ++j) ValueUnit<Tile>::of().store(values[1], j, uint2{});
  workgroup_barrier();
  for (int t = 0; t < tiles; ++t) {
    const int buffer = t % 2;
    source.start_scores(buffer);
    schedule_barrier();
    source.look_ahead();
    source.store_keys(1 - buffer);
    source.unpack_values(0);
    schedule_barrier();
    source.load_keys();
    schedule_barrier();
    source.store_values(0, buffer);
    ValueReader<Tile, Number> reader;
#pragma unroll
    for (int step = 0; step < Source::kScoreSteps; ++step) {
      schedule_barrier();
      if (step == Source::kScoreSteps - 1) reader = ValueReader<Tile, Number>::of(values[1 - buffer]);
      source.score(step, buffer);
      if (step == Source::kScoreSteps / 4) {
        source.unpack_values(1);
        source.store_values(1, buffer);
        source.load_values();
      }
    }
    PrefillWeights<Tile, Number> next;
    constexpr int kPairs = Tile::kSubtiles * Tile::kRowTiles * 2;
#pragma unroll
    for (int n = 0; n < Tile::kOutTiles; ++n) {
      schedule_barrier();
      reader.accumulate(n, weights, state);
      if (n * kPairs % Tile::kOutTiles == 0) {
        const int pair = n * kPairs / Tile::kOutTiles;
        source.weigh(pair / 2 / Tile::kRowTiles, pair / 2 % Tile::kRowTiles, pair % 2, state, next);
      }
    }
    schedule_barrier();
    source.check_values(t - 1, 1 - buffer, state);
    if (source.unsettled(t, next)) source.settle(t, state, next);
    __builtin_memcpy(weights, next, sizeof(weights));
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) state.sum[i] += source.added[i];
    workgroup_barrier();
  }
  auto reader = ValueReader<Tile, Number>::of(values[(tiles - 1) % 2]);
#pragma unroll
  for (int n = 0; n < Tile::kOutTiles; ++n) reader.accumulate(n, weights, state);
  source.check_values(tiles - 1, (tiles - 1) % 2, state);
}

}  // namespace octave
