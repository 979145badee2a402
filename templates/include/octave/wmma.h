// WMMA of RDNA3 on clang's builtins: operands in LDS and registers, and the way of a result into the next operand.
//
// A and B: lane l holds row (column) l % 16 whole, 16 elements in 8 registers, both halves of the wave alike.
// C and D: register r of lane l holds row 2r + l/16 of column l % 16. Rows that are stored in the order of `wmma_row`
// therefore leave 8 neighbours of a column in a lane: 8·(l/16) + r.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"

namespace octave {

using float8 = float __attribute__((ext_vector_type(8)));
using uint2 = uint32_t __attribute__((ext_vector_type(2)));
using half2 = _Float16 __attribute__((ext_vector_type(2)));
using half16 = _Float16 __attribute__((ext_vector_type(16)));
using short2 = short __attribute__((ext_vector_type(2)));
using short16 = short __attribute__((ext_vector_type(16)));
using bfloat2 = __bf16 __attribute__((ext_vector_type(2)));

// 16 elements of 2 bytes of one row.
struct WmmaOperand {
  uint32_t words[8];
};

// The element that row `lane` of A must hold for D to leave its rows in order.
OCTAVE_DEVICE constexpr int wmma_row(int lane) { return 8 * (lane % 2) + lane % 16 / 2; }

// Two halves of an operand, 16-byte aligned.
OCTAVE_DEVICE WmmaOperand read_operand(const uint8_t* low, const uint8_t* high) {
  struct Halves {
    int4 low;
    int4 high;
  };
  return bit_cast<WmmaOperand>(Halves{*reinterpret_cast<const int4*>(low), *reinterpret_cast<const int4*>(high)});
}
OCTAVE_DEVICE WmmaOperand read_operand(const uint8_t* source) { return read_operand(source, source + 16); }

// D = A·B + C
template <class Element>
OCTAVE_DEVICE float8 wmma(const WmmaOperand& a, const WmmaOperand& b, float8 c);

template <>
OCTAVE_MEMBER float8 wmma<_Float16>(const WmmaOperand& a, const WmmaOperand& b, float8 c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(bit_cast<half16>(a), bit_cast<half16>(b), c);
}
template <>
OCTAVE_MEMBER float8 wmma<__bf16>(const WmmaOperand& a, const WmmaOperand& b, float8 c) {
  return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bit_cast<short16>(a), bit_cast<short16>(b), c);
}

// Two elements in a register, the first in its low half. fp16: towards zero.
template <class Element>
OCTAVE_DEVICE uint32_t pack_pair(float first, float second);

template <>
OCTAVE_MEMBER uint32_t pack_pair<_Float16>(float first, float second) {
  return bit_cast<uint32_t>(__builtin_amdgcn_cvt_pkrtz(first, second));
}
template <>
OCTAVE_MEMBER uint32_t pack_pair<__bf16>(float first, float second) {
  // To nearest; halves go away from zero. Only for numbers below the largest bf16, and NaN with a low payload.
  return __builtin_amdgcn_perm(bit_cast<uint32_t>(second) + 0x8000u, bit_cast<uint32_t>(first) + 0x8000u, 0x07060302u);
}

// sum + both elements of a pair
template <class Element>
OCTAVE_DEVICE float add_pair(uint32_t pair, float sum);

template <>
OCTAVE_MEMBER float add_pair<_Float16>(uint32_t pair, float sum) {
  return __builtin_amdgcn_fdot2(bit_cast<half2>(pair), half2{1.0f, 1.0f}, sum, false);
}
template <>
OCTAVE_MEMBER float add_pair<__bf16>(uint32_t pair, float sum) {
  return __builtin_amdgcn_fdot2_f32_bf16(bit_cast<bfloat2>(pair), bit_cast<bfloat2>(0x3F803F80u), sum, false);
}

// The first element of a pair.
template <class Element>
OCTAVE_DEVICE float unpack_low(uint32_t pair) {
  return static_cast<float>(bit_cast<Element>(static_cast<uint16_t>(pair)));
}

// The operand of a lane's column from D's values in order: a lane has half of them, the other half comes from lane ^ 16.
OCTAVE_DEVICE WmmaOperand gather_halves(const uint32_t (&own)[4]) {
  const bool upper = lane_index() >= 16;
  WmmaOperand operand;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t other = lane_xor<16>(own[i]);
    operand.words[i] = upper ? other : own[i];
    operand.words[4 + i] = upper ? own[i] : other;
  }
  return operand;
}

}  // namespace octave
