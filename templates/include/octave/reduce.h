// reduce: merges the partials of the KV splits of one output row and rotates it back; one wave per row.
// A partial is head_size unnormalised outputs in the rotated V space, the maximum (log2 units) and the sum.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"
#include "octave/vector.h"

namespace octave {

template <int kHeadSize, int kWaves, class Scalar>
OCTAVE_DEVICE void reduce(const float* mid_o, Scalar* out, const uint32_t* v_signs, int64_t mid_token_stride,
                          int64_t mid_head_stride, int64_t mid_split_stride, int64_t out_token_stride,
                          int64_t out_head_stride, int32_t num_heads, int32_t num_kv_splits) {
  constexpr int kCount = kElements<kHeadSize>;
  const int64_t query = workgroup_x();
  const int64_t head = static_cast<int64_t>(workgroup_y()) * kWaves + wave_index();
  if (head >= num_heads) return;
  const float* partials = mid_o + query * mid_token_stride + head * mid_head_stride;

  float maximum = -kInfinity;
  for (int split = lane_index(); split < num_kv_splits; split += kWaveSize) {
    maximum = __builtin_fmaxf(maximum, partials[split * mid_split_stride + kHeadSize]);
  }
  maximum = group_max<kWaveSize>(maximum);

  float x[kCount] = {};
  float sum = 0.0f;
  for (int split = 0; split < num_kv_splits; ++split) {
    const float* partial = partials + split * mid_split_stride;
    const float split_sum = partial[kHeadSize + 1];
    if (split_sum == 0.0f) continue;  // an empty split: its outputs carry no weight, whatever they are
    // An infinite maximum has weight 1 for itself; the difference would be NaN.
    const float weight = partial[kHeadSize] == maximum ? 1.0f : exp2(partial[kHeadSize] - maximum);
    float values[kCount];
    load_vector(partial, values);
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = __builtin_fmaf(weight, values[i], x[i]);
    sum = __builtin_fmaf(weight, split_sum, sum);
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
