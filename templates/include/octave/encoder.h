// The Octave encoder: scale rule, codes and packing of a vector that lies in a wave's registers.
// The arithmetic is that of the PyTorch reference, operation for operation, so that the bytes are the same.
#pragma once

#include "octave/codebook.h"
#include "octave/device.h"
#include "octave/lanes.h"

namespace octave {

inline constexpr float kMaxHalf = 65504.0f;

template <int kCount>
struct EncodedBlock {
  uint8_t codes[kCount];
  _Float16 scale;
};

// a/b, correctly rounded, with `reciprocal` = 1/b correctly rounded: the first step makes the quotient faithful, the
// second rounds it right (Markstein's theorem); b is normal, and no quotient here comes near overflow.
OCTAVE_DEVICE float divide(float a, float b, float reciprocal) {
  float quotient = a * reciprocal;
  quotient = __builtin_fmaf(__builtin_fmaf(-quotient, b, a), reciprocal, quotient);
  return __builtin_fmaf(__builtin_fmaf(-quotient, b, a), reciprocal, quotient);
}

template <int kLevels>
OCTAVE_DEVICE int count_below(const float (&thresholds)[kLevels], float y) {
  int count = 0;
#pragma unroll
  for (int i = 0; i < kLevels; ++i) count += y > thresholds[i] ? 1 : 0;
  return count;
}

// Quantizes the block that an aligned group of kLanes lanes holds, kCount dims each, to 4 or 3 bits.
template <class Format, int kLanes, int kCount>
OCTAVE_DEVICE EncodedBlock<kCount> encode_block(const float (&x)[kCount], bool four_bits) {
  float terms[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) terms[i] = x[i] * x[i];
  const float sum_of_squares = group_sum<kLanes>(terms);
  const float mean = sum_of_squares * (1.0f / (kLanes * kCount));
  const float rms = __builtin_fmaxf(__builtin_sqrtf(mean), 1e-12f);
  const float reciprocal = 1.0f / rms;

  EncodedBlock<kCount> block;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float y = divide(x[i], rms, reciprocal);
    int code, value;
    if (four_bits) {
      code = count_below(Format::kThresholds4, y * Format::kLut4Mult);
      value = static_cast<int8_t>(lookup4<Format>(code));
    } else {
      code = count_below(Format::kThresholds3, y * Format::kLut3Mult);
      value = static_cast<int8_t>(lookup3<Format>(code));
    }
    block.codes[i] = static_cast<uint8_t>(code);
    terms[i] = x[i] * static_cast<float>(value);
  }
  const float dot = group_sum<kLanes>(terms);
  float scale = dot > 0.0f ? sum_of_squares / dot * Format::kLutOne : 0.0f;
  if (!(sum_of_squares < kInfinity)) {
    scale = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) block.codes[i] = 0;
  }
  block.scale = static_cast<_Float16>(scale < kMaxHalf ? scale : kMaxHalf);
  return block;
}

// Bit fields of four codes, one per byte, as they lie in a dword that covers more dims; `quad` counts from its first
// dim.
struct NibbleField {
  static constexpr int kDims = 8;
  OCTAVE_MEMBER uint32_t operator()(uint32_t codes, int quad) const { return codes << (4 * quad); }
};

struct LowPlaneField {
  static constexpr int kDims = 16;
  OCTAVE_MEMBER uint32_t operator()(uint32_t codes, int quad) const { return (codes & 0x03030303u) << (2 * quad); }
};

struct HighPlaneField {
  static constexpr int kDims = 32;
  OCTAVE_MEMBER uint32_t operator()(uint32_t codes, int quad) const { return ((codes >> 2) & 0x01010101u) << quad; }
};

// Writes the dwords of a plane; lanes that share a dword join their fields. `dim` is the lane's first dim in the
// region.
template <class Field, int kCount>
OCTAVE_DEVICE void pack_plane(const uint8_t (&codes)[kCount], int dim, uint32_t* words) {
  constexpr int kWords = max(1, kCount / Field::kDims);
  constexpr int kLanes = max(1, Field::kDims / kCount);
  constexpr int kPerWord = min(kCount, Field::kDims);
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < kPerWord; i += 4) {
      uint32_t quad = 0;
#pragma unroll
      for (int j = 0; j < min(4, kPerWord); ++j) quad |= static_cast<uint32_t>(codes[w * kPerWord + i + j]) << (8 * j);
      if constexpr (kPerWord < 4) quad <<= 8 * (dim % 4);
      word |= Field{}(quad, (dim + i) / 4 % (Field::kDims / 4));
    }
    word = group_or<kLanes>(word);
    if (lane_index() % kLanes == 0) words[dim / Field::kDims + w] = word;
  }
}

template <int kCount>
OCTAVE_DEVICE void pack4(const uint8_t (&codes)[kCount], int dim, uint32_t* words) {
  pack_plane<NibbleField>(codes, dim, words);
}

template <int kCount>
OCTAVE_DEVICE void pack3(const uint8_t (&codes)[kCount], int dim, uint32_t* low_plane, uint32_t* high_plane) {
  pack_plane<LowPlaneField>(codes, dim, low_plane);
  pack_plane<HighPlaneField>(codes, dim, high_plane);
}

}  // namespace octave
