// What the parts of the wmma tier of decode share: a tile's sizes, the LDS, where its tokens lie, loads of packed
// words.
#pragma once

#include "octave/device.h"
#include "octave/wmma.h"

namespace octave {

template <class Format, class Config>
struct WmmaTile {
  static constexpr int kHeadSize = Format::kHeadSize;
  // A dword of four bytes holds the codes of one dim of V of four tokens, one from the tokens of each wave.
  static constexpr int kWaves = Config::kWaves;
  static_assert(kWaves == 4);
  static constexpr int kThreads = kWaves * kWaveSize;
  // Tokens whose scores a wave computes, and tokens of a tile.
  static constexpr int kWaveTokens = 16;
  static constexpr int kTokens = kWaves * kWaveTokens;
  static constexpr int kQueries = Config::kQueries;
  static constexpr int kRows = Config::kGqaGroup * kQueries;
  static constexpr int kColumns = (kRows + 15) / 16;
  static constexpr int kBlocks = kHeadSize / 64;
  static constexpr int kNibbleBlocks = Format::kKNibbleDims / 64;
  static constexpr int kPlaneBlocks = kBlocks - kNibbleBlocks;
  // Score accumulators that have scales of their own.
  static constexpr int kScales = Format::kKBlocks;
  // Dims of V that a wave accumulates: 16 at once, of which each half of its lanes unpacks 8.
  static constexpr int kWaveDims = kHeadSize / kWaves;
  static constexpr int kLaneDims = kWaveDims / 2;
  static constexpr int kChunks = kLaneDims / 8;
  // Bytes of V's words in a lane whose dims go into one chunk.
  static constexpr int kChunkBytes = 4 / kChunks;
};

template <class Tile>
struct WmmaShared {
  // Rows of operands are padded by 16 bytes, so that lanes that read neighbouring rows meet different banks.
  alignas(16) _Float16 query[Tile::kColumns * 16][Tile::kHeadSize + 8];
  // p · scale of V as operands: [tile parity][column][step of 16 tokens][half of the step][row][token].
  alignas(16) _Float16 weights[2][Tile::kColumns][Tile::kWaves][2][16][8];
  // Each wave's own: 16 rows (tokens of K, or dims of V) by 64 (dims of K, or tokens of V), and the tokens' scales.
  struct Wave {
    alignas(16) _Float16 operand[16][64 + 8];
    alignas(16) float scale[Tile::kScales + 1][16];
  } wave[Tile::kWaves];
  // Which lanes of each wave found their reference too small.
  alignas(16) uint32_t large[2][Tile::kWaves];
  float exchange[Tile::kWaves][Tile::kColumns * 16];
  float query_scale[Tile::kColumns * 16];
  // Where a row's partials go, in elements; -1 for no row. Kept here, for scalar registers are few.
  int64_t partial[Tile::kColumns * 16];
  int request[Tile::kQueries];
  int length[Tile::kQueries];
};

// A lane's place in 16 tokens, in bytes from the first: 32 dims of each block of one token of K, kLaneDims of one of V.
template <class Format, class Tile>
struct WmmaLane {
  int wave;
  uint32_t nibbles;
  uint32_t key;
  uint32_t key_high;
  uint32_t scale;
  uint32_t value;
  uint32_t value_high;
  int value_high_shift;

  static OCTAVE_MEMBER WmmaLane of(int row_stride) {
    const int row = lane_index() % 16;
    const int half = lane_index() / 16;
    // `wmma_row`, so that lanes of half h get the scores of tokens 8h to 8h + 7.
    const int token = row % 2 * 8 + row / 2;
    WmmaLane self;
    self.wave = wave_index();
    const int dim = self.wave * Tile::kWaveDims + half * Tile::kLaneDims;
    self.scale = token * row_stride + Format::kKScaleOffset;
    self.nibbles = token * row_stride + Format::kKNibbleOffset + 16 * half;
    self.key = token * row_stride + Format::kKPlaneOffset + 8 * half;
    self.key_high = token * row_stride + Format::kKHighPlane + 4 * half;
    self.value = row * row_stride + Format::kVOffset + dim * Format::kVBits / 8;
    if constexpr (Format::kVBits == 3) self.value = row * row_stride + Format::kVOffset + dim / 4;
    self.value_high = row * row_stride + Format::kVHighPlane + dim / 32 * 4;
    self.value_high_shift = dim % 32 / 4;
    return self;
  }
};

template <int kCount>
struct Words {
  uint32_t word[kCount];
};

template <int kCount>
OCTAVE_DEVICE Words<kCount> load_words(__amdgpu_buffer_rsrc_t slots, uint32_t lane_offset) {
  static_assert(1 <= kCount && kCount <= 4);
  if constexpr (kCount == 1) {
    return {__builtin_amdgcn_raw_buffer_load_b32(slots, lane_offset, 0, 0)};
  } else if constexpr (kCount == 2) {
    return bit_cast<Words<2>>(__builtin_amdgcn_raw_buffer_load_b64(slots, lane_offset, 0, 0));
  } else if constexpr (kCount == 3) {
    const auto three = __builtin_amdgcn_raw_buffer_load_b96(slots, lane_offset, 0, 0);
    return {{three[0], three[1], three[2]}};
  } else {
    return bit_cast<Words<4>>(__builtin_amdgcn_raw_buffer_load_b128(slots, lane_offset, 0, 0));
  }
}

template <class Format, class Tile>
struct KeyWords {
  static constexpr int kScaleWords = (Tile::kScales + 2) / 2;
  Words<4> nibbles[max(1, Tile::kNibbleBlocks)];
  Words<2> low[max(1, Tile::kPlaneBlocks)];
  Words<1> high[max(1, Tile::kPlaneBlocks)];
  Words<kScaleWords> scales;

  // Of block `b` of K, and behind them of V.
  OCTAVE_MEMBER float scale(int b) const {
    _Float16 pairs[2 * kScaleWords];
    __builtin_memcpy(pairs, &scales, sizeof(pairs));
    return static_cast<float>(pairs[b]);
  }
};

// V of four tokens, 16 tokens apart: nibbles, or the two planes.
template <class Format, class Tile>
struct ValueWords {
  static constexpr int kWords = Format::kVBits == 4 ? Tile::kLaneDims / 8 : Tile::kLaneDims / 16;
  Words<kWords> low[Tile::kWaves];
  Words<1> high[Tile::kWaves];
};

// Block `b` of K; with the first one the scales.
template <class Format, class Tile>
OCTAVE_DEVICE void load_key(__amdgpu_buffer_rsrc_t slots, const WmmaLane<Format, Tile>& lane, int b,
                            KeyWords<Format, Tile>& words) {
  if (b == 0) words.scales = load_words<KeyWords<Format, Tile>::kScaleWords>(slots, lane.scale);
  if (b < Tile::kNibbleBlocks) {
    words.nibbles[b] = load_words<4>(slots, lane.nibbles + 32 * b);
  } else {
    const int plane_block = b - Tile::kNibbleBlocks;
    words.low[plane_block] = load_words<2>(slots, lane.key + 16 * plane_block);
    words.high[plane_block] = load_words<1>(slots, lane.key_high + 8 * plane_block);
  }
}

template <class Format, class Tile, class Slots>
OCTAVE_DEVICE void load_value(Slots slots_of, const WmmaLane<Format, Tile>& lane, ValueWords<Format, Tile>& words) {
#pragma unroll
  for (int t = 0; t < Tile::kWaves; ++t) {
    const auto slots = slots_of(t);
    words.low[t] = load_words<ValueWords<Format, Tile>::kWords>(slots, lane.value);
    if constexpr (Format::kVBits == 3) words.high[t] = load_words<1>(slots, lane.value_high);
  }
}

// Where tokens lie, 16 at a time: block sizes are multiples of 16, and so are the places where splits begin.
struct TokenWalk {
  int token;
  int page;
  int row;

  static OCTAVE_MEMBER TokenWalk from(int token, int block_size) {
    return {token, token / block_size, token % block_size};
  }
  OCTAVE_MEMBER void advance(int block_size) {
    token += 16;
    row += 16;
    // 1 at the end of a block: by scalar arithmetic, where a comparison would pass through a vector register.
    const int wraps = static_cast<int>(static_cast<uint32_t>(block_size - 1 - row) >> 31);
    page += wraps;
    row &= wraps - 1;
  }
};

// Where a tile's four times 16 tokens lie.
struct TilePlaces {
  int block[4];
  int row[4];
  // Of the 16 tokens whose scores this wave computes
  int own_block;
  int own_row;
};

// The same, asked of the block table. The vector memory answers, whose waits are in order: a scalar load would be
// waited for with the next read of LDS. Tokens at `end` and behind it are not looked up: `inside`, a place that exists,
// stands for them.
struct PendingPlaces {
  int block[4];
  int row[4];

  static OCTAVE_MEMBER PendingPlaces ask(const int32_t* blocks, TokenWalk& walk, const TokenWalk& inside, int end,
                                         int block_size) {
    const auto table = slots_from(reinterpret_cast<const uint8_t*>(blocks));
    PendingPlaces self;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const bool exists = walk.token < end;
      const int page = exists ? walk.page : inside.page;
      self.block[t] = static_cast<int>(__builtin_amdgcn_raw_buffer_load_b32(table, 0, 4 * page, 0));
      self.row[t] = exists ? walk.row : inside.row;
      walk.advance(block_size);
    }
    return self;
  }
  OCTAVE_MEMBER TilePlaces wait(int wave) const {
    TilePlaces places;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      places.block[t] = uniform(block[t]);
      places.row[t] = row[t];
      places.own_block = t == 0 || t == wave ? places.block[t] : places.own_block;
      places.own_row = t == 0 || t == wave ? places.row[t] : places.own_row;
    }
    return places;
  }
};

}  // namespace octave
