// The tiles of prefill_chunk's wmma tier, a chunk's own K and V: K as it is, V in fp16 with its dims in rows.
//
// fp16 weights on V in fp16 are what makes bf16 inputs as exact as fp16 ones. bf16 values that fp16 does not hold, and
// values that are not finite in tiles that not all rows see, are outliers: they are kept out of the matrix products,
// and added one by one.
#pragma once

#include "octave/prefill_wmma_tile.h"

namespace octave {

template <class Scalar>
struct Eight {
  Scalar values[8];
};

struct ChunkPart {
  WmmaOperand key;
  uint2 value[4];
};

// count: of the chunk's tokens from the tile's first on; those behind it are zeros, and not read.
template <class Tile, class Scalar>
OCTAVE_DEVICE void load_part(const Scalar* keys, const Scalar* values, int64_t key_stride, int64_t value_stride,
                             int count, const TilePart<Tile>& lane, ChunkPart& part) {
  const Scalar* key = keys + lane.key_token * key_stride + lane.key_dim;
  const Scalar* value = values + lane.value_token * value_stride + lane.value_dim;
  if (count >= Tile::kTokens) {
    if (lane.takes_key) part.key = load<WmmaOperand>(__builtin_assume_aligned(key, 16));
    if (lane.takes_value) {
#pragma unroll
      for (int t = 0; t < 4; ++t) part.value[t] = load<uint2>(__builtin_assume_aligned(value + t * value_stride, 8));
    }
    return;
  }
  part = {};
  if (lane.takes_key && lane.key_token < count) part.key = load<WmmaOperand>(__builtin_assume_aligned(key, 16));
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    if (lane.takes_value && lane.value_token + t < count)
      part.value[t] = load<uint2>(__builtin_assume_aligned(value + t * value_stride, 8));
  }
}

// V in LDS is value·kScale. Magnitudes, as bits, of values that are none of the outliers: zero, and kSmallest … below
// kLarge. For bf16: 2^-21, where fp16 still has 8 bits of value·16, and 2^12.
template <class Scalar>
struct ChunkValues;

template <>
struct ChunkValues<_Float16> {
  static constexpr float kScale = 1.0f;
  static constexpr bool kEveryTile = false;
  static constexpr uint16_t kSmallest = 1;
  static constexpr uint16_t kLarge = 0x7C00;

  static OCTAVE_MEMBER uint32_t to_half(uint32_t pair) { return pair; }
};

template <>
struct ChunkValues<__bf16> {
  static constexpr float kScale = 16.0f;
  static constexpr bool kEveryTile = true;
  static constexpr uint16_t kSmallest = 0x3500;
  static constexpr uint16_t kLarge = 0x4580;

  // The factor goes into the exponent, by which zero becomes what fp16 rounds to zero.
  static OCTAVE_MEMBER uint32_t to_half(uint32_t pair) {
    constexpr uint32_t kFactor = 4u << 23;
    return bit_cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(bit_cast<float>((pair << 16) + kFactor),
                                                         bit_cast<float>((pair & 0xFFFF0000u) + kFactor)));
  }
};

template <class Scalar>
OCTAVE_DEVICE bool is_outlier(uint16_t bits) {
  const uint16_t magnitude = bits & 0x7FFF;
  return magnitude >= ChunkValues<Scalar>::kLarge || (magnitude != 0 && magnitude < ChunkValues<Scalar>::kSmallest);
}

using ushort2 = uint16_t __attribute__((ext_vector_type(2)));

// Whether a thread of the wave holds an outlier.
template <class Scalar>
OCTAVE_DEVICE bool any_outlier(const ChunkPart& part) {
  ushort2 largest = {};
  ushort2 smallest = {0xFFFF, 0xFFFF};  // less one, by which zero is the largest
#pragma unroll
  for (int t = 0; t < 4; ++t) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto magnitude = bit_cast<ushort2>(part.value[t][i] & 0x7FFF7FFFu);
      largest = __builtin_elementwise_max(largest, magnitude);
      if constexpr (ChunkValues<Scalar>::kSmallest > 1)
        smallest = __builtin_elementwise_min(smallest, static_cast<ushort2>(magnitude - ushort2{1, 1}));
    }
  }
  const bool found = max(largest[0], largest[1]) >= ChunkValues<Scalar>::kLarge ||
                     min(smallest[0], smallest[1]) < ChunkValues<Scalar>::kSmallest - 1;
  return __builtin_amdgcn_ballot_w32(found) != 0;
}

// Makes outliers zero.
template <class Scalar>
OCTAVE_DEVICE void remove_outliers(ChunkPart& part) {
#pragma unroll
  for (int t = 0; t < 4; ++t) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      auto pair = bit_cast<ushort2>(part.value[t][i]);
#pragma unroll
      for (int half = 0; half < 2; ++half) pair[half] = is_outlier<Scalar>(pair[half]) ? 0 : pair[half];
      part.value[t][i] = bit_cast<uint32_t>(pair);
    }
  }
}

template <class Scalar, class Tile>
OCTAVE_DEVICE void write_part(const ChunkPart& part, const TilePart<Tile>& lane, TileBuffer<Tile>& tile) {
  if (lane.takes_key)
    __builtin_memcpy(__builtin_assume_aligned(tile.keys + lane.key_target, 16), &part.key, sizeof(part.key));
  if (!lane.takes_value) return;
  uint2 values[4];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    values[t] = uint2{ChunkValues<Scalar>::to_half(part.value[t][0]), ChunkValues<Scalar>::to_half(part.value[t][1])};
  }
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    const uint32_t selector = b % 2 == 0 ? 0x05040100u : 0x07060302u;
    const uint2 pairs = {__builtin_amdgcn_perm(values[1][b / 2], values[0][b / 2], selector),
                         __builtin_amdgcn_perm(values[3][b / 2], values[2][b / 2], selector)};
    *reinterpret_cast<uint2*>(tile.values + (lane.value_target ^ (b * 32))) = pairs;
  }
}

// Adds a tile's outliers to a lane's row, token by token: a product with what the row does not see would be NaN.
// values: the tile's first; visible: of its tokens, at most those that exist.
template <class Tile, class Scalar>
OCTAVE_DEVICE void add_outliers(const Scalar* values, int64_t stride, WmmaOperand p, int visible, RowState<Tile>& row) {
  values += lane_index() / 16 * 8;
#pragma nounroll
  for (int token = 0; token < Tile::kTokens; ++token) {
    if (token < visible) {
      const float weight = unpack_low(p.words[0]) * ChunkValues<Scalar>::kScale;
#pragma unroll
      for (int n = 0; n < Tile::kSteps; ++n) {
        // Keeps the loads from being issued all at once, for which there are no registers.
        schedule_barrier();
        const auto eight = load<Eight<Scalar>>(__builtin_assume_aligned(values + 16 * n, 16));
#pragma unroll
        for (int r = 0; r < 8; ++r) {
          const bool found = is_outlier<Scalar>(bit_cast<uint16_t>(eight.values[r]));
          const float sum = __builtin_fmaf(weight, static_cast<float>(eight.values[r]), row.out[n][r]);
          row.out[n][r] = found ? sum : row.out[n][r];
        }
      }
    }
    values += stride;
    // the next token's p to the front
#pragma unroll
    for (int i = 0; i < 8; ++i) p.words[i] = __builtin_amdgcn_alignbit(i < 7 ? p.words[i + 1] : 0u, p.words[i], 16);
  }
}

}  // namespace octave
