// Values across the lanes of a wave: exchanges with a lane at distance 2^k, and reductions over aligned groups of
// lanes.
#pragma once

#include "octave/device.h"

namespace octave {

namespace dpp {  // control words of the DPP modifier, from AMD's instruction set documents
inline constexpr int kQuadXor1 = 0xB1;
inline constexpr int kQuadXor2 = 0x4E;
inline constexpr int kQuadXor3 = 0x1B;
inline constexpr int kRowShiftLeft = 0x100;  // plus by how many lanes: lane i gets the value of lane i + n
inline constexpr int kRowRotate8 = 0x128;
inline constexpr int kRowMirror = 0x140;
inline constexpr int kHalfRowMirror = 0x141;
inline constexpr int kRowXor4 = 0x164;  // gfx10 and later
}  // namespace dpp

template <int kControl, class T>
OCTAVE_DEVICE T move_dpp(T value) {
  return bit_cast<T>(__builtin_amdgcn_mov_dpp(bit_cast<int32_t>(value), kControl, 0xF, 0xF, true));
}

OCTAVE_DEVICE int32_t exchange_rows(int32_t value) {
#if defined(__GFX11__)
  return __builtin_amdgcn_permlanex16(value, value, 0x76543210, 0xFEDCBA98, true, false);
#else
  return __builtin_amdgcn_ds_swizzle(value, (16 << 10) | 0x1F);
#endif
}

// The value of the lane whose index differs in the one bit kMask.
template <int kMask, class T>
OCTAVE_DEVICE T lane_xor(T value) {
  static_assert(sizeof(T) == 4 && (kMask & (kMask - 1)) == 0 && kMask < kWaveSize);
  if constexpr (kMask == 1) {
    return move_dpp<dpp::kQuadXor1>(value);
  } else if constexpr (kMask == 2) {
    return move_dpp<dpp::kQuadXor2>(value);
  } else if constexpr (kMask == 4) {
#if defined(__GFX11__)
    return move_dpp<dpp::kRowXor4>(value);
#else
    return move_dpp<dpp::kQuadXor3>(move_dpp<dpp::kHalfRowMirror>(value));
#endif
  } else if constexpr (kMask == 8) {
    return move_dpp<dpp::kRowRotate8>(value);
  } else if constexpr (kMask == 16) {
    return bit_cast<T>(exchange_rows(bit_cast<int32_t>(value)));
  } else {
    return bit_cast<T>(__builtin_amdgcn_ds_bpermute((lane_index() ^ kMask) << 2, bit_cast<int32_t>(value)));
  }
}

// One lane's value, for all of the wave.
template <class T>
OCTAVE_DEVICE T lane_value(T value, int lane) {
  return bit_cast<T>(__builtin_amdgcn_readlane(bit_cast<int32_t>(value), lane));
}

OCTAVE_DEVICE int64_t lane_value64(int64_t value, int lane) {
  const auto low = static_cast<uint32_t>(lane_value(static_cast<int32_t>(value), lane));
  return static_cast<int64_t>(lane_value(static_cast<int32_t>(value >> 32), lane)) << 32 | low;
}

// Of the bits of floats that are not negative: as integers, so that a NaN is larger than all numbers.
struct MaxBits {
  OCTAVE_MEMBER uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

// Bit l is lane l's.
OCTAVE_DEVICE uint64_t wave_ballot(bool value) {
#if defined(__GFX11__)
  return __builtin_amdgcn_ballot_w32(value);
#else
  return __builtin_amdgcn_ballot_w64(value);
#endif
}

// Combines the values of each aligned group of kLanes lanes; every lane of the group gets the result. The combination
// is the tree that pairs lanes at distance 1, 2, 4, …: mirrors serve for 4 and 8, where the smaller groups already
// agree.
template <int kLanes, class T, class Combine>
OCTAVE_DEVICE T group_reduce(T value, Combine combine) {
  static_assert(kLanes >= 1 && (kLanes & (kLanes - 1)) == 0 && kLanes <= kWaveSize);
  if constexpr (kLanes > 1) value = combine(value, lane_xor<1>(value));
  if constexpr (kLanes > 2) value = combine(value, lane_xor<2>(value));
  if constexpr (kLanes > 4) value = combine(value, move_dpp<dpp::kHalfRowMirror>(value));
  if constexpr (kLanes > 8) value = combine(value, move_dpp<dpp::kRowMirror>(value));
  if constexpr (kLanes > 16) value = combine(value, lane_xor<16>(value));
  if constexpr (kLanes > 32) value = combine(value, lane_xor<32>(value));
  return value;
}

struct Add {
  OCTAVE_MEMBER float operator()(float a, float b) const { return a + b; }
};

struct Max {
  OCTAVE_MEMBER float operator()(float a, float b) const { return __builtin_fmaxf(a, b); }
};

template <int kLanes>
OCTAVE_DEVICE float group_sum(float value) {
  return group_reduce<kLanes>(value, Add{});
}

template <int kLanes>
OCTAVE_DEVICE float group_max(float value) {
  return group_reduce<kLanes>(value, Max{});
}

}  // namespace octave
