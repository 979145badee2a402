// What both prefill kernels of the wmma tier share: 128 rows of the query against tiles of 16 tokens that lie in LDS.
//
// A wave takes 16 rows. Scores Sᵀ = K·Qᵀ, outputs Oᵀ += Vᵀ·Pᵀ: both have the row in lane % 16, so that a row's softmax
// stays in two lanes, and P becomes an operand by an exchange of half its registers between lanes l and l ^ 16.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/wmma.h"

namespace octave {

template <class Config>
struct PrefillTile {
  static constexpr int kHeadSize = Config::kHeadSize;
  static constexpr int kWaves = Config::kWaves;
  static constexpr int kThreads = kWaves * kWaveSize;
  static constexpr int kRows = 16 * kWaves;
  static constexpr int kTokens = 16;
  // Products of 16 dims for the scores, and of 16 dims of the output.
  static constexpr int kSteps = kHeadSize / 16;
  // Steps of the query that stay in registers; the others are read from LDS for each tile.
  static constexpr int kKept = Config::kQueryStepsKept;
  static constexpr int kBuffers = Config::kTileBuffers;
  // Bytes of a row in LDS, padded so that 8 lanes that read 16 bytes of 8 rows each meet different banks.
  static constexpr int kKeyStride = kHeadSize * 2 + 16;
  static constexpr int kQueryStride = kKept == kSteps ? 0 : (kSteps - kKept) * 32 + 16;
};

// A tile: K as rows of tokens in the order of `wmma_row`; V as rows of dims, each with the 16 tokens in order. A row of V
// is 32 bytes and so a quarter of the banks: the rows of four dims are permuted by the next two bits of the dim, and
// the halves of a row are swapped by bit 3 of it, for reads and writes without conflicts.
template <class Tile>
struct alignas(16) TileBuffer {
  uint8_t keys[Tile::kTokens * Tile::kKeyStride];
  uint8_t values[Tile::kHeadSize * 32];
};

template <class Tile>
struct alignas(16) PrefillShared {
  TileBuffer<Tile> tiles[Tile::kBuffers];
  uint8_t query[max(16, Tile::kRows * Tile::kQueryStride)];
};

// Where tokens 8·half … of a dim's row of V begin.
OCTAVE_DEVICE constexpr int value_offset(int dim, int half) {
  const int row = dim ^ (dim / 4 % 4);
  return row * 32 + (half ^ (dim / 8 % 2)) * 16;
}

// A lane's view of the operands.
template <class Tile>
struct PrefillLane {
  int keys;
  int values_low;
  int values_high;
  int query;

  static OCTAVE_MEMBER PrefillLane of() {
    const int row = lane_index() % 16;
    return {row * Tile::kKeyStride, value_offset(wmma_row(row), 0), value_offset(wmma_row(row), 1),
            (wave_index() * 16 + row) * Tile::kQueryStride};
  }
};

// A wave's 16 rows of the query as operands: the first kKept steps in registers, the others in LDS.
template <class Tile>
struct QueryOperands {
  WmmaOperand kept[max(1, Tile::kKept)];

  OCTAVE_MEMBER void put(int step, const WmmaOperand& operand, PrefillShared<Tile>& shared,
                         const PrefillLane<Tile>& lane) {
    if (step < Tile::kKept) {
      kept[step] = operand;
    } else if (lane_index() < 16) {
      __builtin_memcpy(__builtin_assume_aligned(shared.query + lane.query + (step - Tile::kKept) * 32, 16), &operand,
                       sizeof(operand));
    }
  }
  OCTAVE_MEMBER WmmaOperand get(int step, const PrefillShared<Tile>& shared, const PrefillLane<Tile>& lane) const {
    if (step < Tile::kKept) return kept[step];
    return read_operand(shared.query + lane.query + (step - Tile::kKept) * 32);
  }
};

// Scores of token 8·(lane/16) + r and row lane % 16, as the dot products of K's and Q's elements.
template <class Element, class Tile>
OCTAVE_DEVICE float8 score_tile(const TileBuffer<Tile>& tile, const PrefillShared<Tile>& shared,
                                const QueryOperands<Tile>& query, const PrefillLane<Tile>& lane) {
  float8 scores = {};
#pragma unroll
  for (int step = 0; step < Tile::kSteps; ++step) {
    const auto keys = read_operand(tile.keys + lane.keys + step * 32);
    scores = wmma<Element>(keys, query.get(step, shared, lane), scores);
  }
  constexpr int kRead = 0x100;
  constexpr int kMatrix = 0x008;
  __builtin_amdgcn_sched_group_barrier(kRead, 2, 0);
#pragma unroll
  for (int step = 0; step < Tile::kSteps; ++step) {
    if (step + 1 < Tile::kKept) {
      __builtin_amdgcn_sched_group_barrier(kRead, 2, 0);
    } else {
      __builtin_amdgcn_sched_group_barrier(kRead, 4, 0);
    }
    __builtin_amdgcn_sched_group_barrier(kMatrix, 1, 0);
  }
  return scores;
}

// Running softmax of a row: p = 2^((score - reference) · unit). Both lanes of a row agree on unit and reference, and
// each sums its own tokens. The reference is a score, so that of scores beyond all sense the largest still has p = 1.
// It moves when a p would leave fp16: outputs are rarely rescaled.
template <class Tile>
struct RowState {
  float unit;
  float reference;
  float sum;
  float8 out[Tile::kSteps];

  // A row that has seen nothing: its reference is below all scores.
  static OCTAVE_MEMBER RowState of(float unit) {
    return {unit, __builtin_copysignf(0x1p120f, -unit), 0.0f, {}};
  }
};

inline constexpr float kLargestPower = 15.0f;

// Moves the reference to the largest score so far.
template <class Tile>
OCTAVE_DEVICE void raise_reference(const float8& scores, int visible, RowState<Tile>& row, float8& powers) {
  // Its comparisons are made here, not where most tiles would pay for them.
  asm("" : "+v"(visible));
  float largest = row.reference;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    largest = r < visible && (scores[r] - largest) * row.unit > 0.0f ? scores[r] : largest;
  }
  const float other = lane_xor<16>(largest);
  largest = (other - largest) * row.unit > 0.0f ? other : largest;
  const float rescale = exp2((row.reference - largest) * row.unit);
  row.reference = largest;
  row.sum *= rescale;
#pragma unroll
  for (int n = 0; n < Tile::kSteps; ++n) row.out[n] *= rescale;
#pragma unroll
  for (int r = 0; r < 8; ++r) powers[r] = r < visible ? (scores[r] - largest) * row.unit : -kInfinity;
}

// P of a tile as an operand in fp16. visible: how many of the lane's 8 tokens, the first ones, its row may see; masked, the
// same for all lanes: whether that is less than 8 anywhere.
template <class Tile>
OCTAVE_DEVICE WmmaOperand probabilities(const float8& scores, bool masked, int visible, RowState<Tile>& row) {
  float8 powers;
#pragma unroll
  for (int r = 0; r < 8; ++r) powers[r] = (scores[r] - row.reference) * row.unit;
  if (masked) {
#pragma unroll
    for (int r = 0; r < 8; ++r) powers[r] = r < visible ? powers[r] : -kInfinity;
  }
  float largest = powers[0];
#pragma unroll
  for (int r = 1; r < 8; ++r) largest = __builtin_fmaxf(largest, powers[r]);
  if (__builtin_amdgcn_ballot_w32(largest > kLargestPower) != 0) raise_reference(scores, visible, row, powers);
  uint32_t own[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    // Towards zero; the sum is that of what is multiplied, so that nothing is lost to it.
    const auto pair = __builtin_amdgcn_cvt_pkrtz(exp2(powers[2 * i]), exp2(powers[2 * i + 1]));
    own[i] = bit_cast<uint32_t>(pair);
    row.sum = __builtin_amdgcn_fdot2(bit_cast<half2>(pair), half2{1.0f, 1.0f}, row.sum, false);
  }
  return gather_halves(own);
}

template <class Tile>
OCTAVE_DEVICE void accumulate_tile(const TileBuffer<Tile>& tile, const WmmaOperand& p, const PrefillLane<Tile>& lane,
                                   RowState<Tile>& row) {
#pragma unroll
  for (int n = 0; n < Tile::kSteps; ++n) {
    const auto values = read_operand(tile.values + lane.values_low + n * 512, tile.values + lane.values_high + n * 512);
    row.out[n] = wmma<_Float16>(values, p, row.out[n]);
  }
  constexpr int kRead = 0x100;
  constexpr int kMatrix = 0x008;
  __builtin_amdgcn_sched_group_barrier(kRead, 2, 0);
#pragma unroll
  for (int n = 0; n < Tile::kSteps; ++n) {
    __builtin_amdgcn_sched_group_barrier(kRead, 2, 0);
    __builtin_amdgcn_sched_group_barrier(kMatrix, 1, 0);
  }
}

}  // namespace octave
