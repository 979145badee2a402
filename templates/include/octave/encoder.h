// The Octave encoder for vectors in teams of lanes: scales, codes and packing. The results are those of the PyTorch
// reference, bit for bit.
//
// A code is the number of thresholds below x: exact ones, in units of x. The team works them out for each block and
// leaves them in LDS beside the codebook's values, 8 bytes a code: its value, and the threshold above it. A guess that is
// linear in x finds the row, one comparison the code.
#pragma once

#include "octave/device.h"
#include "octave/team.h"

namespace octave {

inline constexpr float kMaxHalf = 65504.0f;
inline constexpr int kRowBytes = 8;

// Which of a part's blocks have 4-bit codes (the first kFourBlocks; the others have 3), and where the tables of its
// blocks lie.
template <class PartOf, int kFourBlocks>
struct Coding : PartOf {
  static constexpr int kBlocksOfSet = PartOf::kStride / PartOf::kBlock;
  static constexpr bool any_four(int set) { return set * kBlocksOfSet < kFourBlocks; }
  static constexpr bool all_four(int set) { return (set + 1) * kBlocksOfSet <= kFourBlocks; }
  static constexpr int rows(int set) { return any_four(set) ? 16 : 8; }
  static constexpr int first_row(int set) { return set == 0 ? 0 : first_row(set - 1) + kBlocksOfSet * rows(set - 1); }
  static constexpr int kRows = first_row(PartOf::kSets);

  OCTAVE_MEMBER static bool four_bits(int set, int place) {
    if (all_four(set) || !any_four(set)) return any_four(set);
    return set * kBlocksOfSet + place / PartOf::kLanes < kFourBlocks;
  }
};

// The first guess of a code: the code or the one below it, because the thresholds are nearly equidistant. It runs from 0
// to kSteps in steps of kStep, in units of the codebook.
template <bool kFour>
struct Guess {
  static constexpr int kSteps = kFour ? 14 : 6;
  static constexpr float kStep = kFour ? 13.66f : 32.2f;
};

// From here on floats lie one apart, so that a sum with it holds a rounded integer in its low bits.
inline constexpr float kIntegers = 8388608.0f;
inline constexpr uint32_t kIntegersBits = 0x4B000000u;

// The scalars of one block in the quantizer's arithmetic: kGain times the reference's where they are in units of x.
struct BlockScalars {
  float sum_of_squares;
  float rms;        // NaN where the sum is not finite: no comparison with it holds, and all codes become 0
  float guess;      // steps of the guess per unit of x, as a share of all
  float underflow;  // the largest x whose quotient by rms rounds to 0
};

template <class Format>
OCTAVE_DEVICE BlockScalars block_scalars(float sum_of_squares, float inverse_dims, float least_rms, bool four_bits) {
  constexpr float kFour = Format::kLut4Mult / (Guess<true>::kStep * Guess<true>::kSteps);
  constexpr float kThree = Format::kLut3Mult / (Guess<false>::kStep * Guess<false>::kSteps);
  BlockScalars block;
  block.sum_of_squares = sum_of_squares;
  const float rms = __builtin_fmaxf(__builtin_sqrtf(sum_of_squares * inverse_dims), least_rms);
  block.rms = __builtin_fmaf(sum_of_squares, 0.0f, rms);
  block.guess = (four_bits ? kFour : kThree) * __builtin_amdgcn_rcpf(block.rms);
  block.underflow = __builtin_floorf(block.rms * 0.5f) * 0x1p-149f;
  return block;
}

// The largest fp32 x with fp32(x / rms) <= c, where row[1] = c and row[2] is half the way to the next fp32 number: that
// is rms·(c + row[2]) rounded down. The sum of the two products is rounded to nearest; what it is off by is exact.
OCTAVE_DEVICE float threshold(float rms, float cut, float half_step) {
  const float rest = rms * half_step;
  const float nearest = __builtin_fmaf(rms, cut, rest);
  const bool above = __builtin_fmaf(rms, cut, -nearest) < -rest;
  const int down = cut < 0.0f ? 1 : -1;
  return bit_cast<float>(bit_cast<int32_t>(nearest) + (above ? down : 0));
}

// Writes the rows of the block that the lane is part of. kUnderflow: whether x can be so small beside rms that the
// quotient rounds to 0.
template <class Format, class Coded, bool kUnderflow>
OCTAVE_DEVICE void write_table(int set, int place, float rms, float underflow, uint32_t table) {
  const bool four = Coded::four_bits(set, place);
#pragma unroll
  for (int first = 0; first < Coded::rows(set); first += Coded::kLanes) {
    const int row = first + place % min(Coded::kLanes, Coded::rows(set));
    const float* codebook = Format::kCodebook[four ? 8 + row : row % 8];
    float above = threshold(rms, codebook[1], codebook[2]);
    if constexpr (kUnderflow) above = codebook[1] == 0.0f ? underflow : above;
    local_store(table + row * kRowBytes, float2{codebook[0], above});
  }
}

// Codes of a lane's values (in the low bits of `codes`) and x times the value of the code. `guess`, `steps` and `table`
// are of each set's block.
template <class Coded>
OCTAVE_DEVICE void quantize(const float2 (&x)[Coded::kPairs], const float (&guess)[Coded::kSets],
                            const float (&steps)[Coded::kSets], const uint32_t (&table)[Coded::kSets],
                            uint32_t (&codes)[Coded::kElements], float2 (&terms)[Coded::kPairs]) {
  const auto value = [&](int i) { return i < Coded::kPairs ? x[i].x : x[i - Coded::kPairs].y; };
  float share[Coded::kElements], chosen[Coded::kElements];
#pragma unroll
  for (int i = 0; i < Coded::kElements; ++i) {
    share[i] = __builtin_amdgcn_fmed3f(__builtin_fmaf(value(i), guess[i / Coded::kInLane], 0.5f), 0.0f, 1.0f);
  }
  schedule_barrier();
#pragma unroll
  for (int i = 0; i < Coded::kElements; ++i) {
    codes[i] = bit_cast<uint32_t>(__builtin_fmaf(share[i], steps[i / Coded::kInLane], kIntegers));
  }
  schedule_barrier();
#pragma unroll
  for (int i = 0; i < Coded::kElements; ++i) {
    const uint32_t row = codes[i] * kRowBytes + (table[i / Coded::kInLane] - kIntegersBits * kRowBytes);
    const auto below = local_load<float2>(row);
    const auto next = local_load<float>(row + kRowBytes);
    const bool above = value(i) > below.y;
    codes[i] += above ? 1u : 0u;
    asm("" : "+v"(codes[i]));  // made here, where the comparison's result is the carry of one addition
    chosen[i] = above ? next : below.x;
  }
  schedule_barrier();
#pragma unroll
  for (int i = 0; i < Coded::kPairs; ++i) terms[i] = x[i] * float2{chosen[i], chosen[i + Coded::kPairs]};
}

// The fp16 scale of a block.
OCTAVE_DEVICE _Float16 block_scale(float sum_of_squares, float dot, float unit) {
  // 0·Inf and 0·NaN are NaN, so that a sum that is not finite gives 0.
  const bool positive = __builtin_fmaf(sum_of_squares, 0.0f, dot) > 0.0f;
  const float scale = positive ? sum_of_squares / dot * unit : 0.0f;
  return static_cast<_Float16>(scale < kMaxHalf ? scale : kMaxHalf);
}

// Eight codes as nibbles; `order` is the code of each nibble, from the lowest.
OCTAVE_DEVICE uint32_t join_nibbles(const uint32_t* codes, const int (&order)[8]) {
  uint32_t word = codes[order[7]];
#pragma unroll
  for (int i = 6; i >= 0; --i) word = (word << 4) + codes[order[i]];
  // Two of the shifted words reach into the bits of kIntegers.
  return word - (kIntegersBits * 0x11u);
}

// The dword of 8 dims of 4-bit codes: dim j in the low nibble of byte j, dim j + 4 in the high one.
OCTAVE_DEVICE uint32_t nibbles(const uint32_t* codes) { return join_nibbles(codes, {0, 4, 1, 5, 2, 6, 3, 7}); }

// The fields of a lane's 3-bit codes in the dwords of both planes (16 and 32 dims), of which it holds kCount dims.
template <int kCount>
struct PlaneFields {
  uint32_t low[max(1, kCount / 16)];
  uint32_t high;
};

// Of eight dims, from their nibbles.
OCTAVE_DEVICE PlaneFields<8> plane_fields8(uint32_t word, int place) {
  const uint32_t low = (word & 0x03030303u) | ((word >> 2) & 0x0C0C0C0Cu);
  const uint32_t high = ((word >> 2) & 0x01010101u) | ((word >> 5) & 0x02020202u);
  PlaneFields<8> fields;
  fields.low[0] = low << (4 * (place % 2));
  fields.high = high << (2 * (place % 4));
  fields.low[0] |= team_xor<1>(fields.low[0]);
  fields.high |= team_xor<1>(fields.high);
  fields.high |= team_xor<2>(fields.high);
  return fields;
}

template <int kCount>
OCTAVE_DEVICE PlaneFields<kCount> plane_fields(const uint32_t* codes, int place) {
  if constexpr (kCount == 8) {
    return plane_fields8(nibbles(codes), place);
  } else {
    PlaneFields<kCount> fields;
    fields.high = 0;
#pragma unroll
    for (int i = 0; i < kCount / 16; ++i) {
      // Four dims and the eight-th from there in a word: their low bits lie as in the plane.
      const uint32_t even = join_nibbles(codes + 16 * i, {0, 8, 1, 9, 2, 10, 3, 11});
      const uint32_t odd = join_nibbles(codes + 16 * i, {4, 12, 5, 13, 6, 14, 7, 15});
      fields.low[i] = (even & 0x33333333u) | ((odd & 0x33333333u) << 2);
      const uint32_t bits = ((even >> 2) & 0x11111111u) | ((odd >> 1) & 0x22222222u);
      fields.high |= ((bits | (bits >> 2)) & 0x0F0F0F0Fu) << (4 * i);
    }
    if constexpr (kCount == 16) {
      fields.high <<= 4 * (place % 2);
      fields.high |= team_xor<1>(fields.high);
    }
    return fields;
  }
}

// Writes the codes of kCount dims, the lane's first of which is `dim` of the region, to the region's dwords. Lanes that
// share a dword write the same.
template <int kCount>
OCTAVE_DEVICE void pack4(const uint32_t* codes, int dim, uint32_t words) {
#pragma unroll
  for (int i = 0; i < kCount; i += 8) local_store(words + dim / 2 + i / 2, nibbles(codes + i));
}

template <int kCount>
OCTAVE_DEVICE void pack3(const uint32_t* codes, int place, int dim, uint32_t low_plane, uint32_t high_plane) {
  const auto fields = plane_fields<kCount>(codes, place);
#pragma unroll
  for (int i = 0; i < max(1, kCount / 16); ++i) local_store(low_plane + dim / 16 * 4 + 4 * i, fields.low[i]);
  local_store(high_plane + dim / 32 * 4, fields.high);
}

// The same for 8 dims of blocks whose lanes may differ in the bits of their codes; the plane's addresses are those of
// dim 0 of K.
template <class Coded>
OCTAVE_DEVICE void pack_blocks(const uint32_t* codes, int set, int place, int dim, uint32_t words, uint32_t low_plane,
                               uint32_t high_plane) {
  if (Coded::all_four(set)) {
    pack4<8>(codes, dim, words);
  } else if (!Coded::any_four(set)) {
    pack3<8>(codes, place, dim, low_plane, high_plane);
  } else {
    const bool four = Coded::four_bits(set, place);
    const uint32_t word = nibbles(codes);
    const auto fields = plane_fields8(word, place);
    const uint32_t whole = words + dim / 2;
    local_store(four ? whole : low_plane + dim / 16 * 4, four ? word : fields.low[0]);
    local_store(four ? whole : high_plane + dim / 32 * 4, four ? word : fields.high);
  }
}

}  // namespace octave
