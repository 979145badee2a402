// The query of prefill's mfma tier over packed tokens: two int8 halves of a 16-bit integer, with one scale a row.
#pragma once

#include "octave/mfma_score.h"
#include "octave/prefill_mfma.h"

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
    const bool finite = largest < kInfinity;
    const bool used = finite && largest >= kQueryFloor;
    const float inverse = used ? kQueryRange / largest : 0.0f;
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
    scale[i] = used ? largest / kQueryRange * unit : finite ? 0.0f : __builtin_nanf("");
  }
};

}  // namespace octave
