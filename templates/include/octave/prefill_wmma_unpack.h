// The packed tiles of prefill_prefix's wmma tier: loads of a tile's words, and their unpacking into LDS as fp16.
//
// Values are LUT[code]·scale / 128, rounded once: half of what they stand for, so that no scale overflows.
#pragma once

#include "octave/codebook.h"
#include "octave/prefill_wmma_tile.h"

namespace octave {

inline constexpr float kUnpackedUnit = 2.0f;  // what 1.0 in LDS stands for

// Where a thread finds its part of a tile: bytes from the tile's first slot, and where its dims start in a word that
// others share. Rows of a tile lie within 4 GiB.
template <class Format, class Tile>
struct UnpackLane {
  TilePart<Tile> part;
  bool in_nibbles;  // the same for a wave
  uint32_t key;
  uint32_t key_high;
  uint32_t key_scale;
  uint32_t value;
  uint32_t value_high;
  uint32_t value_scale;
  int key_shift;
  int value_shift;
  int value_high_turn;

  static OCTAVE_MEMBER UnpackLane of(int row_stride) {
    UnpackLane self;
    self.part = TilePart<Tile>::of();
    self.in_nibbles = 32 * self.part.wave < Format::kKNibbleDims;
    const uint32_t slot = self.part.key_token * row_stride;
    const int dim = self.part.key_dim;
    const int plane_dim = dim - Format::kKNibbleDims;
    self.key = slot + (self.in_nibbles ? Format::kKNibbleOffset + dim / 2 : Format::kKPlaneOffset + plane_dim / 4);
    self.key_high = self.in_nibbles ? self.key + 4 : slot + Format::kKHighPlane + plane_dim / 32 * 4;
    self.key_scale = slot + Format::kKScaleOffset + dim / Format::kKBlockSize * 2;
    self.key_shift = plane_dim / 16 % 2 * 4;

    const uint32_t slots = self.part.value_token * row_stride;
    const int quad = self.part.value_dim / 4;
    self.value = slots + Format::kVOffset + (Format::kVBits == 4 ? quad / 2 : quad / 4) * 4;
    self.value_high = slots + Format::kVHighPlane + quad / 8 * 4;
    self.value_scale = slots + Format::kVScaleOffset;
    self.value_shift = Format::kVBits == 4 ? quad % 2 * 4 : quad % 4 * 2;
    // to the right, by which the quad's bit of each byte becomes bit 2
    self.value_high_turn = (quad % 8 + 30) % 32;
    return self;
  }
};

// The words of a thread's part.
template <class Format>
struct PackedPart {
  uint32_t key[2];
  uint32_t key_scale;
  uint32_t value[4];
  uint32_t value_high[Format::kVBits == 3 ? 4 : 1];
  uint32_t value_scale[4];
};

template <class Format, class Tile>
OCTAVE_DEVICE void load_part(const uint8_t* base, int row_stride, const UnpackLane<Format, Tile>& lane,
                             PackedPart<Format>& part) {
  const auto slots = slots_from(base);
  if (lane.part.takes_key) {
    part.key[0] = __builtin_amdgcn_raw_buffer_load_b32(slots, lane.key, 0, 0);
    part.key[1] = __builtin_amdgcn_raw_buffer_load_b32(slots, lane.key_high, 0, 0);
    part.key_scale = __builtin_amdgcn_raw_buffer_load_b16(slots, lane.key_scale, 0, 0);
  }
  if (lane.part.takes_value) {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int row = t * row_stride;
      part.value[t] = __builtin_amdgcn_raw_buffer_load_b32(slots, lane.value, row, 0);
      if constexpr (Format::kVBits == 3)
        part.value_high[t] = __builtin_amdgcn_raw_buffer_load_b32(slots, lane.value_high, row, 0);
      part.value_scale[t] = __builtin_amdgcn_raw_buffer_load_b16(slots, lane.value_scale, row, 0);
    }
  }
}

// Takes the tokens from the `count`th on for zero.
template <class Format, class Tile>
OCTAVE_DEVICE void cut_part(int count, const UnpackLane<Format, Tile>& lane, PackedPart<Format>& part) {
  part.key_scale = lane.part.key_token < count ? part.key_scale : 0u;
#pragma unroll
  for (int t = 0; t < 4; ++t) part.value_scale[t] = lane.part.value_token + t < count ? part.value_scale[t] : 0u;
}

// (byte - 128) / 128 of a pair of biased bytes: with 0x48 above it a byte is 8 + byte/128.
OCTAVE_DEVICE half2 unbias(uint32_t pair) { return bit_cast<half2>(pair) - half2{9.0f, 9.0f}; }

template <class Format, class Tile>
OCTAVE_DEVICE void unpack_key(const PackedPart<Format>& part, const UnpackLane<Format, Tile>& lane,
                              TileBuffer<Tile>& tile) {
  using Codebook = BiasedBook<Format>;
  uint32_t bytes[4];
  if (Format::kKNibbleDims > 0 && lane.in_nibbles) {
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) bytes[quad] = lookup4<Codebook>(nibble_codes(part.key[quad / 2], quad % 2));
  } else {
    const uint32_t high = part.key[1] >> lane.key_shift;
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) bytes[quad] = lookup3<Codebook>(plane_codes(part.key[0], high, quad));
  }
  const auto scale = bit_cast<_Float16>(static_cast<uint16_t>(part.key_scale));
  half2 values[8];
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      values[2 * quad + i] =
          unbias(permute_bytes(0x48484848u, bytes[quad], 0x04000400u + 0x00010000u + 0x00020002u * i)) *
          half2{scale, scale};
    }
  }
  __builtin_memcpy(__builtin_assume_aligned(tile.keys + lane.part.key_target, 16), values, sizeof(values));
}

template <class Format, class Tile>
OCTAVE_DEVICE void unpack_value(const PackedPart<Format>& part, const UnpackLane<Format, Tile>& lane,
                                TileBuffer<Tile>& tile) {
  using Codebook = BiasedBook<Format>;
  uint32_t bytes[4];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    if constexpr (Format::kVBits == 4) {
      bytes[t] = lookup4<Codebook>(nibble_codes(part.value[t] >> lane.value_shift, 0));
    } else {
      const uint32_t high = __builtin_amdgcn_alignbit(part.value_high[t], part.value_high[t], lane.value_high_turn);
      bytes[t] = lookup3<Codebook>(((part.value[t] >> lane.value_shift) & 0x03030303u) | (high & 0x04040404u));
    }
  }
  const half2 scales[2] = {bit_cast<half2>(part.value_scale[0] | part.value_scale[1] << 16),
                           bit_cast<half2>(part.value_scale[2] | part.value_scale[3] << 16)};
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    half2 values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t pair = permute_bytes(bytes[2 * i + 1], bytes[2 * i], 0x0C040C00u + 0x00010001u * b);
      values[i] = unbias(pair | 0x48004800u) * scales[i];
    }
    __builtin_memcpy(__builtin_assume_aligned(tile.values + (lane.part.value_target ^ (b * 32)), 8), values,
                     sizeof(values));
  }
}

}  // namespace octave
