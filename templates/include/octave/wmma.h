// WMMA of RDNA3 on clang's builtins, for all tiers of that name: operands in LDS and registers, and the way of a result
// into the next operand; and how the tiers read memory.
//
// A and B: lane l holds row (column) l % 16 whole, 16 elements in 8 registers, both halves of the wave alike.
// C and D: register r of lane l holds row 2r + l/16 of column l % 16. Rows that are stored in the order of `wmma_row`
// therefore leave 8 neighbours of a column in a lane: 8·(l/16) + r.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"

namespace octave {

using float8 = float __attribute__((ext_vector_type(8)));
using half8 = _Float16 __attribute__((ext_vector_type(8)));
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

// The same of fp16 values.
OCTAVE_DEVICE half16 read_operand(const _Float16* first, const _Float16* second) {
  const half8 low = *reinterpret_cast<const half8*>(first);
  const half8 high = *reinterpret_cast<const half8*>(second);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// D = A·B + C
OCTAVE_DEVICE float8 wmma(half16 a, half16 b, float8 c) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c); }

template <class Element>
OCTAVE_DEVICE float8 wmma(const WmmaOperand& a, const WmmaOperand& b, float8 c);

template <>
OCTAVE_MEMBER float8 wmma<_Float16>(const WmmaOperand& a, const WmmaOperand& b, float8 c) {
  return wmma(bit_cast<half16>(a), bit_cast<half16>(b), c);
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

// A buffer resource of gfx11 of what lies from `base` on: loads take a lane offset, a scalar offset and a constant, so
// that no address is computed per lane. Its last word asks for dwords as they are.
OCTAVE_DEVICE __amdgpu_buffer_rsrc_t slots_from(const uint8_t* base) {
  return __builtin_amdgcn_make_buffer_rsrc(const_cast<uint8_t*>(base), 0, 0xFFFFFFFFu, 0x31004000);
}

}  // namespace octave
