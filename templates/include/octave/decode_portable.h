// decode, portable tier: int8 query, dot4 on the packed K, fp32 probabilities and outputs.
//
// A workgroup takes one query group, one kv head and one KV split; its rows are the query heads of all query tokens of
// the group. Per tile of tokens: addresses, scores (an aligned group of lanes per token), softmax (a wave per row),
// outputs (a group of lanes per token, each lane a few dims of all rows), with a barrier between them.
#pragma once

#include "octave/codebook.h"
#include "octave/decode_group.h"
#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/vector.h"

namespace octave {

// What follows from the shape: Format and Config are the structs of the generated file.
template <class Format, class Config>
struct DecodeTile {
  static constexpr int kHeadSize = Format::kHeadSize;
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kWaves = kThreads / kWaveSize;
  static constexpr int kTokens = Config::kTileTokens;
  static constexpr int kQueries = Config::kQueries;
  static constexpr int kRows = Config::kGqaGroup * kQueries;
  static constexpr int kRowStride = (kRows + 3) / 4 * 4;
  // Query scales: one for 64 dims, whatever the rotation of K.
  static constexpr int kQueryBlock = 64;
  static constexpr int kQueryBlocks = kHeadSize / kQueryBlock;
  // Scores: a lane takes 16 dims of a token, and tokens kKeyGroups apart.
  static constexpr int kKeyDims = 16;
  static constexpr int kKeyLanes = kHeadSize / kKeyDims;
  static constexpr int kKeyGroups = kThreads / kKeyLanes;
  static constexpr int kKeyTokens = kTokens / kKeyGroups;
  // Outputs: a lane takes kValueDims dims of a token, and tokens kValueGroups apart.
  static constexpr int kValueDims = Config::kValueDimsPerLane;
  static constexpr int kValueLanes = kHeadSize / kValueDims;
  static constexpr int kValueGroups = kThreads / kValueLanes;
  static constexpr int kMergeRows = 2;
  static_assert(kKeyTokens * kKeyGroups == kTokens && kValueGroups * kValueLanes == kThreads);
};

template <class Tile>
struct DecodeShared {
  union {
    struct {
      alignas(16) int4 query[Tile::kRows][Tile::kHeadSize / 16];
      // Scores, then probabilities times the value scale.
      alignas(16) float scores[Tile::kTokens][Tile::kRowStride];
    };
    float merge[Tile::kValueGroups][Tile::kMergeRows][Tile::kHeadSize];
  };
  int request[Tile::kQueries];  // of each query token; -1 for padding
  int length[Tile::kQueries];   // tokens that it sees
  float query_scale[Tile::kRows][Tile::kQueryBlocks];
  float maximum[Tile::kRowStride];
  float sum[Tile::kRowStride];
  alignas(16) float rescale[Tile::kRowStride];
  int64_t slot_offset[Tile::kTokens];
  float value_scale[Tile::kTokens];
};

// Rotates one query row like K and quantizes it to int8 with one scale per 64 dims: absmax a, scale a/127,
// code = round-half-even(x · (127/a)). A block that is not finite gets the scale NaN, and so the row's output is NaN.
// A row without a source is zero.
template <class Format, class Tile, class Scalar>
OCTAVE_DEVICE void quantize_query_row(const Scalar* source, const uint32_t* k_signs, float unit,
                                      DecodeShared<Tile>& shared, int row) {
  constexpr int kCount = kElements<Tile::kHeadSize>;
  constexpr int kLanes = Tile::kQueryBlock / kCount;
  float x[kCount] = {};
  if (source != nullptr) {
    load_vector(source, x);
    rotate_forward<Format::kKBlockSize>(k_signs, x);
  }
  float largest = __builtin_fabsf(x[0]);
#pragma unroll
  for (int i = 1; i < kCount; ++i) largest = __builtin_fmaxf(largest, __builtin_fabsf(x[i]));
  largest = group_max<kLanes>(largest);
  const bool finite = largest < kInfinity;
  const bool used = finite && largest >= kQueryFloor;
  const float inverse = used ? 127.0f / largest : 0.0f;
  auto* codes = reinterpret_cast<int8_t*>(shared.query[row]);
  const int dim = lane_index() * kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    codes[dim + i] = static_cast<int8_t>(used ? __builtin_rintf(x[i] * inverse) : 0.0f);
  }
  if (lane_index() % kLanes == 0) {
    shared.query_scale[row][dim / Tile::kQueryBlock] = used     ? largest / 127.0f * unit
                                                       : finite ? 0.0f
                                                                : __builtin_nanf("");
  }
}

// Where a lane finds its 16 dims of K in a slot.
template <class Format>
struct KeyLane {
  bool rotary;
  int first_offset;   // dword: 8 dims of 4-bit codes, or the 2-bit plane of 16 dims
  int second_offset;  // dword: the next 8 dims, or the 1-bit plane of 32 dims
  int high_shift;     // where the lane's 16 dims start in each byte of the 1-bit plane
  int scale_offset;

  static OCTAVE_MEMBER KeyLane of(int dim) {
    KeyLane lane;
    lane.rotary = dim < Format::kRotaryDims;
    const int rest = dim - Format::kRotaryDims;
    lane.first_offset = lane.rotary ? Format::kKRotaryOffset + dim / 2 : Format::kKRestOffset + rest / 4;
    lane.second_offset = lane.rotary ? lane.first_offset + 4 : Format::kKRestHighPlane + rest / 32 * 4;
    lane.high_shift = lane.rotary ? 0 : rest / 16 % 2 * 4;
    lane.scale_offset = Format::kKScaleOffset + dim / Format::kKBlockSize * 2;
    return lane;
  }
};

// int8 values of a lane's 16 dims of K.
template <class Format>
OCTAVE_DEVICE int4 unpack_key(const KeyLane<Format>& lane, uint32_t first, uint32_t second) {
  uint32_t values[4];
#pragma unroll
  for (int quad = 0; quad < 4; ++quad)
    values[quad] = lookup3<Format>(plane_codes(first, second >> lane.high_shift, quad));
  if constexpr (Format::kRotaryDims > 0) {
    if (lane.rotary) {
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) {
        values[quad] = lookup4<Format>(nibble_codes(quad < 2 ? first : second, quad % 2));
      }
    }
  }
  return int4{static_cast<int32_t>(values[0]), static_cast<int32_t>(values[1]), static_cast<int32_t>(values[2]),
              static_cast<int32_t>(values[3])};
}

// Slot offsets and value scales of the tile's tokens. Past the end the last token is taken again: its probability is
// zero there, and nothing beyond the context is read.
template <class Format, class Tile>
OCTAVE_DEVICE void locate_tile(const uint8_t* cache, const int32_t* blocks, int64_t block_stride, int64_t row_stride,
                               int block_size, int tile, int count, DecodeShared<Tile>& shared) {
  for (int i = thread_index(); i < Tile::kTokens; i += Tile::kThreads) {
    const int token = tile + min(i, count - 1);
    const int64_t block = blocks[token / block_size];
    const int64_t offset = block * block_stride + token % block_size * row_stride;
    const auto scale = *reinterpret_cast<const _Float16*>(cache + offset + Format::kVScaleOffset);
    shared.slot_offset[i] = offset;
    shared.value_scale[i] = static_cast<float>(scale) * (1.0f / Format::kLutOne);
  }
}

template <class Format, class Tile>
OCTAVE_DEVICE void score_tile(const uint8_t* cache, DecodeShared<Tile>& shared) {
  const int part = thread_index() % Tile::kKeyLanes;
  const int group = thread_index() / Tile::kKeyLanes;
  const auto lane = KeyLane<Format>::of(part * Tile::kKeyDims);
  int4 keys[Tile::kKeyTokens];
  float scales[Tile::kKeyTokens];
#pragma unroll
  for (int i = 0; i < Tile::kKeyTokens; ++i) {
    const uint8_t* slot = cache + shared.slot_offset[group + i * Tile::kKeyGroups];
    const auto first = *reinterpret_cast<const uint32_t*>(slot + lane.first_offset);
    const auto second = *reinterpret_cast<const uint32_t*>(slot + lane.second_offset);
    keys[i] = unpack_key(lane, first, second);
    scales[i] = static_cast<float>(*reinterpret_cast<const _Float16*>(slot + lane.scale_offset));
  }
#pragma unroll 2
  for (int row = 0; row < Tile::kRows; ++row) {
    const int4 query = shared.query[row][part];
    const float query_scale = shared.query_scale[row][part * Tile::kKeyDims / Tile::kQueryBlock];
#pragma unroll
    for (int i = 0; i < Tile::kKeyTokens; ++i) {
      int32_t dot = 0;
#pragma unroll
      for (int quad = 0; quad < 4; ++quad) dot = dot4(keys[i][quad], query[quad], dot);
      const float score = group_sum<Tile::kKeyLanes>(static_cast<float>(dot) * (query_scale * scales[i]));
      if (part == 0) shared.scores[group + i * Tile::kKeyGroups][row] = score;
    }
  }
}

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

template <class Format, class Config, class Scalar>
OCTAVE_DEVICE void decode(const Scalar* query, const uint8_t* cache, const int32_t* block_table,
                          const int32_t* q_to_req, const int32_t* q_to_klen, const int32_t* group_starts, float* mid_o,
                          const uint32_t* k_signs, int64_t query_token_stride, int64_t query_head_stride,
                          int64_t cache_block_stride, int64_t cache_head_stride, int64_t cache_row_stride,
                          int64_t block_table_stride, int64_t mid_token_stride, int64_t mid_head_stride,
                          int64_t mid_split_stride, int32_t num_queries, int32_t num_groups, int32_t num_requests,
                          int32_t block_size, int32_t num_kv_splits, float sm_scale) {
  using Tile = DecodeTile<Format, Config>;
  __shared__ DecodeShared<Tile> shared;
  const auto [first_query, queries] = query_range<Config>(group_starts, num_groups, num_queries);
  if (queries <= 0) return;
  const int64_t kv_head = workgroup_y();
  const int64_t split = workgroup_z();

  load_query_group<Tile::kQueries>(q_to_req + first_query, q_to_klen + first_query, queries, num_requests,
                                   shared.request, shared.length);
  for (int row = thread_index(); row < Tile::kRowStride; row += Tile::kThreads) {
    shared.maximum[row] = -kInfinity;
    shared.sum[row] = 0.0f;
    shared.rescale[row] = 1.0f;
  }
  workgroup_barrier();

  // Scores are in log2 units; a stored K value is LUT[code] · scale / kLutOne.
  const float unit = sm_scale * (kLog2E / Format::kLutOne);
  for (int row = wave_index(); row < Tile::kRows; row += Tile::kWaves) {
    const int64_t q = first_query + row / Config::kGqaGroup;
    const int64_t head = kv_head * Config::kGqaGroup + row % Config::kGqaGroup;
    const bool attends = uniform(shared.request[row / Config::kGqaGroup]) >= 0;
    quantize_query_row<Format>(attends ? query + q * query_token_stride + head * query_head_stride : nullptr, k_signs,
                               unit, shared, row);
  }

  Pair out[Tile::kRows][Tile::kValueDims / 2] = {};
  const uint8_t* head_cache = cache + kv_head * cache_head_stride;

  // Consecutive query tokens of one request share each read of K and V; normally the group is one such run.
  for (int run = 0, next_run = 0; run < Tile::kQueries; run = next_run) {
    const int request = uniform(shared.request[run]);
    int length = 0;
    for (; next_run < Tile::kQueries && uniform(shared.request[next_run]) == request; ++next_run) {
      length = max(length, uniform(shared.length[next_run]));
    }
    const auto [begin, end] = split_range<Config::kSplitGranule>(length, num_kv_splits, split);

    for (int tile = begin; tile < end; tile += Tile::kTokens) {
      const int count = min(Tile::kTokens, end - tile);
      workgroup_barrier();
      locate_tile<Format>(head_cache, block_table + request * block_table_stride, cache_block_stride, cache_row_stride,
                          block_size, tile, count, shared);
      workgroup_barrier();
      score_tile<Format>(head_cache, shared);
      workgroup_barrier();
      for (int row = wave_index(); row < Tile::kRows; row += Tile::kWaves) {
        const int q = row / Config::kGqaGroup;
        const bool in_run = q >= run && q < next_run;
        softmax_row(in_run ? uniform(shared.length[q]) - tile : 0, count, shared, row);
      }
      workgroup_barrier();
      accumulate_tile<Format>(head_cache, count, shared, out);
    }
  }
  write_partials<Tile, Config>(
      mid_o + first_query * mid_token_stride + kv_head * Config::kGqaGroup * mid_head_stride + split * mid_split_stride,
      mid_token_stride, mid_head_stride, queries, shared, out);
}

}  // namespace octave
