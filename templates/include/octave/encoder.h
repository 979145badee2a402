// The Octave encoder for vectors in teams of lanes: scales, codes and packing. The results are those of the PyTorch
// reference, bit for bit.
//
// A code is the number of thresholds below x: exact ones, in units of x. The team works them out for each block and
// leaves them in LDS beside the codebook's values, 8 bytes a code: its value, and the threshold above it. A guess that
// is linear in x finds the row, one comparison the code.
#pragma once

#include "octave/device.h"
#include "octave/team.h"

namespace octave {

inline constexpr float kLeastRms = 1e-12f;
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

// The first guess of a code: the code or the one below it, because the thresholds are nearly equidistant. It runs from
// 0 to kSteps in steps of kStep, in units of the codebook.
template <bool kFour>
struct Guess {
  static constexpr int kSteps = kFour ? 14 : 6;
  static constexpr float kStep = kFour ? 13.66f : 32.2f;
};

// From here on floats lie one apart, so that a sum with it holds a rounded integer in its low bits.
inline constexpr float kIntegers = 8388608.0f;
inline constexpr uint32_t kIntegersBits = 0x4B000000u;

// The scalars of one block, in units of x: kGain times the reference's.
struct BlockScalars {
  float sum_of_squares;
  float rms;        // NaN where the sum is not finite: every comparison with a threshold fails, and all codes are 0
  float guess;      // what share of all steps of the guess a unit of x is
  float underflow;  // the largest x whose quotient by rms rounds to 0
};

template <class Format>
OCTAVE_DEVICE BlockScalars block_scalars(float sum_of_squares, float inverse_dims, float least_rms, bool four_bits) {
  constexpr float kFour = Format::kLut4Mult / (Guess<true>::kStep * Guess<true>::kSteps);
  constexpr float kThree = Format::kLut3Mult / (Guess<false>::kStep * Guess<false>::kSteps);
  const float rms = __builtin_fmaxf(__builtin_sqrtf(sum_of_squares * inverse_dims), least_rms);
  BlockScalars block;
  block.sum_of_squares = sum_of_squares;
  block.rms = __builtin_fmaf(sum_of_squares, 0.0f, rms);  // Inf·0 is NaN
  block.guess = (four_bits ? kFour : kThree) * __builtin_amdgcn_rcpf(block.rms);
  block.underflow = __builtin_floorf(block.rms * 0.5f) * 0x1p-149f;
  return block;
}

// A row of Format::kCodebook: a code's value and the cut above it (`cuts` of formats/octave/codebook.py).
struct CodebookRow {
  float value, cut, half_step, down;
};

// The largest fp32 x with fp32(x / rms) <= cut: rms·(cut + half_step) rounded down. The sum of the two products is
// rounded to nearest; how far that is off is exact.
OCTAVE_DEVICE float threshold(float rms, const CodebookRow& row) {
  const float rest = rms * row.half_step;
  const float nearest = __builtin_fmaf(rms, row.cut, rest);
  const bool above = __builtin_fmaf(rms, row.cut, -nearest) < -rest;
  return __builtin_fmaf(nearest, above ? row.down : 0.0f, nearest);
}

// Writes the rows of the block that the lane is part of; `threshold_of` makes a threshold of a row of `codebook`.
template <class Row, class Coded, class Codebook, class Function>
OCTAVE_DEVICE void write_table(const Codebook& codebook, int set, int place, uint32_t table, Function threshold_of) {
  const bool four = Coded::four_bits(set, place);
#pragma unroll
  for (int first = 0; first < Coded::rows(set); first += Coded::kLanes) {
    const int number = first + place % min(Coded::kLanes, Coded::rows(set));
    const auto row = load<Row>(codebook[four ? 8 + number : number % 8]);
    local_store(table + number * kRowBytes, float2{row.value, threshold_of(row)});
  }
}

// kUnderflow: whether x can be so small beside rms that the quotient rounds to 0.
template <class Format, class Coded, bool kUnderflow>
OCTAVE_DEVICE void write_plain_table(int set, int place, float rms, float underflow, uint32_t table) {
  write_table<CodebookRow, Coded>(Format::kCodebook, set, place, table, [&](const CodebookRow& row) {
    const float above = threshold(rms, row);
    return kUnderflow && row.cut == 0.0f ? underflow : above;
  });
}

// What a lane needs to find the codes of its values, of its block in each set.
template <class Coded>
struct QuantizerOf {
  float guess[Coded::kSets];
  float steps[Coded::kSets];
  uint32_t table[Coded::kSets];

  template <int kSet>
  OCTAVE_MEMBER void set(int place, float of_block, uint32_t tables) {
    guess[kSet] = of_block;
    steps[kSet] = Coded::four_bits(kSet, place) ? Guess<true>::kSteps : Guess<false>::kSteps;
    // From a scalar register gfx11 multiplies two values at once, and the compiler makes a literal of what it knows.
    if constexpr (Coded::all_four(kSet) == Coded::any_four(kSet)) steps[kSet] = scalar(steps[kSet]);
    table[kSet] = tables + (Coded::first_row(kSet) + place / Coded::kLanes * Coded::rows(kSet)) * kRowBytes;
  }
};

// Codes of a lane's values (in the low bits of `codes`), and each value times what its code stands for. `compared`:
// what the thresholds are compared with, x itself or the same in other units.
template <class Coded>
OCTAVE_DEVICE void quantize(const float2 (&x)[Coded::kPairs], const float2 (&compared)[Coded::kPairs],
                            const QuantizerOf<Coded>& block, uint32_t (&codes)[Coded::kElements],
                            float2 (&terms)[Coded::kPairs]) {
  const auto value = [&](int i) { return i < Coded::kPairs ? x[i].x : x[i - Coded::kPairs].y; };
  const auto compared_value = [&](int i) { return i < Coded::kPairs ? compared[i].x : compared[i - Coded::kPairs].y; };
  float share[Coded::kElements], chosen[Coded::kElements];
#pragma unroll
  for (int i = 0; i < Coded::kElements; ++i) {
    share[i] = __builtin_amdgcn_fmed3f(__builtin_fmaf(value(i), block.guess[i / Coded::kInLane], 0.5f), 0.0f, 1.0f);
  }
  schedule_barrier();
#pragma unroll
  for (int i = 0; i < Coded::kElements; ++i) {
    codes[i] = bit_cast<uint32_t>(__builtin_fmaf(share[i], block.steps[i / Coded::kInLane], kIntegers));
  }
  schedule_barrier();
#pragma unroll
  for (int i = 0; i < Coded::kElements; ++i) {
    const uint32_t row = codes[i] * kRowBytes + (block.table[i / Coded::kInLane] - kIntegersBits * kRowBytes);
    const auto below = local_load<float2>(row);
    const auto next = local_load<float>(row + kRowBytes);
    const bool above = compared_value(i) > below.y;
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
  return static_cast<_Float16>(scale < kLargestHalf ? scale : kLargestHalf);
}

// Eight codes as nibbles; `order` is the code of each nibble, from the lowest.
OCTAVE_DEVICE uint32_t join_nibbles(const uint32_t* codes, const int (&order)[8]) {
  uint32_t word = codes[order[7]];
#pragma unroll
  for (int i = 6; i >= 0; --i) word = (word << 4) + codes[order[i]];
  // Two of the shifted words reach into the bits of kIntegers.
  return word - (kIntegersBits * 0x11u);
}

// Dims j and j + 4 in byte j: the dword of 8 dims of 4-bit codes.
OCTAVE_DEVICE uint32_t nibbles(const uint32_t* codes) { return join_nibbles(codes, {0, 4, 1, 5, 2, 6, 3, 7}); }

// A lane's kDims 3-bit codes in the dwords of both planes (of 16 and of 32 dims), joined with those of the lanes that
// share a dword.
template <int kDims>
struct Planes {
  static constexpr int kLowWords = kDims < 16 ? 1 : kDims / 16;
  uint32_t low[kLowWords];
  uint32_t high;
};

// `word`: eight codes as `nibbles` joins them.
OCTAVE_DEVICE Planes<8> planes_of_word(uint32_t word, int place) {
  const uint32_t low = (word & 0x03030303u) | ((word >> 2) & 0x0C0C0C0Cu);
  const uint32_t high = ((word >> 2) & 0x01010101u) | ((word >> 5) & 0x02020202u);
  Planes<8> planes{{low << (4 * (place % 2))}, high << (2 * (place % 4))};
  planes.low[0] |= team_xor<1>(planes.low[0]);
  planes.high |= team_xor<1>(planes.high);
  planes.high |= team_xor<2>(planes.high);
  return planes;
}

template <int kDims>
OCTAVE_DEVICE Planes<kDims> planes_of(const uint32_t* codes, int place) {
  Planes<kDims> planes{};
#pragma unroll
  for (int i = 0; i < kDims / 16; ++i) {
    // With dims 8 apart in a byte, two words hold their low bits as the plane does.
    const uint32_t even = join_nibbles(codes + 16 * i, {0, 8, 1, 9, 2, 10, 3, 11});
    const uint32_t odd = join_nibbles(codes + 16 * i, {4, 12, 5, 13, 6, 14, 7, 15});
    planes.low[i] = (even & 0x33333333u) | ((odd & 0x33333333u) << 2);
    const uint32_t bits = ((even >> 2) & 0x11111111u) | ((odd >> 1) & 0x22222222u);
    planes.high |= ((bits | (bits >> 2)) & 0x0F0F0F0Fu) << (4 * i);
  }
  if constexpr (kDims == 16) {
    planes.high <<= 4 * (place % 2);
    planes.high |= team_xor<1>(planes.high);
  }
  return planes;
}

// Writes a lane's codes of one set. `words`, `low_plane` and `high_plane`: where dim 0 of the vector would be. Lanes
// that share a dword write the same.
template <class Coded>
OCTAVE_DEVICE void pack(const uint32_t* codes, int set, int place, uint32_t words, uint32_t low_plane,
                        uint32_t high_plane) {
  constexpr int kDims = Coded::kInLane;
  const int dim = set * Coded::kStride + place * kDims;
  const uint32_t at_low = low_plane + dim / 16 * 4;
  const uint32_t at_high = high_plane + dim / 32 * 4;
  if (Coded::all_four(set)) {
#pragma unroll
    for (int i = 0; i < kDims; i += 8) local_store(words + (dim + i) / 2, nibbles(codes + i));
  } else if constexpr (kDims == 8) {
    const uint32_t word = nibbles(codes);
    const auto planes = planes_of_word(word, place);
    // Where the blocks of a set differ, lanes with 4-bit codes write theirs twice.
    const bool four = Coded::four_bits(set, place);
    local_store(four ? words + dim / 2 : at_low, four ? word : planes.low[0]);
    local_store(four ? words + dim / 2 : at_high, four ? word : planes.high);
  } else {
    const auto planes = planes_of<kDims>(codes, place);
#pragma unroll
    for (int i = 0; i < Planes<kDims>::kLowWords; ++i) local_store(at_low + 4 * i, planes.low[i]);
    local_store(at_high, planes.high);
  }
}

}  // namespace octave
