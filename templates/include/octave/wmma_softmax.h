// Probabilities of decode's wmma tier, and their way through LDS.
#pragma once

#include "octave/lanes.h"
#include "octave/wmma_operand.h"

namespace octave {

// Running softmax of a query row: p = 2^(score - reference). The reference follows the largest p·scale of V lazily, so
// that it stays below 2^15, and is 2^7 after each step; smaller ones keep all bits down to 2^-14.
struct WmmaColumn {
  float query_scale;
  float reference;
  // The reference while tokens of the row's request are looked at, else infinity, which makes each p 0.
  float active;
  float sum;
};

inline constexpr float kLargestWeight = 0x1p15f;
inline constexpr float kReferenceMargin = 7.0f;
inline constexpr float kLargestPower = 64.0f;

// Comparisons with `seen` before and behind this have masks of their own, which so need not stay in scalar registers;
// and what is behind this starts when what is before it has ended.
OCTAVE_DEVICE void keep_apart(int& seen) {
  __builtin_amdgcn_sched_barrier(0);
  asm("" : "+v"(seen));
}

// p·scale of V of a lane's eight tokens, and the sum of p.
struct Weights {
  _Float16 weight[8];
  float sum;
  // Whether a weight is kLargestWeight or more, or NaN.
  bool large;
};

OCTAVE_DEVICE Weights weigh(const float8& scores, const float8& value_scale, const WmmaColumn& column) {
  Weights made;
  uint32_t largest = 0;
  float p[8];
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    p[r] = exp2(scores[r] * column.query_scale - column.active);
    const float weight = p[r] * value_scale[r];
    largest = MaxBits{}(largest, bit_cast<uint32_t>(weight));
    made.weight[r] = static_cast<_Float16>(weight);
  }
  made.sum = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
  made.large = largest >= bit_cast<uint32_t>(kLargestWeight);
  return made;
}

// The same where only the first `seen` tokens count. The reference is rounded; where scores are so large that this
// matters, the results are kept finite.
OCTAVE_DEVICE Weights weigh_seen(const float8& scores, const float8& value_scale, const WmmaColumn& column, int seen) {
  keep_apart(seen);
  Weights made;
  made.sum = 0.0f;
  made.large = false;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    float power = scores[r] * column.query_scale - column.reference;
    if (power > kLargestPower) power = kLargestPower;
    const float p = exp2(power);
    float weight = p * value_scale[r];
    if (weight > kLargestHalf) weight = kLargestHalf;
    made.sum += r < seen ? p : 0.0f;
    made.weight[r] = static_cast<_Float16>(r < seen ? weight : 0.0f);
  }
  return made;
}

// The largest score + log2 of the scale of V, of the first `seen` of the lane's tokens.
OCTAVE_DEVICE float largest_power(const float8& scores, const float8& value_scale, const WmmaColumn& column, int seen) {
  keep_apart(seen);
  float largest = -kInfinity;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const float size = __builtin_amdgcn_logf(__builtin_fmaxf(value_scale[r], 0x1p-30f));
    const float power = scores[r] * column.query_scale + size;
    largest = __builtin_fmaxf(largest, r < seen ? power : -kInfinity);
  }
  return largest;
}

// Token 8h + r of wave w's 16 is place 4·(8h + r) + w of its row.
template <class Tile>
OCTAVE_DEVICE void write_weights(WmmaShared<Tile>& shared, int parity, int column, int wave, const Weights& made) {
  const int row = lane_index() % 16;
  const int half = lane_index() / 16;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    shared.weights[parity][column][2 * half + r / 4][r % 4 / 2][row][r % 2 * 4 + wave] = made.weight[r];
  }
}

template <class Tile>
OCTAVE_DEVICE half16 read_weights(const WmmaShared<Tile>& shared, int parity, int column, int step) {
  const int row = lane_index() % 16;
  return read_operand(shared.weights[parity][column][step][0][row], shared.weights[parity][column][step][1][row]);
}

}  // namespace octave
