// Query rows and scores of decode's portable tier: both int8, dot4, K straight from its packed words.
#pragma once

#include "octave/codebook.h"
#include "octave/decode_group.h"
#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/portable_tile.h"
#include "octave/vector.h"

namespace octave {

// Rotates one query row like K and quantizes it to int8 with one scale per 64 dims: absmax a, scale a/127,
// code = round-half-even(x · (127/a)). A block that is not finite gets the scale NaN, and so the row's output is NaN.
// A row without a source is zero.
template <class Format, class Tile, class Scalar>
OCTAVE_DEVICE void quantize_query_row(const Scalar* source, const uint32_t* k_signs, float unit,
                                      DecodeShared<Tile>& shared, int row) {
  constexpr int kCount = kElements<Tile::kHeadSize>;
  constexpr int kLanes = Tile::kQueryBlock / kCount;
  float x[kCount] = {};
  if (source != nullptr) {
    load_vector(source, x);
    rotate_forward<Format::kKBlockSize>(k_signs, x);
  }
  float largest = __builtin_fabsf(x[0]);
#pragma unroll
  for (int i = 1; i < kCount; ++i) largest = __builtin_fmaxf(largest, __builtin_fabsf(x[i]));
  largest = group_max<kLanes>(largest);
  const bool finite = largest < kInfinity;
  const bool used = finite && largest >= kQueryFloor;
  const float inverse = used ? 127.0f / largest : 0.0f;
  auto* codes = reinterpret_cast<int8_t*>(shared.query[row]);
  const int dim = lane_index() * kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    codes[dim + i] = static_cast<int8_t>(used ? __builtin_rintf(x[i] * inverse) : 0.0f);
  }
  if (lane_index() % kLanes == 0) {
    shared.query_scale[row][dim / Tile::kQueryBlock] = used     ? largest / 127.0f * unit
                                                       : finite ? 0.0f
                                                                : __builtin_nanf("");
  }
}

// Where a lane finds its 16 dims of K in a slot.
template <class Format>
struct KeyLane {
  bool in_nibbles;
  int first_offset;   // dword: 8 dims of 4-bit codes, or the 2-bit plane of 16 dims
  int second_offset;  // dword: the next 8 dims, or the 1-bit plane of 32 dims
  int high_shift;     // where the lane's 16 dims start in each byte of the 1-bit plane
  int scale_offset;

  static OCTAVE_MEMBER KeyLane of(int dim) {
    KeyLane lane;
    lane.in_nibbles = dim < Format::kKNibbleDims;
    const int plane_dim = dim - Format::kKNibbleDims;
    lane.first_offset = lane.in_nibbles ? Format::kKNibbleOffset + dim / 2 : Format::kKPlaneOffset + plane_dim / 4;
    lane.second_offset = lane.in_nibbles ? lane.first_offset + 4 : Format::kKHighPlane + plane_dim / 32 * 4;
    lane.high_shift = lane.in_nibbles ? 0 : plane_dim / 16 % 2 * 4;
    lane.scale_offset = Format::kKScaleOffset + dim / Format::kKBlockSize * 2;
    return lane;
  }
};

// int8 values of a lane's 16 dims of K.
template <class Format>
OCTAVE_DEVICE int4 unpack_key(const KeyLane<Format>& lane, uint32_t first, uint32_t second) {
  uint32_t values[4];
  if constexpr (Format::kKNibbleDims < Format::kHeadSize) {
#pragma unroll
    for (int quad = 0; quad < 4; ++quad)
      values[quad] = lookup3<Format>(plane_codes(first, second >> lane.high_shift, quad));
  }
  if constexpr (Format::kKNibbleDims > 0) {
    if (Format::kKNibbleDims == Format::kHeadSize || lane.in_nibbles) {
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) {
        values[quad] = lookup4<Format>(nibble_codes(quad < 2 ? first : second, quad % 2));
      }
    }
  }
  return int4{static_cast<int32_t>(values[0]), static_cast<int32_t>(values[1]), static_cast<int32_t>(values[2]),
              static_cast<int32_t>(values[3])};
}

template <class Format, class Tile>
OCTAVE_DEVICE void score_tile(const uint8_t* cache, DecodeShared<Tile>& shared) {
  const int part = thread_index() % Tile::kKeyLanes;
  const int group = thread_index() / Tile::kKeyLanes;
  const auto lane = KeyLane<Format>::of(part * Tile::kKeyDims);
  int4 keys[Tile::kKeyTokens];
  float scales[Tile::kKeyTokens];
#pragma unroll
  for (int i = 0; i < Tile::kKeyTokens; ++i) {
    const uint8_t* slot = cache + shared.slot_offset[group + i * Tile::kKeyGroups];
    const auto first = *reinterpret_cast<const uint32_t*>(slot + lane.first_offset);
    const auto second = *reinterpret_cast<const uint32_t*>(slot + lane.second_offset);
    keys[i] = unpack_key(lane, first, second);
    scales[i] = static_cast<float>(*reinterpret_cast<const _Float16*>(slot + lane.scale_offset));
  }
#pragma unroll 2
  for (int row = 0; row < Tile::kRows; ++row) {
    const int4 query = shared.query[row][part];
    const float query_scale = shared.query_scale[row][part * Tile::kKeyDims / Tile::kQueryBlock];
#pragma unroll
    for (int i = 0; i < Tile::kKeyTokens; ++i) {
      int32_t dot = 0;
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) dot = dot4(keys[i][quad], query[quad], dot);
      const float score = group_sum<Tile::kKeyLanes>(static_cast<float>(dot) * (query_scale * scales[i]));
      if (part == 0) shared.scores[group + i * Tile::kKeyGroups][row] = score;
    }
  }
}

}  // namespace octave
