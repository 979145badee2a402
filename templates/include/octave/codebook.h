// The packed codes of the Octave format: bit planes to one code per byte, codes to int8 values through v_perm_b32.
// Format is the constants struct of the generated file.
#pragma once

#include "octave/device.h"

namespace octave {

// Byte i of the result is byte (selector byte i) of the eight bytes low, high.
OCTAVE_DEVICE uint32_t permute_bytes(uint32_t high, uint32_t low, uint32_t selector) {
  return __builtin_amdgcn_perm(high, low, selector);
}

// int8 values of four 3-bit codes, one per byte.
template <class Format>
OCTAVE_DEVICE uint32_t lookup3(uint32_t codes) {
  return permute_bytes(Format::kLut3Hi, Format::kLut3Lo, codes);
}

// int8 values of four 4-bit codes, one per byte: both halves of the table, then one of them by bit 3 of each code.
template <class Format>
OCTAVE_DEVICE uint32_t lookup4(uint32_t codes) {
  const uint32_t index = codes & 0x07070707u;
  const uint32_t lower = permute_bytes(Format::kLut4Dword1, Format::kLut4Dword0, index);
  const uint32_t upper = permute_bytes(Format::kLut4Dword3, Format::kLut4Dword2, index);
  return permute_bytes(upper, lower, ((codes >> 1) & 0x04040404u) | 0x03020100u);
}

// Codes of quad i of a dword of 4-bit codes (8 dims: quad 0 in the low nibbles, quad 1 in the high ones).
OCTAVE_DEVICE uint32_t nibble_codes(uint32_t nibbles, int quad) { return (nibbles >> (4 * quad)) & 0x0F0F0F0Fu; }

// Codes of a quad of 3-bit codes: `quad` 0–3 within the dword of the 2-bit plane (16 dims), `high` the dword of the
// 1-bit plane (32 dims), shifted so that the same 16 dims start at bit 0 of each byte.
OCTAVE_DEVICE uint32_t plane_codes(uint32_t low, uint32_t high, int quad) {
  return ((low >> (2 * quad)) & 0x03030303u) | (((high >> quad) << 2) & 0x04040404u);
}

// Byte i of a dword of int8 values, as fp32.
OCTAVE_DEVICE float signed_byte(uint32_t values, int i) {
  return static_cast<float>(static_cast<int8_t>(values >> (8 * i)));
}

}  // namespace octave
