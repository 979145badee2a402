// WMMA of RDNA3 for prefill, on clang's builtins: operands in LDS and registers, and the way of a result into the next
// operand.
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
using short16 = short __attribute__((ext_vector_type(16)));

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

// The first element of a pair.
OCTAVE_DEVICE float unpack_low(uint32_t pair) {
  return static_cast<float>(bit_cast<_Float16>(static_cast<uint16_t>(pair)));
}

// The operand of a lane's column from D's values in order: a lane has half of them, the other half comes from lane
// ^ 16.
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
