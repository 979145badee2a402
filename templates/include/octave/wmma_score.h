// Query rows and scores of decode's wmma tier: the query in fp16, K as whole numbers from the codebook.
#pragma once

#include "octave/decode_group.h"
#include "octave/lanes.h"
#include "octave/vector.h"
#include "octave/wmma_operand.h"
#include "octave/wmma_softmax.h"
#include "octave/wmma_tile.h"

namespace octave {

// Rotates a query row like K and rounds it to fp16, times the power of two that takes its largest value to [2^14,
// 2^15).
template <class Format, class Tile, class Scalar>
OCTAVE_DEVICE void round_row(const Scalar* source, const uint32_t* k_signs, float unit, WmmaShared<Tile>& shared,
                             int row) {
  constexpr int kCount = kElements<Tile::kHeadSize>;
  float x[kCount] = {};
  if (source != nullptr) {
    load_vector(source, x);
    rotate_forward<Format::kKBlockSize>(k_signs, x);
  }
  // As integers, so that a NaN is larger than all numbers.
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) bits = MaxBits{}(bits, bit_cast<uint32_t>(__builtin_fabsf(x[i])));
  bits = group_reduce<kWaveSize>(bits, MaxBits{});
  const bool finite = bits < 0x7F800000u;
  const bool used = finite && bit_cast<float>(bits) >= kQueryFloor;
  const uint32_t exponent = bits >> 23;
  const float inverse = used ? bit_cast<float>((268u - exponent) << 23) : 0.0f;
  const float scale = bit_cast<float>((exponent - 14u) << 23);
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    shared.query[row][lane_index() * kCount + i] = static_cast<_Float16>(used ? x[i] * inverse : 0.0f);
  if (lane_index() == 0) shared.query_scale[row] = used ? scale * unit : finite ? 0.0f : __builtin_nanf("");
}

// Scores of the wave's 16 tokens times K's scales, before the query's scale: tokens 8·(lane/16) + r of row lane % 16.
// The words of the next tile, from the slots `next` on, are asked for as soon as those of this one are unpacked.
template <class Format, class Tile>
OCTAVE_DEVICE void score_tile(KeyWords<Format, Tile>& words, __amdgpu_buffer_rsrc_t next,
                              const WmmaLane<Format, Tile>& lane, WmmaShared<Tile>& shared,
                              float8 (&scores)[Tile::kColumns]) {
  auto& own = shared.wave[lane.wave];
  const int row = lane_index() % 16;
  const int half = lane_index() / 16;
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; ++b) {
    unpack_key(words, b, own.operand);
    operand_fence();
    load_key(next, lane, b, words);
    // Blocks that have scales of their own start from zero.
    float8 sums[Tile::kColumns];
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) sums[c] = Tile::kScales == 1 && b > 0 ? scores[c] : float8{};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const _Float16* place = &own.operand[row][16 * step];
      const half16 keys = read_operand(place, place + 8);
#pragma unroll
      for (int c = 0; c < Tile::kColumns; ++c) {
        const _Float16* query = &shared.query[16 * c + row][64 * b + 16 * step];
        sums[c] = wmma(keys, read_operand(query, query + 8), sums[c]);
        limit_reads<Tile>(step, c);
      }
    }
    operand_fence();
    const float8 scale = *reinterpret_cast<const float8*>(&own.scale[Tile::kScales == 1 ? 0 : b][8 * half]);
#pragma unroll
    for (int c = 0; c < Tile::kColumns; ++c) {
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        if (Tile::kScales == 1) {
          scores[c][r] = b < Tile::kBlocks - 1 ? sums[c][r] : sums[c][r] * scale[r];
        } else {
          scores[c][r] = b == 0 ? sums[c][r] * scale[r] : __builtin_fmaf(sums[c][r], scale[r], scores[c][r]);
        }
      }
    }
  }
}

}  // namespace octave
