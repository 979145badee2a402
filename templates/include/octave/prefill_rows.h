// What all tiers of prefill agree on: the tokens of a request, which query vector a row is, where its partials lie, how
// the output is rounded.
#pragma once

#include "octave/decode_group.h"
#include "octave/device.h"

namespace octave {

// A request's query tokens are first_token … first_token + tokens - 1 of the batch; `context` tokens before them are in
// the cache.
struct PrefillRequest {
  int first_token;
  int tokens;
  int context;

  static OCTAVE_MEMBER PrefillRequest of(const int32_t* cu_seqlens_q, const int32_t* seq_lens, int request) {
    const int first = cu_seqlens_q[request];
    const int tokens = cu_seqlens_q[request + 1] - first;
    return {first, tokens, seq_lens[request] - tokens};
  }
};

// Row i of a request and kv head: query token i / gqa_group of the request, query head i % gqa_group of the kv head.
struct PrefillRow {
  int token;  // of the request
  int head;   // of all query heads
  bool exists;

  static OCTAVE_MEMBER PrefillRow of(const PrefillRequest& request, int row, int gqa_group, int kv_head) {
    const int token = static_cast<int>(static_cast<uint32_t>(row) / static_cast<uint32_t>(gqa_group));
    return {token, kv_head * gqa_group + (row - token * gqa_group), token < request.tokens};
  }
  // Where a [tokens, heads, …] tensor has the row, in elements.
  OCTAVE_MEMBER int64_t offset(const PrefillRequest& request, int64_t token_stride, int64_t head_stride) const {
    return (request.first_token + token) * token_stride + head * head_stride;
  }
};

// A value of the output, rounded: what is beyond the largest fp16 and finite becomes that.
template <class Scalar>
OCTAVE_DEVICE Scalar to_output(float x) {
  if constexpr (is_half<Scalar>()) {
    const float size = __builtin_fabsf(x);
    if (size > kLargestHalf && size < kInfinity) x = __builtin_copysignf(kLargestHalf, x);
  }
  return static_cast<Scalar>(x);
}

// How many of the splits of a context hold tokens: the first ones.
template <int kGranule>
OCTAVE_DEVICE int splits_in_use(int context, int num_kv_splits) {
  const int per_split = split_range<kGranule>(context, num_kv_splits, 0).end;
  return per_split == 0 ? 0 : (context + per_split - 1) / per_split;
}

}  // namespace octave
