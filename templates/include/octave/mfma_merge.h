// The end of the mfma tier: the outputs of the waves, each with a reference of its own, become one partial.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/mfma_output.h"
#include "octave/mfma_tile.h"

namespace octave {

// Where the partial of a row goes: of the workgroup's first query token and kv head's first query head.
struct PartialTarget {
  float* first;
  int64_t token_stride;
  int64_t head_stride;
};

OCTAVE_DEVICE float* at(float* first, int64_t bytes) {
  return reinterpret_cast<float*>(reinterpret_cast<uint8_t*>(first) + bytes);
}

// A column's rows: a lane has row lane % 16. factor: what a wave's outputs are multiplied by; offset: of the row's
// partial, in bytes; attending: a bit for each row that has one.
template <class Tile>
struct MfmaLevels {
  float factor[Tile::kWaves];
  float bias;
  float reference;
  float sum;
  int64_t offset;
  uint32_t attending;

  static OCTAVE_MEMBER void put(MfmaShared<Tile>& shared, int c, const MfmaColumn& column, float bias) {
    shared.sum[c][wave_index()][lane_index() % 16][lane_index() / 16] = column.sum;
    if (lane_index() < 16) shared.level[c][wave_index()][lane_index()] = float2{column.reference, bias};
  }
  // unit: of the outputs
  static OCTAVE_MEMBER MfmaLevels get(const MfmaShared<Tile>& shared, int c, float unit) {
    float2 level[Tile::kWaves];
    float4 sums[Tile::kWaves];
#pragma unroll
    for (int w = 0; w < Tile::kWaves; ++w) {
      level[w] = shared.level[c][w][lane_index() % 16];
      sums[w] = *reinterpret_cast<const float4*>(shared.sum[c][w][lane_index() % 16]);
    }
    MfmaLevels self{{}, 0.0f, -kInfinity, 0.0f, 0, 0};
#pragma unroll
    for (int w = 0; w < Tile::kWaves; ++w) self.reference = __builtin_fmaxf(self.reference, level[w][0]);
#pragma unroll
    for (int w = 0; w < Tile::kWaves; ++w) {
      const float factor = level[w][0] == self.reference ? 1.0f : exp2(level[w][0] - self.reference);
      const float sum = (sums[w][0] + sums[w][1]) + (sums[w][2] + sums[w][3]);
      self.sum = __builtin_fmaf(sum, factor, self.sum);
      self.factor[w] = factor * unit;
      self.bias = __builtin_fmaf(level[w][1], self.factor[w], self.bias);
    }
    return self;
  }
  template <int kGqaGroup>
  OCTAVE_MEMBER void place(int c, int queries, const PartialTarget& target) {
    const uint32_t row = c * 16 + lane_index() % 16;
    const int query = Tile::kQueries == 1 ? 0 : static_cast<int>(row / kGqaGroup);
    offset = 4 * (query * target.token_stride + static_cast<int64_t>(row - query * kGqaGroup) * target.head_stride);
    const bool attends = lane_index() < Tile::kColumnRows && row < Tile::kRows && query < queries;
    attending = static_cast<uint32_t>(wave_ballot(attends));
    if (attends && wave_index() == c % Tile::kWaves) {
      float* behind = at(target.first, offset) + Tile::kHeadSize;
      behind[0] = sum == 0.0f ? -kInfinity : reference;
      behind[1] = sum;
    }
  }
};

// Through LDS in slices of kMergeParts of the four rows that a lane has of each output tile. Waves write what they
// have; then each takes rows of the query, a row after the other, so that all of a row's addresses are scalar.
template <class Tile>
struct MfmaMerge {
  static constexpr int kParts = Tile::kMergeParts;
  static constexpr int kDims = Tile::kValueDims;
  static constexpr int kRowFloats = 4 * kDims * kParts;
  // Of a row, for a lane.
  static constexpr int kOwn = kRowFloats / kWaveSize;
  static_assert(kOwn >= 1);
  // Dim slots that a lane takes, of groups 4 / kSlots apart; floats of each.
  static constexpr int kSlots = max(1, 4 * kDims / kWaveSize);
  static constexpr int kEach = kOwn / kSlots;
  static constexpr int kOwnRows = Tile::kColumnRows / Tile::kWaves;

  // In floats from a row's first. Swizzled, so that neither 16 rows nor 16 dims meet in a bank.
  static OCTAVE_MEMBER int place(uint32_t row, uint32_t group, uint32_t dim) {
    return (group * kDims + (dim ^ ((row ^ group % 2 * 8) % kDims))) * kParts;
  }

  static OCTAVE_MEMBER void put(MfmaShared<Tile>& shared, const float4 (&out)[Tile::kValueTiles], int part) {
    if (Tile::kPaired && lane_index() % 16 >= 8) return;
    const int row = lane_index() % Tile::kColumnRows;
    float* mine = shared.merge[wave_index()][row];
#pragma unroll
    for (int n = 0; n < kDims; ++n) {
      float values[kParts];
#pragma unroll
      for (int r = 0; r < kParts; ++r) values[r] = out[n][part + r];
      __builtin_memcpy(__builtin_assume_aligned(mine + place(row, lane_index() / 16, n), 4 * kParts), values,
                       sizeof(values));
    }
  }

  static OCTAVE_MEMBER void take(const MfmaShared<Tile>& shared, const MfmaLevels<Tile>& levels, int c, int part,
                                 const PartialTarget& target) {
    const int n = lane_index() % kDims;
    const int group = lane_index() / kDims % 4;
    const int half = lane_index() / (4 * kDims) * kEach;
    float values[kOwnRows][Tile::kWaves][kOwn];
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i) {
      const int row = i * Tile::kWaves + wave_index();
#pragma unroll
      for (int w = 0; w < Tile::kWaves; ++w) {
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
          const float* from = shared.merge[w][row] + place(row, group + s * (4 / kSlots), n) + half;
          __builtin_memcpy(values[i][w] + s * kEach, __builtin_assume_aligned(from, 4 * kEach), 4 * kEach);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i) {
      const int place = i * Tile::kWaves + wave_index();
      if (c * 16 + i * Tile::kWaves >= Tile::kRows || (levels.attending >> place & 1) == 0) continue;
      float* partial = at(target.first, lane_value64(levels.offset, place));
      float sum[kOwn];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) sum[j] = -lane_value(levels.bias, place);
#pragma unroll
      for (int w = 0; w < Tile::kWaves; ++w) {
        const float factor = lane_value(levels.factor[w], place);
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sum[j] = __builtin_fmaf(values[i][w][j], factor, sum[j]);
      }
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int quad = group + j / kEach * (4 / kSlots);
        partial[kDims * (4 * quad + half + part + j % kEach) + n] = sum[j];
      }
    }
  }
};

// unit: what V's codebook entries are multiplied by. before_stores: called once, before the first of them.
template <class Tile, int kGqaGroup, class BeforeStores>
OCTAVE_DEVICE void merge_waves(MfmaShared<Tile>& shared, const MfmaColumn (&columns)[Tile::kColumns],
                               const float4 (&out)[Tile::kColumns][Tile::kValueTiles],
                               const float4 (&bias)[Tile::kColumns], float unit, int queries,
                               const PartialTarget& target, BeforeStores before_stores) {
  using Merge = MfmaMerge<Tile>;
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) MfmaLevels<Tile>::put(shared, c, columns[c], bias[c][0]);
  workgroup_barrier();
  // With two columns of 8 waves their registers are needed at once.
  constexpr bool kEarly = Tile::kColumns * Tile::kWaves > 8;
  if constexpr (kEarly) before_stores();
  MfmaLevels<Tile> levels[Tile::kColumns];
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) levels[c] = MfmaLevels<Tile>::get(shared, c, unit);
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) {
#pragma unroll
    for (int part = 0; part < 4; part += Tile::kMergeParts) {
      workgroup_barrier();
      Merge::put(shared, out[c], part);
      workgroup_barrier();
      if (!kEarly && c == 0 && part == 0) before_stores();
      if (part == 0) levels[c].template place<kGqaGroup>(c, queries, target);
      Merge::take(shared, levels[c], c, part, target);
    }
  }
}

}  // namespace octave
