// What the parts of decode's portable tier share: a tile's sizes, the LDS, where its tokens lie.
#pragma once

#include "octave/device.h"

namespace octave {

// What follows from the shape: Format and Config are the structs of the generated file.
template <class Format, class Config>
struct DecodeTile {
  static constexpr int kHeadSize = Format::kHeadSize;
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kWaves = kThreads / kWaveSize;
  static constexpr int kTokens = Config::kTileTokens;
  static constexpr int kQueries = Config::kQueries;
  static constexpr int kRows = Config::kGqaGroup * kQueries;
  static constexpr int kRowStride = (kRows + 3) / 4 * 4;
  // Query scales: one for 64 dims, whatever the rotation of K.
  static constexpr int kQueryBlock = 64;
  static constexpr int kQueryBlocks = kHeadSize / kQueryBlock;
  // Scores: a lane takes 16 dims of a token, and tokens kKeyGroups apart.
  static constexpr int kKeyDims = 16;
  static constexpr int kKeyLanes = kHeadSize / kKeyDims;
  static constexpr int kKeyGroups = kThreads / kKeyLanes;
  static constexpr int kKeyTokens = kTokens / kKeyGroups;
  // Outputs: a lane takes kValueDims dims of a token, and tokens kValueGroups apart.
  static constexpr int kValueDims = Config::kValueDimsPerLane;
  static constexpr int kValueLanes = kHeadSize / kValueDims;
  static constexpr int kValueGroups = kThreads / kValueLanes;
  static constexpr int kMergeRows = 2;
  static_assert(kKeyTokens * kKeyGroups == kTokens && kValueGroups * kValueLanes == kThreads);
};

template <class Tile>
struct DecodeShared {
  union {
    struct {
      alignas(16) int4 query[Tile::kRows][Tile::kHeadSize / 16];
      // Scores, then probabilities times the value scale.
      alignas(16) float scores[Tile::kTokens][Tile::kRowStride];
    };
    float merge[Tile::kValueGroups][Tile::kMergeRows][Tile::kHeadSize];
  };
  int request[Tile::kQueries];  // of each query token; -1 for padding
  int length[Tile::kQueries];   // tokens that it sees
  float query_scale[Tile::kRows][Tile::kQueryBlocks];
  float maximum[Tile::kRowStride];
  float sum[Tile::kRowStride];
  alignas(16) float rescale[Tile::kRowStride];
  int64_t slot_offset[Tile::kTokens];
  float value_scale[Tile::kTokens];
};

// Slot offsets and value scales of the tile's tokens. Past the end the last token is taken again: its probability is
// zero there, and nothing beyond the context is read.
template <class Format, class Tile>
OCTAVE_DEVICE void locate_tile(const uint8_t* cache, const int32_t* blocks, int64_t block_stride, int64_t row_stride,
                               int block_size, int tile, int count, DecodeShared<Tile>& shared) {
  for (int i = thread_index(); i < Tile::kTokens; i += Tile::kThreads) {
    const int token = tile + min(i, count - 1);
    const int64_t block = blocks[token / block_size];
    const int64_t offset = block * block_stride + token % block_size * row_stride;
    const auto scale = *reinterpret_cast<const _Float16*>(cache + offset + Format::kVScaleOffset);
    shared.slot_offset[i] = offset;
    shared.value_scale[i] = static_cast<float>(scale) * (1.0f / Format::kLutOne);
  }
}

}  // namespace octave
