// The encoder `search`: for each block the factor of its rms that gives the best codes, and its thresholds. What is
// computed is stated in formats/octave/search.py.
//
// Values are integers from here on: x times the block's ratio, rounded by an addition. Each block has a histogram in
// LDS, a word a bin: the number of values in the upper half, the sum of their magnitudes in the lower one. A lane sums
// up a stretch of it from above, then weighs one or two candidates.
#pragma once

#include "octave/device.h"
#include "octave/encoder.h"
#include "octave/lanes.h"
#include "octave/team.h"

namespace octave {

inline constexpr int kCandidates = 16;
inline constexpr int kBins = 128;
inline constexpr int kHistogramBytes = 4 * kBins;
// Where an fp32 number is an integer in its low bits, with either sign.
inline constexpr float kSignedIntegers = 12582912.0f;
inline constexpr uint32_t kOneValue = 0x10000u;

// Steps of an integer in a unit of the codebook.
template <class Coded>
inline constexpr int kUnitSteps = Coded::kBlock <= 256 ? 4 : 2;

OCTAVE_DEVICE void local_add(uint32_t address, uint32_t value) {
  __scoped_atomic_fetch_add(reinterpret_cast<__attribute__((address_space(3))) uint32_t*>(address), value,
                            __ATOMIC_RELAXED, __MEMORY_SCOPE_WVFRNT);
}

// sum + the product of two halves of words, the lower or the upper ones. kUniform: the gain is in a scalar register.
#define OCTAVE_MULTIPLY_ADD(halves, gain_register) \
  asm("v_mad_u32_u16 %0, %1, %2, %3" halves : "=v"(sum) : "v"(word), gain_register(gain), "v"(sum))
template <bool kUniform>
OCTAVE_DEVICE uint32_t add_lower(uint32_t word, uint32_t gain, uint32_t sum) {
  if constexpr (kUniform) {
    OCTAVE_MULTIPLY_ADD("", "s");
  } else {
    OCTAVE_MULTIPLY_ADD("", "v");
  }
  return sum;
}
template <bool kUniform>
OCTAVE_DEVICE uint32_t add_upper(uint32_t word, uint32_t gain, uint32_t sum) {
  if constexpr (kUniform) {
    OCTAVE_MULTIPLY_ADD(" op_sel:[1,1,0,0]", "s");
  } else {
    OCTAVE_MULTIPLY_ADD(" op_sel:[1,1,0,0]", "v");
  }
  return sum;
}
#undef OCTAVE_MULTIPLY_ADD

// base + a half of a word.
OCTAVE_DEVICE uint32_t add_half(uint32_t word, bool upper, uint32_t base) {
  if (upper) {
    asm("v_mad_u32_u16 %0, %1, 1, %2 op_sel:[1,0,0,0]" : "=v"(base) : "v"(word), "v"(base));
  } else {
    asm("v_mad_u32_u16 %0, %1, 1, %2" : "=v"(base) : "v"(word), "v"(base));
  }
  return base;
}

// a / b, correctly rounded, of numbers far from the limits of the range: the compiler's division without what scales
// its operands.
OCTAVE_DEVICE float divide(float a, float b) {
  float inverse = __builtin_amdgcn_rcpf(b);
  inverse = __builtin_fmaf(__builtin_fmaf(-b, inverse, 1.0f), inverse, inverse);
  float quotient = a * inverse;
  quotient = __builtin_fmaf(__builtin_fmaf(-b, quotient, a), inverse, quotient);
  return __builtin_fmaf(__builtin_fmaf(-b, quotient, a), inverse, quotient);
}

// What a lane needs to know of its candidates in one set: where bins start, and what a level's values count for.
template <class Format, class Coded, int kSet>
struct Weighing {
  static constexpr bool kFour = Coded::any_four(kSet);
  static constexpr bool kUniform = Coded::any_four(kSet) == Coded::all_four(kSet);
  static constexpr int kLevels = kFour ? 8 : 4;
  static constexpr int kOwn = kCandidates / Coded::kLanes;
  struct Starts {
    uint32_t words[kLevels / 2];
  };
  Starts starts[kOwn];
  uint32_t gains[kLevels];

  OCTAVE_MEMBER explicit Weighing(int place) {
    const bool four = Coded::four_bits(kSet, place);
    const int first = lane_index() % Coded::kLanes;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) starts[i] = load<Starts>(Format::kSearchStarts[four][first + i * Coded::kLanes]);
#pragma unroll
    for (int i = 0; i < kLevels; ++i) gains[i] = Format::kSearchGains[four][i];
  }
};

// The histogram of a lane's values in one set.
template <class Coded, int kSet>
OCTAVE_DEVICE void count_values(const float2 (&rounded)[Coded::kPairs], uint32_t histogram) {
  constexpr int kSteps = kUnitSteps<Coded>;
#pragma unroll
  for (int i = kSet * Coded::kInLane; i < (kSet + 1) * Coded::kInLane; ++i) {
    const uint32_t value = bit_cast<uint32_t>(i < Coded::kPairs ? rounded[i].x : rounded[i - Coded::kPairs].y);
    const uint32_t zero = bit_cast<uint32_t>(kSignedIntegers);
    const uint32_t one = __builtin_elementwise_max(value, zero) - __builtin_elementwise_min(value, zero) + kOneValue;
    const uint32_t least = one < kOneValue + kBins * kSteps - 1 ? one : kOneValue + kBins * kSteps - 1;
    local_add((least * (4 / kSteps) & (kHistogramBytes - 4)) | histogram, one);
  }
}

// Adds the value of the lane kDistance above, and so on with twice the distance.
template <int kLanes, int kDistance = 1>
OCTAVE_DEVICE void add_from_above(int lane, uint32_t& value) {
  if constexpr (kDistance < kLanes) {
    const auto above = move_dpp<dpp::kRowShiftLeft + kDistance>(value);
    // DPP gives the last lanes of 16 a zero.
    value += kLanes == 16 ? above : above & (lane + kDistance < kLanes ? ~0u : 0u);
    add_from_above<kLanes, 2 * kDistance>(lane, value);
  }
}

// Of each bin the sum of its word and all above it, by all lanes of the team.
template <int kLanes>
OCTAVE_DEVICE void sum_from_above(uint32_t histogram) {
  constexpr int kOwn = kBins / kLanes;
  const int lane = lane_index() % kLanes;
  const uint32_t own = histogram + lane * (4 * kOwn);
  uint4 words[kOwn / 4];
#pragma unroll
  for (int i = 0; i < kOwn / 4; ++i) words[i] = local_load<uint4>(own + 16 * i);
#pragma unroll
  for (int i = kOwn - 2; i >= 0; --i) words[i / 4][i % 4] += words[(i + 1) / 4][(i + 1) % 4];
  uint32_t above = words[0][0];
  add_from_above<kLanes>(lane, above);
  above -= words[0][0];
#pragma unroll
  for (int i = 0; i < kOwn / 4; ++i) local_store(own + 16 * i, words[i] + above);
}

// The factor of the block that the lane is part of.
template <class Format, class Coded, int kSet>
OCTAVE_DEVICE float best_factor(const Weighing<Format, Coded, kSet>& weighing, uint32_t histogram) {
  using Weighed = Weighing<Format, Coded, kSet>;
  constexpr bool kUniform = Weighed::kUniform;
  const auto all = local_load<uint32_t>(histogram);
  const uint32_t least_dot = add_lower<kUniform>(all, weighing.gains[0], 0);
  const uint32_t least_energy = add_upper<kUniform>(all, weighing.gains[0], 0);
  uint32_t best = 0;
#pragma unroll
  for (int c = 0; c < Weighed::kOwn; ++c) {
    uint32_t dot = least_dot, energy = least_energy;
#pragma unroll
    for (int i = 1; i < Weighed::kLevels; ++i) {
      const auto above =
          local_load<uint32_t>(add_half(weighing.starts[c].words[(i - 1) / 2], (i - 1) % 2 == 1, histogram));
      dot = add_lower<kUniform>(above, weighing.gains[i], dot);
      energy = add_upper<kUniform>(above, weighing.gains[i], energy);
    }
    const auto whole = static_cast<float>(dot);
    const float metric = divide(whole * whole, static_cast<float>(energy));
    const uint32_t rank = (kCandidates - 1 - c * Coded::kLanes) - lane_index() % Coded::kLanes;
    const uint32_t ranked = (bit_cast<uint32_t>(metric) & -static_cast<uint32_t>(kCandidates)) | rank;
    best = ranked > best ? ranked : best;
  }
  best = group_reduce<Coded::kLanes>(best, MaxBits{});
  // Candidate 15 - rank has (24 + (candidate ^ 8)) / 32.
  return __builtin_fmaf(static_cast<float>((best & (kCandidates - 1)) ^ 7), 0x1p-5f, 0.75f);
}

// A row of Format::kSearchRows.
struct SearchRow {
  float value, limit, rounding, base;
};

// What a block's values are multiplied by for the integers, times its rms.
template <class Format, class Coded, bool kFour>
inline constexpr float kRatio = kUnitSteps<Coded> * (kFour ? Format::kLut4Mult : Format::kLut3Mult);

// That over rms, of the block whose scalars a lane works out.
template <class Format, class Key, class Value, class Role>
OCTAVE_DEVICE float unit_ratio(const Role& role, float rms) {
  const float four = role.pick(kRatio<Format, Key, true>, kRatio<Format, Value, true>);
  const float three = role.pick(kRatio<Format, Key, false>, kRatio<Format, Value, false>);
  return divide(role.four_bits ? four : three, rms);
}

// A part's search: given the ratio of a lane's block in each set, its factor.
template <class Coded>
struct Searched {
  float ratio[Coded::kSets];
  float factor[Coded::kSets];
  float2 rounded[Coded::kPairs];  // the integers, as floats above kSignedIntegers

  // `room`: for the histograms of a set, aligned to kHistogramBytes.
  template <class Format>
  OCTAVE_MEMBER void run(const float2 (&x)[Coded::kPairs], int place, uint32_t room) {
    const float2 base = {kSignedIntegers, kSignedIntegers};
#pragma unroll
    for (int i = 0; i < Coded::kPairs; ++i) {
      const float2 both = {ratio[i / Coded::kInLane], ratio[(i + Coded::kPairs) / Coded::kInLane]};
      rounded[i] = __builtin_elementwise_fma(x[i], both, base);
    }
    constexpr int kUsed = Coded::kBlocksOfSet * kHistogramBytes;
    const uint32_t histogram = room + place / Coded::kLanes * kHistogramBytes;
    for_sets<Coded>([&](auto set) {
      constexpr int s = decltype(set)::value;
      const Weighing<Format, Coded, s> weighing(place);
#pragma unroll
      for (int i = 0; i < kUsed; i += 16 * Coded::kTeamLanes) {
        local_store(room + i + lane_index() % Coded::kTeamLanes * 16, uint4{});
      }
      wave_fence();
      count_values<Coded, s>(rounded, histogram);
      wave_fence();
#pragma unroll
      for (int i = 0; i < kUsed; i += kHistogramBytes) sum_from_above<Coded::kTeamLanes>(room + i);
      wave_fence();
      schedule_barrier();  // the addresses of what is weighed would take registers before
      factor[s] = best_factor<Format, Coded, s>(weighing, histogram);
      wave_fence();
    });
  }

  // Tables and guesses with the thresholds times the factor.
  template <class Format>
  OCTAVE_MEMBER void prepare(int place, uint32_t tables, QuantizerOf<Coded>& quantizer) const {
    constexpr float kFour = 1.0f / (kUnitSteps<Coded> * Guess<true>::kStep * Guess<true>::kSteps);
    constexpr float kThree = 1.0f / (kUnitSteps<Coded> * Guess<false>::kStep * Guess<false>::kSteps);
    for_sets<Coded>([&](auto set) {
      constexpr int s = decltype(set)::value;
      const float share = Coded::four_bits(s, place) ? kFour : kThree;
      quantizer.template set<s>(place, share * ratio[s] * __builtin_amdgcn_rcpf(factor[s]), tables);
      write_table<SearchRow, Coded>(Format::kSearchRows, s, place, quantizer.table[s], [&](const SearchRow& row) {
        // The integer that those above the threshold exceed.
        constexpr float kLast = kBins - 1;
        const float start = __builtin_rintf(__builtin_fmaf(row.limit, factor[s], row.rounding));
        return __builtin_fmaf(__builtin_amdgcn_fmed3f(start, -kLast, kLast), kUnitSteps<Coded>, row.base);
      });
    });
  }
};

}  // namespace octave
