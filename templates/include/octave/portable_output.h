// Softmax and outputs of decode's portable tier: fp32, each lane a few dims of all rows; and the partials at the end.
#pragma once

#include "octave/codebook.h"
#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/portable_tile.h"

namespace octave {

// Online softmax of one row over the tile: scores become probabilities times the value scale, zero for a token the row
// may not see, so that nothing such a token holds reaches the output.
template <class Tile>
OCTAVE_DEVICE void softmax_row(int visible, int count, DecodeShared<Tile>& shared, int row) {
  visible = min(visible, count);
  constexpr int kPerLane = (Tile::kTokens + kWaveSize - 1) / kWaveSize;
  float scores[kPerLane];
  float maximum = -kInfinity;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int token = lane_index() + i * kWaveSize;
    scores[i] = token < visible ? shared.scores[token][row] : -kInfinity;
    maximum = __builtin_fmaxf(maximum, scores[i]);
  }
  const float before = shared.maximum[row];
  maximum = __builtin_fmaxf(before, group_max<kWaveSize>(maximum));
  const float rescale = maximum == before ? 1.0f : exp2(before - maximum);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int token = lane_index() + i * kWaveSize;
    // A score equal to the maximum has probability 1, an infinite one too, where the difference would be NaN.
    const float probability = scores[i] == maximum ? 1.0f : exp2(scores[i] - maximum);
    const bool seen = token < visible;
    if (token < Tile::kTokens) shared.scores[token][row] = seen ? probability * shared.value_scale[token] : 0.0f;
    sum += seen ? probability : 0.0f;
  }
  sum = group_sum<kWaveSize>(sum);
  if (lane_index() == 0) {
    shared.rescale[row] = rescale;
    shared.maximum[row] = maximum;
    shared.sum[row] = __builtin_fmaf(shared.sum[row], rescale, sum);
  }
}

// Two dims of V or of an output row: a vector where one instruction multiplies both (gfx9). gfx11 issues two
// multiplications at once, which the compiler pairs where it sees plain floats.
#if defined(__GFX11__)
struct Pair {
  float dims[2];
  OCTAVE_MEMBER float& operator[](int i) { return dims[i]; }
  OCTAVE_MEMBER float operator[](int i) const { return dims[i]; }
};
#else
using Pair = float2;
#endif

// Row r of `out` times factors[r].
template <int kPairs>
OCTAVE_DEVICE void scale_rows(float4 factors, int rows, Pair (*out)[kPairs]) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
#if defined(__GFX11__)
      for (float& dim : out[r][i].dims) dim *= factors[r];
#else
      out[r][i] *= factors[r];
#endif
    }
  }
}

// Row r of `out` plus probabilities[r] · values.
template <int kPairs>
OCTAVE_DEVICE void add_rows(float4 probabilities, const Pair (&values)[kPairs], int rows, Pair (*out)[kPairs]) {
#if defined(__GFX11__)
  // Two that can be issued at once read no register in common: other rows, other dims.
#pragma unroll
  for (int row = 0; row < rows; row += 2) {
#pragma unroll
    for (int first = 0; first < 2 * kPairs; ++first) {
#pragma unroll
      for (int r = row; r < min(row + 2, rows); ++r) {
        const int dim = first ^ (r - row);
        float& sum = out[r][dim / 2][dim % 2];
        sum = __builtin_fmaf(probabilities[r], values[dim / 2][dim % 2], sum);
      }
    }
  }
#else
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const Pair probability{probabilities[r], probabilities[r]};
#pragma unroll
    for (int i = 0; i < kPairs; ++i) out[r][i] = __builtin_elementwise_fma(probability, values[i], out[r][i]);
  }
#endif
}

template <class Format, class Tile>
struct ValueWords {
  uint32_t first;
  uint32_t second;
};

template <class Format, class Tile>
OCTAVE_DEVICE ValueWords<Format, Tile> load_value(const uint8_t* slot, int dim) {
  if constexpr (Format::kVBits == 4) {
    return {*reinterpret_cast<const uint32_t*>(slot + Format::kVOffset + dim / 8 * 4), 0};
  } else {
    return {*reinterpret_cast<const uint32_t*>(slot + Format::kVOffset + dim / 16 * 4),
            *reinterpret_cast<const uint32_t*>(slot + Format::kVHighPlane + dim / 32 * 4)};
  }
}

// The lane's dims of V as fp32 pairs of int8 values.
template <class Format, class Tile>
OCTAVE_DEVICE void unpack_value(ValueWords<Format, Tile> words, int dim, Pair (&values)[Tile::kValueDims / 2]) {
  uint32_t bytes;
  if constexpr (Format::kVBits == 4) {
    bytes = lookup4<Format>(nibble_codes(words.first, dim / 4 % 2));
  } else {
    bytes = lookup3<Format>(plane_codes(words.first, words.second >> (dim / 16 % 2 * 4), dim / 4 % 4));
  }
  if constexpr (Tile::kValueDims < 4) bytes >>= 8 * (dim % 4);
#pragma unroll
  for (int i = 0; i < Tile::kValueDims / 2; ++i)
    values[i] = Pair{signed_byte(bytes, 2 * i), signed_byte(bytes, 2 * i + 1)};
}

template <class Format, class Tile>
OCTAVE_DEVICE void accumulate_tile(const uint8_t* cache, int count, DecodeShared<Tile>& shared,
                                   Pair (&out)[Tile::kRows][Tile::kValueDims / 2]) {
  const int group = thread_index() / Tile::kValueLanes;
  const int dim = thread_index() % Tile::kValueLanes * Tile::kValueDims;
#pragma unroll
  for (int row = 0; row < Tile::kRows; row += 4) {
    scale_rows(*reinterpret_cast<const float4*>(&shared.rescale[row]), min(4, Tile::kRows - row), &out[row]);
  }
  auto next = load_value<Format, Tile>(cache + shared.slot_offset[group], dim);
  for (int token = group; token < count; token += Tile::kValueGroups) {
    Pair values[Tile::kValueDims / 2];
    unpack_value<Format, Tile>(next, dim, values);
    next =
        load_value<Format, Tile>(cache + shared.slot_offset[min(token + Tile::kValueGroups, Tile::kTokens - 1)], dim);
#pragma unroll
    for (int row = 0; row < Tile::kRows; row += 4) {
      // Keeps the probabilities of many rows from being loaded long before they are used.
      if (row % 16 == 0 && row > 0) schedule_barrier();
      const float4 probabilities = *reinterpret_cast<const float4*>(&shared.scores[token][row]);
      add_rows(probabilities, values, min(4, Tile::kRows - row), &out[row]);
    }
  }
}

// Sums the outputs over the groups of lanes that took different tokens, and writes the partials of all rows.
template <class Tile, class Config>
OCTAVE_DEVICE void write_partials(float* mid_o, int64_t token_stride, int64_t head_stride, int queries,
                                  DecodeShared<Tile>& shared, const Pair (&out)[Tile::kRows][Tile::kValueDims / 2]) {
  const int group = thread_index() / Tile::kValueLanes;
  const int dim = thread_index() % Tile::kValueLanes * Tile::kValueDims;
#pragma unroll
  for (int first = 0; first < Tile::kRows; first += Tile::kMergeRows) {
    workgroup_barrier();
#pragma unroll
    for (int r = 0; r < min(Tile::kMergeRows, Tile::kRows - first); ++r) {
#pragma unroll
      for (int i = 0; i < Tile::kValueDims; ++i) shared.merge[group][r][dim + i] = out[first + r][i / 2][i % 2];
    }
    workgroup_barrier();
    for (int i = thread_index(); i < Tile::kMergeRows * Tile::kHeadSize; i += Tile::kThreads) {
      const int row = first + i / Tile::kHeadSize;
      const int query = row / Config::kGqaGroup;
      if (row >= Tile::kRows || query >= queries) continue;
      float sum = 0.0f;
#pragma unroll
      for (int g = 0; g < Tile::kValueGroups; ++g) sum += shared.merge[g][i / Tile::kHeadSize][i % Tile::kHeadSize];
      mid_o[query * token_stride + row % Config::kGqaGroup * head_stride + i % Tile::kHeadSize] = sum;
    }
  }
  for (int row = thread_index(); row < Tile::kRows; row += Tile::kThreads) {
    const int query = row / Config::kGqaGroup;
    if (query >= queries) continue;
    float* partial = mid_o + query * token_stride + row % Config::kGqaGroup * head_stride + Tile::kHeadSize;
    partial[0] = shared.maximum[row];
    partial[1] = shared.sum[row];
  }
}

}  // namespace octave
