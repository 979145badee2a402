// Scores of decode's mfma tier: the query as two int8 halves of a 16-bit integer, K as int8 from the codebook.
#pragma once

#include "octave/lanes.h"
#include "octave/mfma_tile.h"

namespace octave {

// Of the integers that the largest value of a query row becomes.
inline constexpr float kQueryRange = 127.0f * 128.0f;

// a·b + c with a the fp16 in the lower or upper half of a word: one instruction, which the compiler would split to pair
// two of them.
OCTAVE_DEVICE float fma_half(uint32_t word, bool upper, float b, float c) {
  float result;
  if (upper) {
    asm("v_fma_mix_f32 %0, %1, %2, %3 op_sel:[1,0,0] op_sel_hi:[1,0,0]" : "=v"(result) : "v"(word), "v"(b), "v"(c));
  } else {
    asm("v_fma_mix_f32 %0, %1, %2, %3 op_sel_hi:[1,0,0]" : "=v"(result) : "v"(word), "v"(b), "v"(c));
  }
  return result;
}

OCTAVE_DEVICE int4 mfma_i8(uint32_t a0, uint32_t a1, uint32_t b0, uint32_t b1, int4 c) {
  const auto a = static_cast<int64_t>((static_cast<unsigned long>(a1) << 32) | a0);
  const auto b = static_cast<int64_t>((static_cast<unsigned long>(b1) << 32) | b0);
  return __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c, 0, 0, 0);
}

// The query's operand: 16 dims of each block of a row. One column's stays in registers; more are read for each tile.
template <class Tile>
struct QueryFragments {
  static constexpr bool kInRegisters = Tile::kColumns == 1;
  const MfmaShared<Tile>* shared;
  int offset;
  int4 kept[kInRegisters ? Tile::kHalves : 1][kInRegisters ? Tile::kBlocks : 1];

  static OCTAVE_MEMBER QueryFragments of(const MfmaShared<Tile>& shared, int row) {
    QueryFragments self;
    self.shared = &shared;
    const int half = Tile::kPaired ? lane_index() % 16 / 8 : 0;
    self.offset = (half * Tile::kColumns * Tile::kColumnRows + row) * Tile::kQueryStride + lane_index() / 16 * 16;
    if constexpr (kInRegisters) {
#pragma unroll
      for (int h = 0; h < Tile::kHalves; ++h) {
#pragma unroll
        for (int b = 0; b < Tile::kBlocks; ++b) self.kept[h][b] = self.read(0, h, b);
      }
      // They are waited for here, not in the loop over tiles, where that would be for the loop's scalar loads as well.
#pragma unroll
      for (int h = 0; h < Tile::kHalves; ++h) {
#pragma unroll
        for (int b = 0; b < Tile::kBlocks; ++b) asm("" : "+v"(self.kept[h][b]));
      }
    }
    return self;
  }
  OCTAVE_MEMBER int4 read(int column, int half, int block) const {
    const int row = half * Tile::kColumns * Tile::kColumnRows + column * 16;
    return *reinterpret_cast<const int4*>(&shared->query[0][0][0] + offset + row * Tile::kQueryStride + 64 * block);
  }
  OCTAVE_MEMBER int4 get(int column, int half, int block) const {
    if constexpr (kInRegisters) {
      return kept[half][block];
    } else {
      return read(column, half, block);
    }
  }
  // Keeps the compiler from holding all of it in registers from tile to tile.
  OCTAVE_MEMBER void next_tile(const uint8_t* base) {
    if constexpr (!kInRegisters) asm("" : "+v"(offset) : "s"(base));
  }
};

// Scores of the tile times K's scales, before the query's scale: tokens 4·(lane/16) + r of row lane % 16.
template <class Format, class Tile>
OCTAVE_DEVICE void score_tile(const TileWords<Format, Tile>& words, const MfmaLane<Format, Tile>& lane,
                              const QueryFragments<Tile>& query, float pair_weight, float4 (&scores)[Tile::kColumns]) {
  // Halves in two instructions share an accumulator where each block is scaled at once: fewer registers.
  constexpr bool kShared = !Tile::kPaired && Tile::kScales > 1;
  int4 sums[Tile::kColumns][kShared ? 1 : Tile::kHalves] = {};
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; ++b) {
    uint32_t keys[4];
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
      if (b < Tile::kNibbleBlocks) {
        keys[quad] = lookup4<Format>(nibble_codes(words.nibbles[b][quad / 2], quad % 2), lane.places);
      } else {
        keys[quad] = lookup3<Format>(plane_codes(words.low[b - Tile::kNibbleBlocks],
                                                 words.high[b - Tile::kNibbleBlocks] >> lane.key_shift, quad));
      }
    }
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
#pragma unroll
      for (int h = 0; h < Tile::kHalves; ++h) {
        const int4 part = query.get(c, h, b);
        int4& sum = sums[c][kShared ? 0 : h];
        if (kShared && h == 1) sum <<= 7;
        sum = mfma_i8(keys[0], keys[1], part[0], part[1], sum);
        sum = mfma_i8(keys[2], keys[3], part[2], part[3], sum);
      }
    }
    if (Tile::kScales == 1 && b < Tile::kBlocks - 1) continue;
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        // paired columns hold the two halves in two lanes, which are joined after the last block
        int sum = sums[c][0][r];
        if constexpr (!Tile::kPaired && !kShared) sum = (sum << 7) + sums[c][1][r];
        const float before = (Tile::kScales == 1 || b == 0) ? 0.0f : scores[c][r];
        const int scale = Tile::kScales == 1 ? 0 : b;
        scores[c][r] = fma_half(words.key_scale[r][scale / 2], scale % 2 != 0, static_cast<float>(sum), before);
      }
      sums[c][0] = int4{};
      if constexpr (!Tile::kPaired && !kShared) sums[c][1] = int4{};
    }
  }
  if constexpr (Tile::kPaired) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float own = scores[0][r] * pair_weight;
      scores[0][r] = own + move_dpp<dpp::kRowRotate8>(own);
    }
  }
}

}  // namespace octave
