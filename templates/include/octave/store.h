// cache_store: one wave rotates, quantizes and packs the K and V of one token and kv head into its slot.
#pragma once

#include "octave/device.h"
#include "octave/encoder.h"
#include "octave/vector.h"

namespace octave {

template <class Format, int kCount>
OCTAVE_DEVICE void encode_key(const float (&x)[kCount], uint32_t* slot) {
  constexpr int kLanes = Format::kKBlockSize / kCount;
  const int dim = lane_index() * kCount;
  const bool rotary = dim < Format::kRotaryDims;
  const auto block = encode_block<Format, kLanes>(x, rotary);
  if (rotary) {
    pack4(block.codes, dim, slot + Format::kKRotaryOffset / 4);
  } else {
    pack3(block.codes, dim - Format::kRotaryDims, slot + Format::kKRestOffset / 4, slot + Format::kKRestHighPlane / 4);
  }
  auto* scales = reinterpret_cast<_Float16*>(slot) + Format::kKScaleOffset / 2;
  if (lane_index() % kLanes == 0) scales[dim / Format::kKBlockSize] = block.scale;
}

template <class Format, int kCount>
OCTAVE_DEVICE void encode_value(const float (&x)[kCount], uint32_t* slot) {
  const int dim = lane_index() * kCount;
  const auto block = encode_block<Format, kWaveSize>(x, Format::kVBits == 4);
  if constexpr (Format::kVBits == 4) {
    pack4(block.codes, dim, slot + Format::kVOffset / 4);
  } else {
    pack3(block.codes, dim, slot + Format::kVOffset / 4, slot + Format::kVHighPlane / 4);
  }
  auto* scales = reinterpret_cast<_Float16*>(slot) + Format::kVScaleOffset / 2;
  if (lane_index() == 0) scales[0] = block.scale;
}

template <class Format, int kWaves, class Scalar>
OCTAVE_DEVICE void cache_store(const Scalar* key, const Scalar* value, uint8_t* cache, const int64_t* slot_mapping,
                               const uint32_t* k_signs, const uint32_t* v_signs, int64_t key_token_stride,
                               int64_t key_head_stride, int64_t value_token_stride, int64_t value_head_stride,
                               int64_t cache_block_stride, int64_t cache_head_stride, int64_t cache_row_stride,
                               int32_t num_tokens, int32_t block_size) {
  constexpr int kWords = Format::kSlotBytes / 4;
  constexpr int kCount = kElements<Format::kHeadSize>;
  static_assert(Format::kVBlockSize == Format::kHeadSize, "a wave rotates the whole head with one transform");
  __shared__ uint32_t slots[kWaves][kWords];

  const int64_t token = static_cast<int64_t>(workgroup_x()) * kWaves + wave_index();
  const int64_t head = workgroup_y();
  if (token >= num_tokens) return;
  const int64_t index = slot_mapping[token];
  if (index < 0) return;
  uint32_t* slot = slots[wave_index()];

  // The scale words cover the padding behind the scales too.
  for (int i = Format::kKScaleOffset / 4 + lane_index(); i < kWords; i += kWaveSize) slot[i] = 0;
  wave_fence();

  float x[kCount];
  load_vector(key + token * key_token_stride + head * key_head_stride, x);
  rotate_forward<Format::kKBlockSize>(k_signs, x);
  encode_key<Format>(x, slot);
  load_vector(value + token * value_token_stride + head * value_head_stride, x);
  rotate_forward<Format::kHeadSize>(v_signs, x);
  encode_value<Format>(x, slot);
  wave_fence();

  const int64_t offset =
      index / block_size * cache_block_stride + head * cache_head_stride + index % block_size * cache_row_stride;
  for (int i = lane_index(); i < kWords; i += kWaveSize) {
    __builtin_memcpy(__builtin_assume_aligned(cache + offset + 4 * i, 4), &slot[i], 4);
  }
}

}  // namespace octave
