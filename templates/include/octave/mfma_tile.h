// What the parts of decode's mfma tier share: a tile's sizes, a lane's place in it, and the loads of its packed words.
// prefill's takes the buffer resource from here.
#pragma once

#include "octave/codebook.h"
#include "octave/device.h"

namespace octave {

template <class Format, class Config>
struct MfmaTile {
  static constexpr int kHeadSize = Format::kHeadSize;
  static constexpr int kWaves = Config::kWaves;
  static constexpr int kThreads = kWaves * kWaveSize;
  static constexpr int kTokens = 16;
  static constexpr int kQueries = Config::kQueries;
  static constexpr int kRows = Config::kGqaGroup * kQueries;
  // Up to 8 rows: columns 0-7 hold the high halves, columns 8-15 the low ones.
  static constexpr bool kPaired = kRows <= 8;
  static constexpr int kColumns = kPaired ? 1 : (kRows + 15) / 16;
  static constexpr int kHalves = kPaired ? 1 : 2;
  static constexpr int kColumnRows = kPaired ? 8 : 16;
  static constexpr int kBlocks = kHeadSize / 64;
  static constexpr int kNibbleBlocks = Format::kKNibbleDims / 64;
  static constexpr int kPlaneBlocks = kBlocks - kNibbleBlocks;
  // Bytes of a row of the query in LDS: padded, so that 16 lanes that read 16 rows meet different banks.
  static constexpr int kQueryStride = kHeadSize + 16;
  // A lane unpacks kValueDims consecutive dims of V, one for each matrix instruction.
  static constexpr int kValueDims = kHeadSize / 16;
  static constexpr int kValueTiles = kValueDims;
  // How much of the outputs goes through LDS at a time, in quarters: 16 KiB, or 32 KiB of 16 rows of 256 dims and more.
  static constexpr int kMergeParts = kHeadSize > 256 ? 1 : kPaired && kHeadSize <= 128 ? 4 : 2;
  // Score accumulators that have scales of their own.
  static constexpr int kScales = Format::kKBlocks;
};

template <class Tile>
struct MfmaShared {
  union {
    struct {
      // High and low halves of the rows' codes.
      alignas(16) int8_t query[2][Tile::kColumns * Tile::kColumnRows][Tile::kQueryStride];
      float query_scale[Tile::kColumns * Tile::kColumnRows];
      int request[Tile::kQueries];
      int length[Tile::kQueries];
      // Of the waves: sums of each row's four lanes; its reference and the bias of its outputs.
      alignas(16) float sum[Tile::kColumns][Tile::kWaves][16][4];
      float2 level[Tile::kColumns][Tile::kWaves][16];
    };
    alignas(16) float merge[Tile::kWaves][Tile::kColumnRows][Tile::kHeadSize / 4 * Tile::kMergeParts];
  };
};

template <class Format, class Tile>
struct TileWords {
  static constexpr int kDims = Tile::kValueDims;
  uint32_t nibbles[max(1, Tile::kNibbleBlocks)][2];
  uint32_t low[max(1, Tile::kPlaneBlocks)];
  uint32_t high[max(1, Tile::kPlaneBlocks)];
  // V of four tokens: nibbles, or the two planes.
  uint32_t value[4][Format::kVBits == 4 ? max(1, kDims / 8) : max(1, kDims / 16)];
  uint32_t value_high[4][Format::kVBits == 4 ? 1 : max(1, kDims / 32)];
  // fp16, the scales of K of a token in pairs; one of V.
  uint32_t key_scale[4][(Tile::kScales + 1) / 2];
  uint32_t value_scale[4];

  // Keeps their registers until here: what takes them before would wait for the loads of a tile that is not there.
  OCTAVE_MEMBER void hold() const {
    if constexpr (Tile::kNibbleBlocks > 0) hold_all(nibbles);
    hold_all(value);
    if constexpr (Format::kVBits == 3) hold_all(value_high);
    hold_all(key_scale);
    if constexpr (Tile::kPlaneBlocks > 0) {
#pragma unroll
      for (uint32_t word : low) asm volatile("" ::"v"(word));
#pragma unroll
      for (uint32_t word : high) asm volatile("" ::"v"(word));
    }
    // In pairs: apart they cost the loop of two columns registers.
    asm volatile("" ::"v"(value_scale[0] | value_scale[1] << 16), "v"(value_scale[2] | value_scale[3] << 16));
  }

 private:
  template <class T, int kRows, int kCount>
  static OCTAVE_MEMBER void hold_all(const T (&words)[kRows][kCount]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) asm volatile("" ::"v"(words[i][j]));
    }
  }
};

// A lane's place in a tile, in bytes from its first token: 16 dims of each block of one token of K, and kValueDims dims
// of four tokens of V. Shifts say where its dims start in a dword that other lanes share.
template <class Format, class Tile>
struct MfmaLane {
  uint32_t nibbles;
  uint32_t key;
  uint32_t key_high;
  uint32_t value;
  uint32_t value_high;
  uint32_t scale;
  int key_shift;
  int value_shift;
  int value_high_shift;
  // kPlaces. Where only K's 4-bit dims are looked up so, the register is worth more.
  uint32_t places;

  static OCTAVE_MEMBER MfmaLane of(int row_stride) {
    const int lane = lane_index() % 16;
    const int group = lane_index() / 16;
    const int dim = lane * Tile::kValueDims;
    MfmaLane self;
    self.nibbles = lane * row_stride + 8 * group;
    self.key = lane * row_stride + 4 * group;
    self.key_high = lane * row_stride + group / 2 * 4;
    self.key_shift = group % 2 * 4;
    self.scale = 4 * group * row_stride;
    self.value = self.scale + (Format::kVBits == 4 ? dim / 8 : dim / 16) * 4;
    self.value_high = self.scale + dim / 32 * 4;
    self.value_shift = dim % 16 / 4 * 2;
    self.value_high_shift = dim % 32 / 4;
    self.places = Format::kVBits == 4 ? opaque(kPlaces) : kPlaces;
    return self;
  }
  // As if the offsets depended on the tile at `base`: the compiler then adds constants to them in the loads, and keeps
  // no sum of theirs in a register from tile to tile.
  OCTAVE_MEMBER void next_tile(const uint8_t* base) {
    if constexpr (Tile::kNibbleBlocks > 0) asm("" : "+v"(nibbles) : "s"(base));
    if constexpr (Tile::kPlaneBlocks > 0) asm("" : "+v"(key), "+v"(key_high) : "s"(base));
    asm("" : "+v"(value), "+v"(scale) : "s"(base));
    if constexpr (Format::kVBits == 3) asm("" : "+v"(value_high) : "s"(base));
  }
};

// A buffer resource of the slots from `base` on: loads take a lane offset, a scalar offset and a constant, so that no
// address is computed per lane. Not there: loads read no memory and give zeros.
OCTAVE_DEVICE __amdgpu_buffer_rsrc_t buffer_of(const uint8_t* base, bool there = true) {
  return __builtin_amdgcn_make_buffer_rsrc(const_cast<uint8_t*>(base), 0, uniform(there ? -1 : 0), 0x00027000);
}

template <int kCount>
OCTAVE_DEVICE void load_words(__amdgpu_buffer_rsrc_t buffer, uint32_t lane_offset, int row, uint32_t (&words)[kCount]) {
  static_assert(1 <= kCount && kCount <= 4);
  if constexpr (kCount == 1) {
    words[0] = __builtin_amdgcn_raw_buffer_load_b32(buffer, lane_offset, row, 0);
  } else if constexpr (kCount == 2) {
    const auto pair = __builtin_amdgcn_raw_buffer_load_b64(buffer, lane_offset, row, 0);
    words[0] = pair[0];
    words[1] = pair[1];
  } else if constexpr (kCount == 3) {
    const auto pair = __builtin_amdgcn_raw_buffer_load_b64(buffer, lane_offset, row, 0);
    words[0] = pair[0];
    words[1] = pair[1];
    words[2] = __builtin_amdgcn_raw_buffer_load_b32(buffer, lane_offset + 8, row, 0);
  } else {
    const auto four = __builtin_amdgcn_raw_buffer_load_b128(buffer, lane_offset, row, 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = four[i];
  }
}

template <class Format, class Tile>
OCTAVE_DEVICE void load_key(const uint8_t* base, int row_stride, const MfmaLane<Format, Tile>& lane,
                            TileWords<Format, Tile>& words, bool there = true) {
  const auto buffer = buffer_of(base, there);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    load_words(buffer, lane.scale + Format::kKScaleOffset, t * row_stride, words.key_scale[t]);
  }
#pragma unroll
  for (int b = 0; b < Tile::kNibbleBlocks; ++b) {
    const auto pair =
        __builtin_amdgcn_raw_buffer_load_b64(buffer, lane.nibbles + (Format::kKNibbleOffset + 32 * b), 0, 0);
    words.nibbles[b][0] = pair[0];
    words.nibbles[b][1] = pair[1];
  }
#pragma unroll
  for (int b = 0; b < Tile::kPlaneBlocks; ++b) {
    words.low[b] = __builtin_amdgcn_raw_buffer_load_b32(buffer, lane.key + (Format::kKPlaneOffset + 16 * b), 0, 0);
    words.high[b] = __builtin_amdgcn_raw_buffer_load_b32(buffer, lane.key_high + (Format::kKHighPlane + 8 * b), 0, 0);
  }
}

template <class Format, class Tile>
OCTAVE_DEVICE void load_value(const uint8_t* base, int row_stride, const MfmaLane<Format, Tile>& lane,
                              TileWords<Format, Tile>& words, bool there = true) {
  const auto buffer = buffer_of(base, there);
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const int row = t * row_stride;
    load_words(buffer, lane.value + Format::kVOffset, row, words.value[t]);
    if constexpr (Format::kVBits == 3)
      load_words(buffer, lane.value_high + Format::kVHighPlane, row, words.value_high[t]);
    words.value_scale[t] = static_cast<uint16_t>(
        __builtin_amdgcn_raw_buffer_load_b16(buffer, lane.scale + (Format::kKScaleOffset + 2 * Tile::kScales), row, 0));
  }
}

}  // namespace octave
