// Query rows of the mfma tier: loaded at once, rotated like K, and quantized to two int8 halves of a 16-bit integer.
#pragma once

#include "octave/decode_group.h"
#include "octave/lanes.h"
#include "octave/mfma_score.h"
#include "octave/mfma_tile.h"
#include "octave/vector.h"

namespace octave {

// The rows of a wave: kWaves·i + wave for each i.
template <class Format, class Config, class Scalar>
struct MfmaQueryRows {
  using Tile = MfmaTile<Format, Config>;
  static constexpr int kCount = kElements<Tile::kHeadSize>;
  static constexpr int kOwn = Tile::kColumns * Tile::kColumnRows / Tile::kWaves;
  // Those that may be query rows; the others of a column are zero.
  static constexpr int kLoaded = (Tile::kRows + Tile::kWaves - 1) / Tile::kWaves;
  struct Raw {
    Scalar values[kCount];
  };
  Raw raw[kLoaded];
  uint32_t signs;

  static OCTAVE_MEMBER int row(int i) { return i * Tile::kWaves + wave_index(); }

  // query: of the first row; `rows` of them are there.
  OCTAVE_MEMBER void load_from(const Scalar* query, const uint32_t* k_signs, int rows, int64_t token_stride,
                               int64_t head_stride) {
    signs = sign_bits<kCount>(k_signs);
#pragma unroll
    for (int i = 0; i < kLoaded; ++i) {
      const int there = min(row(i), rows - 1);
      const int64_t token = there / Config::kGqaGroup;
      const int64_t head = there % Config::kGqaGroup;
      raw[i] = load<Raw>(query + token * token_stride + head * head_stride + lane_index() * kCount);
    }
  }

  // unit: of the scores, over kQueryRange. Rows kFirst to kFirst + kRows - 1 of the wave, as 128·high + low with one
  // scale each. attending: a bit for each query token that does; the rows of others are zero.
  template <int kFirst, int kRows>
  OCTAVE_MEMBER void quantize(uint32_t attending, float unit, MfmaShared<Tile>& shared) const {
    float x[kRows][kCount] = {};
    // As integers, so that a NaN is larger than all numbers and does not get lost between finite blocks.
    uint32_t peak = 0;
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      if (kFirst + n >= kLoaded) break;
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[n][i] = static_cast<float>(raw[min(kFirst + n, kLoaded - 1)].values[i]);
      apply_signs(signs, x[n]);
      hadamard<Format::kKBlockSize>(x[n]);
      uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < kCount; ++i) bits = MaxBits{}(bits, bit_cast<uint32_t>(__builtin_fabsf(x[n][i])));
      bits = group_reduce<16>(bits, MaxBits{});
      const uint32_t lower = MaxBits{}(lane_value(bits, 0), lane_value(bits, 16));
      const uint32_t upper = MaxBits{}(lane_value(bits, 32), lane_value(bits, 48));
      const int query = row(kFirst + n) / Config::kGqaGroup;
      const bool attends = row(kFirst + n) < Tile::kRows && (attending >> query & 1) != 0;
      // A lane for each row: one division serves all.
      peak = lane_index() == n && attends ? MaxBits{}(lower, upper) : peak;
    }
    const float largest = bit_cast<float>(peak);
    const bool finite = largest < kInfinity;
    const bool used = finite && largest >= kQueryFloor;
    // Divided by all lanes, without a branch.
    const float divisor = used ? largest : 1.0f;
    const float inverse = kQueryRange / divisor * (used ? 1.0f : 0.0f);
    const float scale = used ? divisor * unit : finite ? 0.0f : __builtin_nanf("");
    if (lane_index() < kRows) shared.query_scale[kFirst * Tile::kWaves + row(lane_index())] = scale;
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const auto factor = bit_cast<float>(lane_value(bit_cast<uint32_t>(inverse), n));
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int code = static_cast<int>(factor != 0.0f ? __builtin_rintf(x[n][i] * factor) : 0.0f);
        const int high = (code + 64) >> 7;
        const int dim = lane_index() * kCount + i;
        shared.query[0][row(kFirst + n)][dim] = static_cast<int8_t>(high);
        shared.query[1][row(kFirst + n)][dim] = static_cast<int8_t>(code - high * 128);
      }
    }
  }
};

}  // namespace octave
