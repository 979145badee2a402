// reduce: merges the partials of the KV splits of one output row and rotates it back; one workgroup per row.
// A partial is head_size unnormalised outputs in the rotated V space, the reference that its probabilities were
// measured by (log2 units; the portable tier's is the maximum) and their sum, 0 for a split that holds no token.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/vector.h"

namespace octave {

template <int kHeadSize, int kWaves>
struct ReduceTile {
  static constexpr int kCount = kElements<kHeadSize>;
  // Partials that a wave has on the way at a time: in up to 64 registers.
  static constexpr int kFlight = min(8, 64 / kCount);
  static_assert(kWaveSize % kFlight == 0);
};

template <int kHeadSize, int kWaves>
struct ReduceShared {
  float maximum[kWaves];
  float sum[kWaves];
  alignas(16) float values[kWaves][kHeadSize];
};

// Adds kFlight partials, `step` apart, to x: all of them are loaded before the first is used. Where not all `full` bits
// are set, a partial without its bit adds nothing, whatever it holds; those from `left` on are not read.
template <int kFlight, bool kWhole, int kCount>
OCTAVE_DEVICE void add_partials(const float* partial, int64_t step, float weight, int first, int left, uint64_t full,
                                float (&x)[kCount]) {
  float values[kFlight][kCount];
#pragma unroll
  for (int j = 0; j < kFlight; ++j) load_vector(partial + (kWhole ? j : min(j, left - 1)) * step, values[j]);
#pragma unroll
  for (int j = 0; j < kFlight; ++j) {
    const float w = bit_cast<float>(__builtin_amdgcn_readlane(bit_cast<int32_t>(weight), first + j));
    const bool counts = kWhole || ((full >> j) & 1) != 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = __builtin_fmaf(w, counts ? values[j][i] : 0.0f, x[i]);
  }
}

template <int kHeadSize, int kWaves, class Scalar>
OCTAVE_DEVICE void reduce(const float* mid_o, Scalar* out, const uint32_t* v_signs, int64_t mid_token_stride,
                          int64_t mid_head_stride, int64_t mid_split_stride, int64_t out_token_stride,
                          int64_t out_head_stride, int32_t num_kv_splits) {
  using Tile = ReduceTile<kHeadSize, kWaves>;
  constexpr int kCount = Tile::kCount;
  constexpr int kFlight = Tile::kFlight;
  __shared__ ReduceShared<kHeadSize, kWaves> shared;
  const int64_t query = workgroup_x();
  const int64_t head = workgroup_y();
  const int wave = wave_index();
  const float* partials = mid_o + query * mid_token_stride + head * mid_head_stride;

  // Wave w takes the splits w, w + kWaves, …; in a pass, lane l looks after the maximum and the sum of its l-th.
  const int own = num_kv_splits > wave ? (num_kv_splits - wave + kWaves - 1) / kWaves : 0;
  float maximum = -kInfinity;
  for (int lane = lane_index(); lane < own; lane += kWaveSize) {
    const float* partial = partials + (kWaves * lane + wave) * mid_split_stride + kHeadSize;
    maximum = __builtin_fmaxf(maximum, partial[1] == 0.0f ? -kInfinity : partial[0]);
  }
  maximum = group_max<kWaveSize>(maximum);

  float x[kCount] = {};
  float sum = 0.0f;
  for (int begin = 0; begin < own; begin += kWaveSize) {
    const float* first = partials + (kWaves * begin + wave) * mid_split_stride;
    const int count = min(own - begin, kWaveSize);
    const float* mine = first + kWaves * min(lane_index(), count - 1) * mid_split_stride + kHeadSize;
    const float split_sum = lane_index() < count ? mine[1] : 0.0f;
    // An empty split carries no weight. An infinite maximum has weight 1 for itself; the difference would be NaN.
    const float weight = split_sum == 0.0f ? 0.0f : mine[0] == maximum ? 1.0f : exp2(mine[0] - maximum);
    if (split_sum != 0.0f) sum = __builtin_fmaf(weight, split_sum, sum);
    const uint64_t full = wave_ballot(split_sum != 0.0f);
    constexpr uint64_t kAll = (1ull << kFlight) - 1;
    for (int i = 0; i < count; i += kFlight) {
      const float* partial = first + kWaves * i * mid_split_stride;
      const uint64_t here = (full >> i) & kAll;
      if (here == kAll) {
        add_partials<kFlight, true>(partial, kWaves * mid_split_stride, weight, i, kFlight, here, x);
      } else {
        add_partials<kFlight, false>(partial, kWaves * mid_split_stride, weight, i, min(kFlight, count - i), here, x);
      }
    }
  }
  sum = group_sum<kWaveSize>(sum);

  if (lane_index() == 0) {
    shared.maximum[wave] = maximum;
    shared.sum[wave] = sum;
  }
  store_vector(shared.values[wave], x);
  workgroup_barrier();
  if (wave > 0) return;
#pragma unroll
  for (int w = 0; w < kWaves; ++w) maximum = __builtin_fmaxf(maximum, shared.maximum[w]);
  sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = 0.0f;
#pragma unroll
  for (int w = 0; w < kWaves; ++w) {
    const float weight = shared.maximum[w] == maximum ? 1.0f : exp2(shared.maximum[w] - maximum);
    float values[kCount];
    load_vector(shared.values[w], values);
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = __builtin_fmaf(weight, values[i], x[i]);
    sum = __builtin_fmaf(weight, shared.sum[w], sum);
  }

  const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] *= scale;
  rotate_inverse<kHeadSize>(v_signs, x);
  if (sum == 0.0f) {  // a padding row is +0 in every dim; the signs would make some of them -0
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = 0.0f;
  }
  store_vector(out + query * out_token_stride + head * out_head_stride, x);
}

}  // namespace octave
