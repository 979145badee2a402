// Operands of decode's wmma tier: packed codes to exact fp16 values, each once, through a wave's own stretch of LDS.
#pragma once

#include "octave/codebook.h"
#include "octave/wmma.h"
#include "octave/wmma_tile.h"

namespace octave {

// fp16 values of four 3-bit codes, one per byte.
template <class Format>
OCTAVE_DEVICE uint2 halves3(uint32_t codes) {
  const uint32_t low = lookup3<HalfBook<Format, 0>>(codes);
  const uint32_t high = lookup3<HalfBook<Format, 1>>(codes);
  return {pair_bytes(low, high, 0), pair_bytes(low, high, 1)};
}

// fp16 values of four 4-bit codes, one per byte: a byte b below 0x64 is 1024 + b.
template <class Format>
OCTAVE_DEVICE uint2 halves4(uint32_t codes) {
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
  const uint32_t first = pair_bytes(tokens[0].word[word], tokens[1].word[word], byte / 2);
  const uint32_t second = pair_bytes(tokens[2].word[word], tokens[3].word[word], byte / 2);
  return permute_bytes(second, first, byte % 2 == 0 ? 0x05040100u : 0x07060302u);
}

// Writes block `b` of K: row lane % 16, the half of its 64 dims that the half of lanes says.
template <class Format, class Tile>
OCTAVE_DEVICE void unpack_key(const KeyWords<Format, Tile>& words, int b, _Float16 (&operand)[16][72]) {
  uint2 values[8];
  if (b < Tile::kNibbleBlocks) {
#pragma unroll
    for (int quad = 0; quad < 8; ++quad)
      values[quad] = halves4<Format>(nibble_codes(words.nibbles[b].word[quad / 2], quad % 2));
  } else {
    const auto& low = words.low[b - Tile::kNibbleBlocks].word;
    uint32_t codes[8];
    plane_codes8(low[0], low[1], words.high[b - Tile::kNibbleBlocks].word[0], codes);
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

// Between writes and reads of a wave's operands. Nothing is moved across, so that only one chunk is in registers.
OCTAVE_DEVICE void operand_fence() {
  wave_fence();
  schedule_barrier();
}

// Behind the multiplication of column `c` in a step: keeps few of the four steps' operands in registers at a time.
template <class Tile>
OCTAVE_DEVICE void limit_reads(int step, int c) {
  if (Tile::kColumns > 2 || (Tile::kColumns == 2 && c == 1 && step % 2 == 1)) schedule_barrier();
}

}  // namespace octave
