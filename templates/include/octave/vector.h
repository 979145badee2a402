// A head's vector in a wave's registers: lane l holds the kElements dims from l·kElements on, in fp32.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"

namespace octave {

template <int kHeadSize>
inline constexpr int kElements = kHeadSize / kWaveSize;

template <class Scalar, int kCount>
OCTAVE_DEVICE void load_vector(const Scalar* source, float (&x)[kCount]) {
  struct Raw {
    Scalar values[kCount];
  };
  const Raw raw = load<Raw>(source + lane_index() * kCount);
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(raw.values[i]);
}

template <class Scalar, int kCount>
OCTAVE_DEVICE void store_vector(Scalar* target, const float (&x)[kCount]) {
  struct Raw {
    Scalar values[kCount];
  } raw;
#pragma unroll
  for (int i = 0; i < kCount; ++i) raw.values[i] = static_cast<Scalar>(x[i]);
  __builtin_memcpy(target + lane_index() * kCount, &raw, sizeof(raw));
}

// The sign bits of a lane's dims, from bit 0 on; bit i of word w of `signs` belongs to dim 32w + i.
template <int kCount>
OCTAVE_DEVICE uint32_t sign_bits(const uint32_t* signs) {
  const int dim = lane_index() * kCount;
  return signs[dim / 32] >> (dim % 32);
}

// Negates the dims whose bit is set.
template <int kCount>
OCTAVE_DEVICE void apply_signs(uint32_t bits, float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = bit_cast<float>(bit_cast<uint32_t>(x[i]) ^ (((bits >> i) & 1u) << 31));
}

template <int kCount>
OCTAVE_DEVICE void flip_signs(const uint32_t* signs, float (&x)[kCount]) {
  apply_signs(sign_bits<kCount>(signs), x);
}

template <int kMask, int kCount>
OCTAVE_DEVICE void hadamard_lane_stage(float (&x)[kCount]) {
  // x·±1 + partner rounds once, exactly as the sum or the difference does.
  const float sign = (lane_index() & kMask) ? -1.0f : 1.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = __builtin_fmaf(x[i], sign, lane_xor<kMask>(x[i]));
}

constexpr float inverse_square_root(int power_of_two) {
  // 1/sqrt(2^k): halves for even powers, and 1/sqrt(2) rounded to fp32 for the odd one that is left.
  float value = 1.0f;
  while (power_of_two >= 4) {
    value *= 0.5f;
    power_of_two /= 4;
  }
  return power_of_two == 2 ? value * 0.70710678118654752f : value;
}

// Orthonormal Walsh-Hadamard transform (natural order) of each kDims consecutive dims: butterfly stages at distance
// 1, 2, 4, …, then one multiplication.
template <int kDims, int kCount>
OCTAVE_DEVICE void hadamard(float (&x)[kCount]) {
  static_assert(kDims >= kCount && kDims <= kCount * kWaveSize);
#pragma unroll
  for (int h = 1; h < kCount; h *= 2) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i & h) continue;
      const float a = x[i];
      const float b = x[i + h];
      x[i] = a + b;
      x[i + h] = a - b;
    }
  }
  constexpr int kLanes = kDims / kCount;
  if constexpr (kLanes > 1) hadamard_lane_stage<1>(x);
  if constexpr (kLanes > 2) hadamard_lane_stage<2>(x);
  if constexpr (kLanes > 4) hadamard_lane_stage<4>(x);
  if constexpr (kLanes > 8) hadamard_lane_stage<8>(x);
  if constexpr (kLanes > 16) hadamard_lane_stage<16>(x);
  if constexpr (kLanes > 32) hadamard_lane_stage<32>(x);
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] *= inverse_square_root(kDims);
}

template <int kDims, int kCount>
OCTAVE_DEVICE void rotate_forward(const uint32_t* signs, float (&x)[kCount]) {
  flip_signs(signs, x);
  hadamard<kDims>(x);
}

template <int kDims, int kCount>
OCTAVE_DEVICE void rotate_inverse(const uint32_t* signs, float (&x)[kCount]) {
  hadamard<kDims>(x);
  flip_signs(signs, x);
}

}  // namespace octave
