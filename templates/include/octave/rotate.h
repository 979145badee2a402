// rotate: the K or V rotation of one vector in place, one wave per vector; `center` is subtracted before.
#pragma once

#include "octave/device.h"
#include "octave/vector.h"

namespace octave {

template <int kDims, int kCount>
OCTAVE_DEVICE void rotate_vector(const uint32_t* signs, bool inverse, float (&x)[kCount]) {
  if (inverse) {
    rotate_inverse<kDims>(signs, x);
  } else {
    rotate_forward<kDims>(signs, x);
  }
}

template <int kHeadSize, int kWaves, class Scalar>
OCTAVE_DEVICE void rotate(Scalar* x, const uint32_t* signs, const Scalar* center, int64_t token_stride,
                          int64_t head_stride, int32_t num_tokens, int32_t k_layout, int32_t inverse) {
  const int64_t token = static_cast<int64_t>(workgroup_x()) * kWaves + wave_index();
  if (token >= num_tokens) return;
  Scalar* vector = x + token * token_stride + workgroup_y() * head_stride;
  float values[kElements<kHeadSize>];
  load_vector(vector, values);
  if (center) {
    float of_head[kElements<kHeadSize>];
    load_vector(center + static_cast<int64_t>(workgroup_y()) * kHeadSize, of_head);
#pragma unroll
    for (int i = 0; i < kElements<kHeadSize>; ++i) values[i] -= of_head[i];
  }
  if (k_layout) {
    rotate_vector<64>(signs, inverse, values);
  } else {
    rotate_vector<kHeadSize>(signs, inverse, values);
  }
  store_vector(vector, values);
}

}  // namespace octave
