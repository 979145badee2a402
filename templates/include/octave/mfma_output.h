// Outputs of decode's mfma tier: the running softmax of a column of query rows, and P·V on V's biased bytes.
#pragma once

#include "octave/mfma_tile.h"

namespace octave {

// Running softmax of one column: p = 2^(score - reference). The reference follows the largest p·scale of V lazily.
struct MfmaColumn {
  float query_scale;
  float reference;
  float sum;
};

// Scores from kHugeScore on are multiples of 2 or more: a reference that is rounded otherwise than a score may lie so
// far above it that its weight is lost.
inline constexpr float kHugeScore = 0x1p24f;

OCTAVE_DEVICE bool is_huge(float score) { return __builtin_fabsf(score) >= kHugeScore && score != -kInfinity; }

// The number of a word's lower 16 bits.
OCTAVE_DEVICE float half_of(uint32_t word) {
  return static_cast<float>(bit_cast<_Float16>(static_cast<uint16_t>(word)));
}

// A scale of V, which the compiler uses only when the score is there: it is loaded later than K.
OCTAVE_DEVICE uint32_t after(uint32_t scale, float score) {
  asm("" : "+v"(scale) : "v"(score));
  return scale;
}

// Four tokens' probabilities in fp32, and these times V's scales in fp16, two to a word. Opaque, the lower one is no
// element of a vector: the compiler then multiplies, rounds and packs with one instruction each (v_fma_mixlo_f16,
// v_fma_mixhi_f16).
template <class Tile, bool kBounded>
OCTAVE_DEVICE uint2 probabilities(const float4& scores, const uint32_t (&value_scale)[4], const MfmaColumn& column,
                                  float4& p) {
  _Float16 weighted[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    float power = __builtin_fmaf(scores[r], column.query_scale, -column.reference);
    // rounded like the reference, which is one of them
    if (kBounded && is_huge(column.reference)) power = scores[r] * column.query_scale - column.reference;
    p[r] = exp2(power);
    const float scale = half_of(value_scale[r]);
    float product = __builtin_fmaf(p[r], scale, 0.0f);
    if (kBounded && product > kLargestHalf) {
      // the reference is rounded
      product = kLargestHalf;
      p[r] = kLargestHalf / scale;
    }
    weighted[r] = static_cast<_Float16>(product);
    if (r % 2 == 0) weighted[r] = opaque(weighted[r]);
  }
  return {opaque(bit_cast<uint32_t>(half2{weighted[0], weighted[1]})),
          opaque(bit_cast<uint32_t>(half2{weighted[2], weighted[3]}))};
}

// Bit 14 of an fp16 is set from 2.0 on, for Inf and for NaN.
OCTAVE_DEVICE bool any_large(uint2 weighted) { return ((weighted[0] | weighted[1]) & 0x40004000u) != 0; }

template <class Format, class Tile>
OCTAVE_DEVICE void accumulate_tile(const TileWords<Format, Tile>& words, const MfmaLane<Format, Tile>& lane,
                                   const uint2 (&weighted)[Tile::kColumns],
                                   float4 (&out)[Tile::kColumns][Tile::kValueTiles], float4 (&bias)[Tile::kColumns]) {
  // 128·2⁻²⁴: what the bias of a byte adds
  const half4 ones = bit_cast<half4>(0x0080008000800080ul);
  half4 p[Tile::kColumns];
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) {
    p[c] = bit_cast<half4>(weighted[c]);
    bias[c] = __builtin_amdgcn_mfma_f32_16x16x16f16(ones, p[c], bias[c], 0, 0, 0);
  }
#pragma unroll
  for (int quad = 0; quad < Tile::kValueDims / 4; ++quad) {
    uint32_t bytes[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      if constexpr (Format::kVBits == 4) {
        bytes[t] = lookup4<BiasedBook<Format>>(nibble_codes(words.value[t][quad / 2], quad % 2), lane.places);
      } else {
        const uint32_t low = Tile::kValueDims < 16 ? words.value[t][0] >> lane.value_shift : words.value[t][quad / 4];
        const uint32_t high = words.value_high[t][quad / 8] >> (lane.value_high_shift + quad % 8 / 4 * 4);
        bytes[t] = lookup3<BiasedBook<Format>>(plane_codes(low, high, quad % 4));
      }
    }
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const uint32_t selector = 0x0C040C00u + 0x00010001u * b;
      const uint32_t first = permute_bytes(bytes[1], bytes[0], selector);
      const uint32_t second = permute_bytes(bytes[3], bytes[2], selector);
      const half4 values = bit_cast<half4>((static_cast<unsigned long>(second) << 32) | first);
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        out[c][4 * quad + b] = __builtin_amdgcn_mfma_f32_16x16x16f16(values, p[c], out[c][4 * quad + b], 0, 0, 0);
      }
    }
  }
}

}  // namespace octave
