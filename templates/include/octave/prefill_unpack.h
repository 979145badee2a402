// Packed slots to LDS for prefill's mfma tier: K as int8, V as fp16, scales as fp32. Each thread unpacks 16 dims of a
// token of K and 4 dims of four tokens of V.
#pragma once

#include "octave/codebook.h"
#include "octave/mfma_tile.h"
#include "octave/prefill_mfma.h"

namespace octave {

template <class Format, class Tile>
struct PrefillShared {
  // 16-byte chunk c of a token of K lies at chunk c ^ (token % 8), so that neighbouring tokens meet different banks.
  alignas(16) int4 keys[2][Tile::kTokens][Tile::kHeadSize / 16];
  alignas(16) ValueBuffer<Tile> values[2];
  // K's scales and behind them V's
  alignas(16) float scales[2][Tile::kHeadSize / 16][Tile::kTokens];
};

// What a thread brings in, as it is in memory.
template <class Format, class Tile>
struct PackedUnit {
  static constexpr int kBlocks = Tile::kHeadSize / 64;
  static constexpr int kNibbleBlocks = Format::kKNibbleDims / 64;
  static constexpr int kScales = Format::kKBlocks;

  // in bytes from the first token of the wave's subtile
  uint32_t key;
  uint32_t key_second;
  uint32_t scale;
  uint32_t value;
  uint32_t value_high;
  int row_stride;
  int block;  // of K
  int key_shift;
  int value_shift;
  int value_high_turn;
  ValueUnit<Tile> unit;

  uint32_t key_words[2];
  uint32_t scale_word;
  uint32_t value_words[4];
  uint32_t value_high_words[4];

  static OCTAVE_MEMBER PackedUnit of(int row_stride) {
    PackedUnit self;
    const int token = lane_index() % 16;
    const int group = lane_index() / 16;
    self.row_stride = row_stride;
    self.block = wave_index() % Tile::kSubtileWaves;
    self.key_shift = group % 2 * 4;
    self.key = token * row_stride;
    if (self.block < kNibbleBlocks) {
      self.key += Format::kKNibbleOffset + 32 * self.block + 8 * group;
      self.key_second = self.key + 4;
    } else {
      const int plane_block = self.block - kNibbleBlocks;
      self.key_second = self.key + Format::kKHighPlane + 8 * plane_block + group / 2 * 4;
      self.key += Format::kKPlaneOffset + 16 * plane_block + 4 * group;
    }
    self.scale = token * row_stride + Format::kKScaleOffset + 2 * min(4 * self.block + group, kScales);
    self.unit = ValueUnit<Tile>::of();
    const uint32_t rows = 4 * self.unit.group * row_stride;
    const int quad = self.unit.quad;
    self.value = rows + Format::kVOffset + (Format::kVBits == 4 ? quad / 2 : quad / 4) * 4;
    self.value_shift = Format::kVBits == 4 ? quad % 2 * 4 : quad % 4 * 2;
    self.value_high = rows + Format::kVHighPlane + quad / 8 * 4;
    self.value_high_turn = (quad % 8 - 2) & 31;  // to bit 2 of each byte
    return self;
  }

  OCTAVE_MEMBER void load_keys(const uint8_t* base) {
    const auto buffer = buffer_of(base);
    key_words[0] = __builtin_amdgcn_raw_buffer_load_b32(buffer, key, 0, 0);
    key_words[1] = __builtin_amdgcn_raw_buffer_load_b32(buffer, key_second, 0, 0);
    scale_word = static_cast<uint16_t>(__builtin_amdgcn_raw_buffer_load_b16(buffer, scale, 0, 0));
  }
  OCTAVE_MEMBER void load_values(const uint8_t* base) {
    const auto buffer = buffer_of(base);
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      value_words[t] = __builtin_amdgcn_raw_buffer_load_b32(buffer, value, t * row_stride, 0);
      if constexpr (Format::kVBits == 3)
        value_high_words[t] = __builtin_amdgcn_raw_buffer_load_b32(buffer, value_high, t * row_stride, 0);
    }
  }

  OCTAVE_MEMBER void store_keys(PrefillShared<Format, Tile>& shared, int buffer) const {
    const int group = lane_index() / 16;
    const int token = 16 * unit.subtile + lane_index() % 16;
    shared.scales[buffer][4 * block + group][token] =
        static_cast<float>(bit_cast<_Float16>(static_cast<uint16_t>(scale_word)));
    int4 quads;
    if (block < kNibbleBlocks) {
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) quads[quad] = lookup4<Format>(nibble_codes(key_words[quad / 2], quad % 2));
    } else {
#pragma unroll
      for (int quad = 0; quad < 4; ++quad)
        quads[quad] = lookup3<Format>(plane_codes(key_words[0], key_words[1] >> key_shift, quad));
    }
    shared.keys[buffer][token][(4 * block + group) ^ (token % 8)] = quads;
  }
  // dims 2·half and 2·half + 1 of the quad
  OCTAVE_MEMBER void unpack_values(int half, uint2 (&dims)[2]) const {
    using Low = HalfBook<Format, 0>;
    using High = HalfBook<Format, 1>;
    uint32_t codes[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      codes[t] = value_words[t] >> value_shift;
      if constexpr (Format::kVBits == 3) {
        const uint32_t high = __builtin_amdgcn_alignbit(value_high_words[t], value_high_words[t], value_high_turn);
        codes[t] = (codes[t] & 0x03030303u) | (high & 0x04040404u);
      }
    }
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const uint32_t mixed = pair_bytes(codes[2 * pair], codes[2 * pair + 1], half);
      uint32_t low, high;
      if constexpr (Format::kVBits == 4) {
        low = lookup4<Low>(mixed);
        high = lookup4<High>(mixed);
      } else {
        low = lookup3<Low>(mixed);
        high = lookup3<High>(mixed);
      }
      dims[0][pair] = pair_bytes(low, high, 0);
      dims[1][pair] = pair_bytes(low, high, 1);
    }
  }
};

}  // namespace octave
