// The tiles of a chunk's own K and V for the wmma tier: copied into LDS, V with its dims in rows.
#pragma once

#include "octave/prefill_wmma_tile.h"

namespace octave {

// A thread's part of a tile: 16 dims of K of one token, and 4 dims of V of four tokens. Where a tile has half as many
// parts as the workgroup has threads, half of the waves take K and the others V.
template <class Tile>
struct ChunkLane {
  static constexpr int kParts = Tile::kHeadSize;
  static constexpr bool kBoth = kParts >= Tile::kThreads;
  static_assert(kBoth ? kParts == Tile::kThreads : 2 * kParts == Tile::kThreads);

  bool takes_key;
  bool takes_value;
  int key_token;
  int key_dim;
  int key_target;
  int value_token;  // the first of four
  int value_dim;
  int value_target;

  static OCTAVE_MEMBER ChunkLane of() {
    const int wave = wave_index();
    constexpr int kPartWaves = kParts / kWaveSize;
    const int lane = lane_index();
    const int key_dim = (2 * (wave % kPartWaves) + lane / 16) * 16;
    const int quad = wave % kPartWaves * 8 + lane / 4;
    return {kBoth || wave < kPartWaves,
            kBoth || wave >= kPartWaves,
            wmma_row(lane),
            key_dim,
            lane % 16 * Tile::kKeyStride + key_dim * 2,
            lane % 4 * 4,
            4 * quad,
            value_offset(4 * quad, lane % 4 / 2) + lane % 2 * 8};
  }
};

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
                             int count, const ChunkLane<Tile>& lane, ChunkPart& part) {
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

template <class Tile>
OCTAVE_DEVICE void write_part(const ChunkPart& part, const ChunkLane<Tile>& lane, TileBuffer<Tile>& tile) {
  if (lane.takes_key)
    __builtin_memcpy(__builtin_assume_aligned(tile.keys + lane.key_target, 16), &part.key, sizeof(part.key));
  if (!lane.takes_value) return;
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    const uint32_t selector = b % 2 == 0 ? 0x05040100u : 0x07060302u;
    const uint2 pairs = {__builtin_amdgcn_perm(part.value[1][b / 2], part.value[0][b / 2], selector),
                         __builtin_amdgcn_perm(part.value[3][b / 2], part.value[2][b / 2], selector)};
    *reinterpret_cast<uint2*>(tile.values + (lane.value_target ^ (b * 32))) = pairs;
  }
}

// A pair of elements: the highest bit of each that is NaN or Inf.
template <class Scalar>
OCTAVE_DEVICE uint32_t not_finite_bits(uint32_t pair) {
  constexpr uint32_t kLowestExponentBit = static_cast<Scalar>(1e5f) < kInfinity ? 0x0080u : 0x0400u;
  return ((pair & 0x7FFF7FFFu) + kLowestExponentBit * 0x10001u) & 0x80008000u;
}

// Whether a thread of the wave holds a V that is not finite.
template <class Scalar>
OCTAVE_DEVICE bool any_not_finite(const ChunkPart& part) {
  uint32_t found = 0;
#pragma unroll
  for (int t = 0; t < 4; ++t) found |= not_finite_bits<Scalar>(part.value[t][0]) | not_finite_bits<Scalar>(part.value[t][1]);
  return __builtin_amdgcn_ballot_w32(found != 0) != 0;
}

// Makes V that is not finite zero.
template <class Scalar>
OCTAVE_DEVICE void remove_not_finite(ChunkPart& part) {
#pragma unroll
  for (int t = 0; t < 4; ++t) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t found = not_finite_bits<Scalar>(part.value[t][i]) >> 15;
      part.value[t][i] &= ~(found * 0xFFFFu);
    }
  }
}

// Adds to a lane's row what `remove_not_finite` kept from the products with the tile, token by token: a product with
// what the row does not see would be NaN. values: the tile's first; visible: of its tokens, at most those that exist.
template <class Tile, class Scalar>
OCTAVE_DEVICE void add_not_finite(const Scalar* values, int64_t stride, WmmaOperand p, int visible,
                                  RowState<Tile>& row) {
  values += lane_index() / 16 * 8;
#pragma nounroll
  for (int token = 0; token < Tile::kTokens; ++token) {
    if (token < visible) {
      const float weight = unpack_low<Scalar>(p.words[0]);
#pragma unroll
      for (int n = 0; n < Tile::kSteps; ++n) {
        // Keeps the loads from being issued all at once, for which there are no registers.
        __builtin_amdgcn_sched_barrier(0);
        const auto eight = load<Eight<Scalar>>(__builtin_assume_aligned(values + 16 * n, 16));
#pragma unroll
        for (int r = 0; r < 8; ++r) {
          const auto value = static_cast<float>(eight.values[r]);
          row.out[n][r] = __builtin_fabsf(value) < kInfinity ? row.out[n][r] : row.out[n][r] + weight * value;
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
