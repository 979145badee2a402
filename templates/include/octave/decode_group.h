// What all tiers of decode agree on: who attends, which tokens a split holds, when a query counts as zero.
#pragma once

#include "octave/device.h"

namespace octave {

// A query, or a block of one, whose largest value is below this is zero: its scale's reciprocal comes near overflow.
inline constexpr float kQueryFloor = 0x1p-100f;

// The request of each query token of a group, -1 for padding, and how many tokens it sees; into LDS.
template <int kQueries>
OCTAVE_DEVICE void load_query_group(const int32_t* q_to_req, const int32_t* q_to_klen, int queries, int num_requests,
                                    int (&requests)[kQueries], int (&lengths)[kQueries]) {
  const int q = thread_index();
  if (q >= kQueries) return;
  const int request = q < queries ? q_to_req[q] : -1;
  const int length = q < queries ? q_to_klen[q] : 0;
  const bool attends = request >= 0 && request < num_requests && length > 0;
  requests[q] = attends ? request : -1;
  lengths[q] = attends ? length : 0;
}

struct TokenRange {
  int begin;
  int end;
};

// The tokens of a split: octave_gen/kernels/splits.py states the rule.
template <int kGranule>
OCTAVE_DEVICE TokenRange split_range(int length, int num_kv_splits, int64_t split) {
  const int64_t share = (length + num_kv_splits - 1) / num_kv_splits;
  const int64_t per_split = (share + kGranule - 1) / kGranule * kGranule;
  const int begin = split * per_split < length ? static_cast<int>(split * per_split) : length;
  const int end = begin + per_split < length ? static_cast<int>(begin + per_split) : length;
  return {begin, end};
}

}  // namespace octave
