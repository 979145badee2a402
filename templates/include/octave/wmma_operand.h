// Operands of decode's wmma tier: packed codes to exact fp16 values, each once, through a wave's own stretch of LDS.
#pragma once

#include "octave/codebook.h"
#include "octave/wmma_tile.h"

namespace octave {

// The fp16 of a whole number below 2^11.
constexpr uint32_t half_bits(int value) {
  const int size = value < 0 ? -value : value;
  int exponent = 0;
  while (size >> (exponent + 1)) ++exponent;
  const int fraction = ((size << 10) >> exponent) & 0x3FF;
  return (value < 0 ? 0x8000u : 0u) | static_cast<uint32_t>((exponent + 15) << 10) | static_cast<uint32_t>(fraction);
}

// The 3-bit codebook in fp16: a table of low bytes and one of high bytes, four entries to a dword.
template <class Format>
struct HalfBook {
  static constexpr uint32_t table(uint32_t values, int shift) {
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i)
      bytes |= ((half_bits(static_cast<int8_t>(values >> (8 * i))) >> shift) & 0xFF) << (8 * i);
    return bytes;
  }
  static constexpr uint32_t kLow0 = table(Format::kLut3Lo, 0);
  static constexpr uint32_t kLow1 = table(Format::kLut3Hi, 0);
  static constexpr uint32_t kHigh0 = table(Format::kLut3Lo, 8);
  static constexpr uint32_t kHigh1 = table(Format::kLut3Hi, 8);
};

// fp16 values of four 3-bit codes, one per byte.
template <class Format>
OCTAVE_DEVICE uint2 halves3(uint32_t codes) {
  using Book = HalfBook<Format>;
  const uint32_t low = permute_bytes(Book::kLow1, Book::kLow0, codes);
  const uint32_t high = permute_bytes(Book::kHigh1, Book::kHigh0, codes);
  return {permute_bytes(high, low, 0x05010400u), permute_bytes(high, low, 0x07030602u)};
}

// The codebooks plus 128: unsigned bytes.
template <class Format>
struct BiasedBook {
  static constexpr unsigned kSigns = 0x80808080u;
  static constexpr unsigned kLut4Dword0 = Format::kLut4Dword0 ^ kSigns;
  static constexpr unsigned kLut4Dword1 = Format::kLut4Dword1 ^ kSigns;
  static constexpr unsigned kLut4Dword2 = Format::kLut4Dword2 ^ kSigns;
  static constexpr unsigned kLut4Dword3 = Format::kLut4Dword3 ^ kSigns;
};

// fp16 values of four 4-bit codes, one per byte: a byte b below 0x64 is 1024 + b.
template <class Format>
OCTAVE_DEVICE uint2 halves4(uint32_t codes) {
  using half2 = _Float16 __attribute__((ext_vector_type(2)));
  const uint32_t bytes = lookup4<BiasedBook<Format>>(codes);
  const half2 bias = {1152.0f, 1152.0f};
  const half2 first = bit_cast<half2>(permute_bytes(0x64646464u, bytes, 0x04010400u)) - bias;
  const half2 second = bit_cast<half2>(permute_bytes(0x64646464u, bytes, 0x04030402u)) - bias;
  return {bit_cast<uint32_t>(first), bit_cast<uint32_t>(second)};
}

// The codes of eight quads of 3-bit codes, as `plane_codes` has them: quads 0-3 of two dwords of the 2-bit plane, and
// the dword of the 1-bit plane. Codes of both dwords share bytes until the end, which takes fewer instructions.
OCTAVE_DEVICE void plane_codes8(uint32_t low0, uint32_t low1, uint32_t high, uint32_t (&codes)[8]) {
  const auto select = [](uint32_t mask, uint32_t a, uint32_t b) { return (mask & a) | (~mask & b); };
  const uint32_t first = select(0x0F0F0F0Fu, low0, low1 << 4);
  const uint32_t second = select(0x0F0F0F0Fu, low0 >> 4, low1);
  const uint32_t nibbles[4] = {select(0x33333333u, first, high << 2), select(0x33333333u, first >> 2, high << 1),
                               select(0x33333333u, second, high), select(0x33333333u, second >> 2, high >> 1)};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    codes[i] = nibbles[i] & 0x07070707u;
    codes[4 + i] = (nibbles[i] >> 4) & 0x07070707u;
  }
}

// Byte `byte` of a dword of each of four tokens.
template <int kCount>
OCTAVE_DEVICE uint32_t gather_byte(const Words<kCount> (&tokens)[4], int word, int byte) {
  const uint32_t pairs = byte < 2 ? 0x05010400u : 0x07030602u;
  const uint32_t first = permute_bytes(tokens[1].word[word], tokens[0].word[word], pairs);
  const uint32_t second = permute_bytes(tokens[3].word[word], tokens[2].word[word], pairs);
  return permute_bytes(second, first, byte % 2 == 0 ? 0x05040100u : 0x07060302u);
}

// Writes block `b` of K: row lane % 16, the half of its 64 dims that the half of lanes says.
template <class Format, class Tile>
OCTAVE_DEVICE void unpack_key(const KeyWords<Format, Tile>& words, int b, _Float16 (&operand)[16][72]) {
  uint2 values[8];
  if (b < Tile::kRotaryBlocks) {
#pragma unroll
    for (int quad = 0; quad < 8; ++quad)
      values[quad] = halves4<Format>(nibble_codes(words.rotary[b].word[quad / 2], quad % 2));
  } else {
    const auto& low = words.low[b - Tile::kRotaryBlocks].word;
    uint32_t codes[8];
    plane_codes8(low[0], low[1], words.high[b - Tile::kRotaryBlocks].word[0], codes);
#pragma unroll
    for (int quad = 0; quad < 8; ++quad) values[quad] = halves3<Format>(codes[quad]);
  }
  auto* target = reinterpret_cast<uint4*>(&operand[lane_index() % 16][lane_index() / 16 * 32]);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    target[i] = uint4{values[2 * i][0], values[2 * i][1], values[2 * i + 1][0], values[2 * i + 1][1]};
}

// Writes chunk `c` of V, dims in rows: row 8·half + m is dim half·kLaneDims + kChunks·m + c of the wave's; token t of
// each 16 is at 4t, followed by the tokens that lie 16, 32 and 48 behind it.
template <class Format, class Tile>
OCTAVE_DEVICE void unpack_value(const ValueWords<Format, Tile>& words, const WmmaLane<Format, Tile>& lane, int c,
                                _Float16 (&operand)[16][72]) {
  // Of dims 4i + c (and 4i + c + 2), in order
  uint2 values[8];
  if constexpr (Format::kVBits == 4) {
#pragma unroll
    for (int m = 0; m < 8; ++m) {
      const int place = m / Tile::kChunkBytes;
      const uint32_t nibbles = gather_byte(words.low, place / 2, Tile::kChunks * (m % Tile::kChunkBytes) + c);
      values[m] = halves4<Format>(nibble_codes(nibbles, place % 2));
    }
  } else {
    uint32_t codes[8];
    if constexpr (Tile::kChunkBytes == 1) {
      plane_codes8(gather_byte(words.low, 0, c), gather_byte(words.low, 1, c), gather_byte(words.high, 0, c), codes);
    } else {
      const uint32_t high = gather_byte(words.high, 0, c) >> lane.value_high_shift;
      const uint32_t other = gather_byte(words.high, 0, c + 2) >> lane.value_high_shift;
      plane_codes8(gather_byte(words.low, 0, c), gather_byte(words.low, 0, c + 2),
                   (high & 0x0F0F0F0Fu) | ((other << 4) & 0xF0F0F0F0u), codes);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) values[Tile::kChunkBytes == 1 ? i : i % 4 * 2 + i / 4] = halves3<Format>(codes[i]);
  }
  _Float16* target = &operand[lane_index() / 16 * 8][lane_index() % 16 * 4];
#pragma unroll
  for (int m = 0; m < 8; ++m) *reinterpret_cast<uint2*>(target + m * 72) = values[m];
}

// 16 fp16 of one row, which is what a lane holds of an operand.
OCTAVE_DEVICE half16 read_operand(const _Float16* first, const _Float16* second) {
  const half8 low = *reinterpret_cast<const half8*>(first);
  const half8 high = *reinterpret_cast<const half8*>(second);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Between writes and reads of a wave's operands. Nothing is moved across, so that only one chunk is in registers.
OCTAVE_DEVICE void operand_fence() {
  wave_fence();
  __builtin_amdgcn_sched_barrier(0);
}

// Behind the multiplication of column `c` in a step: keeps few of the four steps' operands in registers at a time.
template <class Tile>
OCTAVE_DEVICE void limit_reads(int step, int c) {
  if (Tile::kColumns > 2 || (Tile::kColumns == 2 && c == 1 && step % 2 == 1)) __builtin_amdgcn_sched_barrier(0);
}

OCTAVE_DEVICE float8 wmma(half16 a, half16 b, float8 c) { return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c); }

}  // namespace octave
