// Vectors of a head in teams of lanes: a wave holds several, and most stages of a transform or levels of a sum join
// registers of one lane.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/vector.h"

namespace octave {

template <int kHeadSize>
inline constexpr int kTeam = kHeadSize < 128 ? kHeadSize / 8 : 16;

// How the dims of a vector lie in its team where blocks of kBlockDims are transformed: a lane holds kInLane consecutive
// dims of kSets blocks, set after set, and kLanes lanes hold a block. Element e and element e + kPairs make pair e.
template <int kHeadSize, int kBlockDims>
struct Part {
  static constexpr int kBlock = kBlockDims;
  static constexpr int kElements = kHeadSize / kTeam<kHeadSize>;
  static constexpr int kPairs = kElements / 2;
  static constexpr int kInLane = kBlockDims == kHeadSize ? kElements : 8;
  static constexpr int kSets = kElements / kInLane;
  static constexpr int kLanes = kBlockDims / kInLane;
  static constexpr int kTeamLanes = kTeam<kHeadSize>;
  static constexpr int kStride = kHeadSize / kSets;  // dims from a set to the next
  static_assert(kSets == 1 || kSets % 2 == 0, "pairs lie in one set, or in two");
};

template <int kNumber>
struct Constant {
  static constexpr int value = kNumber;
};

// Calls a function with Constant<0>, Constant<1>, … for the sets of a part.
template <class Part, int kFirst = 0, class Function>
OCTAVE_DEVICE void for_sets(Function function) {
  if constexpr (kFirst < Part::kSets) {
    function(Constant<kFirst>{});
    for_sets<Part, kFirst + 1>(function);
  }
}

// The lane's place in its team. Places that differ in bit 2 belong to lanes that a DPP control exchanges.
template <int kLanes>
OCTAVE_DEVICE int team_place() {
  const int lane = lane_index() % kLanes;
#if defined(__GFX11__)
  return lane;
#else
  return lane ^ ((lane & 4) ? 3 : 0);
#endif
}

// The value of the lane whose place differs in the one bit kMask.
template <int kMask, class T>
OCTAVE_DEVICE T team_xor(T value) {
  static_assert(kMask == 1 || kMask == 2 || kMask == 4 || kMask == 8);
#if !defined(__GFX11__)
  if constexpr (kMask == 4) {
    return move_dpp<dpp::kHalfRowMirror>(value);
  } else
#endif
  {
    return lane_xor<kMask>(value);
  }
}

// The value of the lane kLane of each four.
template <int kLane, class T>
OCTAVE_DEVICE T from_quad(T value) {
  return move_dpp<kLane * 0x55>(value);
}

// Negates the 16-bit numbers whose sign bit is set: bit 2i of `bits` is for the low one of word i, bit 2i+1 for the
// high one.
template <int kWords>
OCTAVE_DEVICE void flip_words(uint32_t bits, uint32_t (&words)[kWords], int first) {
  const uint32_t spread = bits | (bits << 15);
#pragma unroll
  for (int i = 0; i < min(8, kWords - first); ++i) words[first + i] ^= (spread << (15 - 2 * i)) & 0x80008000u;
}

// Sum and difference of the two numbers of a word, in fp32.
OCTAVE_DEVICE float2 butterfly(uint32_t word, _Float16) {
  struct Halves {
    _Float16 low, high;
  };
  const auto halves = bit_cast<Halves>(word);
  // A factor that the compiler does not see keeps these instructions that convert and add at once.
  const float one = scalar(1.0f);
  const float low = static_cast<float>(halves.low);
  const float high = static_cast<float>(halves.high);
  return {__builtin_fmaf(low, one, high), __builtin_fmaf(low, one, -high)};
}

OCTAVE_DEVICE float2 butterfly(uint32_t word, __bf16) {
  const float low = bit_cast<float>(word << 16);
  const float high = bit_cast<float>(word & 0xFFFF0000u);
  return {low + high, low - high};
}

// The two numbers of a word less those of another, in fp32.
OCTAVE_DEVICE float2 difference(uint32_t word, uint32_t other, _Float16) {
  struct Halves {
    _Float16 low, high;
  };
  const auto a = bit_cast<Halves>(word);
  const auto b = bit_cast<Halves>(other);
  const float one = scalar(1.0f);  // as above
  return {__builtin_fmaf(static_cast<float>(a.low), one, -static_cast<float>(b.low)),
          __builtin_fmaf(static_cast<float>(a.high), one, -static_cast<float>(b.high))};
}

OCTAVE_DEVICE float2 difference(uint32_t word, uint32_t other, __bf16) {
  const float2 a = {bit_cast<float>(word << 16), bit_cast<float>(word & 0xFFFF0000u)};
  const float2 b = {bit_cast<float>(other << 16), bit_cast<float>(other & 0xFFFF0000u)};
  return a - b;
}

template <class Scalar>
inline constexpr bool kIsHalf = false;
template <>
inline constexpr bool kIsHalf<_Float16> = true;

constexpr bool is_power_of_four(int n) { return n == 1 || (n % 4 == 0 && is_power_of_four(n / 4)); }

// What rotate_raw's values are multiples of. Where the transform's factor is a power of two, vectors of fp16 are left
// without it: none of their sums or squares leaves the range of fp32, so that it changes no rounding.
template <class Part, class Scalar>
inline constexpr float kGain =
    kIsHalf<Scalar> && is_power_of_four(Part::kBlock) ? 1.0f / inverse_square_root(Part::kBlock) : 1.0f;

// Adds sign · (the same value of the lane whose place differs in kMask) to each value; clang makes no multiply-add with
// DPP. On gfx9 a register must be two cycles old when DPP reads it; clang does not see to that in here.
template <int kMask, int kPairs>
OCTAVE_DEVICE void add_partners(float2 (&x)[kPairs], float sign) {
  static_assert(kPairs % 4 == 0);
#if defined(__GFX11__)
#define OCTAVE_WAIT ""
#define OCTAVE_MASK_4 "row_xmask:4"
#else
#define OCTAVE_WAIT "s_nop 1\n\t"
#define OCTAVE_MASK_4 "row_half_mirror"
#endif
#define OCTAVE_ADD(value, control) "v_fmac_f32_dpp " value ", " value ", %8 " control " row_mask:0xf bank_mask:0xf\n\t"
#define OCTAVE_ADD_EIGHT(control)                                                                                 \
  asm(OCTAVE_WAIT OCTAVE_ADD("%0", control) OCTAVE_ADD("%1", control) OCTAVE_ADD("%2", control)                   \
          OCTAVE_ADD("%3", control) OCTAVE_ADD("%4", control) OCTAVE_ADD("%5", control) OCTAVE_ADD("%6", control) \
              OCTAVE_ADD("%7", control)                                                                           \
      : "+v"(x[i].x), "+v"(x[i].y), "+v"(x[i + 1].x), "+v"(x[i + 1].y), "+v"(x[i + 2].x), "+v"(x[i + 2].y),       \
        "+v"(x[i + 3].x), "+v"(x[i + 3].y)                                                                        \
      : "v"(sign))
#pragma unroll
  for (int i = 0; i < kPairs; i += 4) {
    if constexpr (kMask == 1) {
      OCTAVE_ADD_EIGHT("quad_perm:[1,0,3,2]");
    } else if constexpr (kMask == 2) {
      OCTAVE_ADD_EIGHT("quad_perm:[2,3,0,1]");
    } else if constexpr (kMask == 4) {
      OCTAVE_ADD_EIGHT(OCTAVE_MASK_4);
    } else {
      OCTAVE_ADD_EIGHT("row_ror:8");
    }
  }
#undef OCTAVE_ADD_EIGHT
#undef OCTAVE_ADD
#undef OCTAVE_MASK_4
#undef OCTAVE_WAIT
}

template <class Part, int kMask>
OCTAVE_DEVICE void team_stage(int place, float2 (&x)[Part::kPairs]) {
  if constexpr (kMask < Part::kLanes) add_partners<kMask>(x, (place & kMask) ? -1.0f : 1.0f);
}

// A lane's part of a vector as it lies in memory, and its sign bits: 16 of them a word, set after set.
template <class Part>
struct RawVector {
  static constexpr int kSignWords = (Part::kElements + 15) / 16;
  uint32_t words[Part::kPairs];
  uint32_t signs[kSignWords];
};

// The first dim of a lane's in each set. Lane stages give the lane with the bit set its own value minus its partner's,
// where the transform asks for the opposite: so the team loads the dims of each block in the opposite order of lanes.
template <class Part>
OCTAVE_DEVICE uint32_t first_dim(int place) {
  return (place ^ (Part::kLanes - 1)) * Part::kInLane;
}

template <class Part, class Scalar>
OCTAVE_DEVICE void load_words(const Scalar* source, int place, uint32_t (&words)[Part::kPairs]) {
  struct Words {
    uint32_t words[Part::kInLane / 2];
  };
#pragma unroll
  for (int s = 0; s < Part::kSets; ++s) {
    const auto set = load<Words>(source + s * Part::kStride + first_dim<Part>(place));
#pragma unroll
    for (int i = 0; i < Part::kInLane / 2; ++i) words[s * (Part::kInLane / 2) + i] = set.words[i];
  }
}

template <class Part, class Scalar>
OCTAVE_DEVICE RawVector<Part> load_raw(const Scalar* source, const uint32_t* signs, int place) {
  constexpr int kSpan = min(16, Part::kInLane);
  const uint32_t dim = first_dim<Part>(place);
  const auto* sign_bytes = reinterpret_cast<const uint8_t*>(signs);
  RawVector<Part> raw{};
  load_words<Part>(source, place, raw.words);
#pragma unroll
  for (int i = 0; i < Part::kElements; i += kSpan) {
    const uint32_t byte = (i / Part::kInLane * Part::kStride + i % Part::kInLane) / 8;
    const uint32_t bits = kSpan == 16 ? load<uint16_t>(sign_bytes + byte + dim / 8) : sign_bytes[byte + dim / 8];
    raw.signs[i / 16] |= bits << (i % 16);
  }
  return raw;
}

// Flips signs, and sums and differences of neighbours.
template <class Part, class Scalar>
OCTAVE_DEVICE void first_stage(RawVector<Part> raw, float2 (&x)[Part::kPairs]) {
#pragma unroll
  for (int i = 0; i < RawVector<Part>::kSignWords; ++i) flip_words(raw.signs[i], raw.words, 8 * i);
#pragma unroll
  for (int i = 0; i < Part::kPairs / 2; ++i) {
    const float2 first = butterfly(raw.words[i], Scalar{});
    const float2 second = butterfly(raw.words[i + Part::kPairs / 2], Scalar{});
    x[2 * i] = {first.x, second.x};
    x[2 * i + 1] = {first.y, second.y};
  }
}

// The same of a vector less `center`, whose signs are flipped, too.
template <class Part, class Scalar>
OCTAVE_DEVICE void first_stage(RawVector<Part> raw, uint32_t (&center)[Part::kPairs], float2 (&x)[Part::kPairs],
                               Scalar) {
  // Not the same words as without a center: the compiler would convert them for both before the branch.
#pragma unroll
  for (int i = 0; i < Part::kPairs; ++i) raw.words[i] = opaque(raw.words[i]);
#pragma unroll
  for (int i = 0; i < RawVector<Part>::kSignWords; ++i) {
    flip_words(raw.signs[i], raw.words, 8 * i);
    flip_words(raw.signs[i], center, 8 * i);
  }
#pragma unroll
  for (int i = 0; i < Part::kPairs / 2; ++i) {
    const float2 first = difference(raw.words[i], center[i], Scalar{});
    const float2 second = difference(raw.words[i + Part::kPairs / 2], center[i + Part::kPairs / 2], Scalar{});
    x[2 * i] = {first.x + first.y, second.x + second.y};
    x[2 * i + 1] = {first.x - first.y, second.x - second.y};
  }
}

// The transform of each block behind its first stage: the values of the reference, times kGain.
template <class Part, class Scalar>
OCTAVE_DEVICE void other_stages(int place, float2 (&x)[Part::kPairs]) {
#pragma unroll
  for (int h = 2; h < Part::kInLane; h *= 2) {
    schedule_barrier();
#pragma unroll
    for (int i = 0; i < Part::kPairs; ++i) {
      if (h == Part::kPairs) {
        x[i] = {x[i].x + x[i].y, x[i].x - x[i].y};
      } else if (!(i & h)) {
        const float2 a = x[i];
        const float2 b = x[i + h];
        x[i] = a + b;
        x[i + h] = a - b;
      }
    }
  }
  schedule_barrier();
  team_stage<Part, 1>(place, x);
  team_stage<Part, 2>(place, x);
  team_stage<Part, 4>(place, x);
  team_stage<Part, 8>(place, x);
  if constexpr (kGain<Part, Scalar> == 1.0f) {
    schedule_barrier();
#pragma unroll
    for (int i = 0; i < Part::kPairs; ++i) x[i] *= inverse_square_root(Part::kBlock);
  }
}

// Flips signs and transforms each block: the values of the reference, times kGain.
template <class Part, class Scalar>
OCTAVE_DEVICE void rotate_raw(const RawVector<Part>& raw, int place, float2 (&x)[Part::kPairs]) {
  first_stage<Part, Scalar>(raw, x);
  other_stages<Part, Scalar>(place, x);
}

// The tree sum of each block's values, neighbours first; every lane of the block gets it.
template <class Part>
OCTAVE_DEVICE void team_sums(const float2 (&values)[Part::kPairs], float (&sums)[Part::kSets]) {
  constexpr int kLeft = max(1, Part::kSets / 2);
  float2 level[Part::kPairs];
#pragma unroll
  for (int i = 0; i < Part::kPairs; ++i) level[i] = values[i];
#pragma unroll
  for (int half = Part::kPairs / 2; half >= kLeft; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) level[i] = level[2 * i] + level[2 * i + 1];
  }
#pragma unroll
  for (int s = 0; s < Part::kSets; ++s) {
    float sum = Part::kSets == 1 ? level[0].x + level[0].y : s < kLeft ? level[s].x : level[s - kLeft].y;
    if constexpr (Part::kLanes > 1) sum += team_xor<1>(sum);
    if constexpr (Part::kLanes > 2) sum += team_xor<2>(sum);
    if constexpr (Part::kLanes > 4) sum += team_xor<4>(sum);
    if constexpr (Part::kLanes > 8) sum += team_xor<8>(sum);
    sums[s] = sum;
  }
}

}  // namespace octave
