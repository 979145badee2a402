// The packed codes of the Octave format: bit planes to one code per byte, codes to bytes of a codebook through
// v_perm_b32.
// Format is the constants struct of the generated file.
#pragma once

#include "octave/device.h"

namespace octave {

// Byte i of the result is byte (selector byte i) of the eight bytes low, high.
OCTAVE_DEVICE uint32_t permute_bytes(uint32_t high, uint32_t low, uint32_t selector) {
  return __builtin_amdgcn_perm(high, low, selector);
}

// Bytes 0 and 1 (half 0) or 2 and 3 of two dwords, side by side: first, second, first, second.
OCTAVE_DEVICE uint32_t pair_bytes(uint32_t first, uint32_t second, int half) {
  return permute_bytes(second, first, half == 0 ? 0x05010400u : 0x07030602u);
}

// int8 values of four 3-bit codes, one per byte; Format may also be one of the books below.
template <class Format>
OCTAVE_DEVICE uint32_t lookup3(uint32_t codes) {
  return permute_bytes(Format::kLut3Hi, Format::kLut3Lo, codes);
}

// The bytes of a word in their own order, as a selector.
inline constexpr uint32_t kPlaces = 0x03020100u;

// int8 values of four 4-bit codes, one per byte: both halves of the table, then one of them by bit 3 of each code.
// places: kPlaces, or the same in a vector register, which saves an instruction.
template <class Format>
OCTAVE_DEVICE uint32_t lookup4(uint32_t codes, uint32_t places = kPlaces) {
  const uint32_t index = codes & 0x07070707u;
  const uint32_t lower = permute_bytes(Format::kLut4Dword1, Format::kLut4Dword0, index);
  const uint32_t upper = permute_bytes(Format::kLut4Dword3, Format::kLut4Dword2, index);
  return permute_bytes(upper, lower, ((codes >> 1) & 0x04040404u) | places);
}

// The codebooks plus 128: unsigned bytes, whose bias is taken off the outputs.
template <class Format>
struct BiasedBook {
  static constexpr unsigned kSigns = 0x80808080u;
  static constexpr unsigned kLut3Lo = Format::kLut3Lo ^ kSigns;
  static constexpr unsigned kLut3Hi = Format::kLut3Hi ^ kSigns;
  static constexpr unsigned kLut4Dword0 = Format::kLut4Dword0 ^ kSigns;
  static constexpr unsigned kLut4Dword1 = Format::kLut4Dword1 ^ kSigns;
  static constexpr unsigned kLut4Dword2 = Format::kLut4Dword2 ^ kSigns;
  static constexpr unsigned kLut4Dword3 = Format::kLut4Dword3 ^ kSigns;
};

// The fp16 of a whole number below 2^11, other than 0.
OCTAVE_DEVICE constexpr unsigned half_bits(int value) {
  const unsigned size = static_cast<unsigned>(value < 0 ? -value : value);
  unsigned exponent = 0;
  while (size >> (exponent + 1) != 0) ++exponent;
  return (value < 0 ? 0x8000u : 0u) | (exponent + 15) << 10 | ((size << 10 >> exponent) & 0x3FFu);
}

// The codebooks in fp16: byte kByte of each value.
template <class Format, int kByte>
struct HalfBook {
  static OCTAVE_MEMBER constexpr unsigned bytes(unsigned dword) {
    unsigned found = 0;
    for (int i = 0; i < 4; ++i)
      found |= (half_bits(static_cast<int8_t>(dword >> (8 * i))) >> (8 * kByte) & 0xFFu) << (8 * i);
    return found;
  }
  static constexpr unsigned kLut3Lo = bytes(Format::kLut3Lo);
  static constexpr unsigned kLut3Hi = bytes(Format::kLut3Hi);
  static constexpr unsigned kLut4Dword0 = bytes(Format::kLut4Dword0);
  static constexpr unsigned kLut4Dword1 = bytes(Format::kLut4Dword1);
  static constexpr unsigned kLut4Dword2 = bytes(Format::kLut4Dword2);
  static constexpr unsigned kLut4Dword3 = bytes(Format::kLut4Dword3);
};

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
