// What all tiers of decode agree on: who attends, which tokens a split holds, when a query counts as zero.
#pragma once

#include "octave/device.h"

namespace octave {

// A query, or a block of one, whose largest value is below this is zero: its scale's reciprocal comes near overflow.
inline constexpr float kQueryFloor = 0x1p-100f;

struct QueryRange {
  int first;
  int count;
};

// The query tokens of this workgroup: a group of Config::kQueryGroup of them, or the part that Config::kQueries holds.
// Group i starts at group_starts[i] and ends where the next one starts; without group_starts groups follow each other.
template <class Config>
OCTAVE_DEVICE QueryRange query_range(const int32_t* group_starts, int num_groups, int num_queries) {
  constexpr int kParts = Config::kQueryGroup / Config::kQueries;
  static_assert(kParts * Config::kQueries == Config::kQueryGroup);
  const int group = workgroup_x() / kParts;
  int first = group * Config::kQueryGroup;
  int end = num_queries;
  if (group_starts != nullptr) {
    first = group < num_groups ? group_starts[group] : num_queries;
    if (group + 1 < num_groups) end = group_starts[group + 1];
  }
  end = min(end, first + Config::kQueryGroup);
  first += workgroup_x() % kParts * Config::kQueries;
  return {first, min(Config::kQueries, end - first)};
}

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
