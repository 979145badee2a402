// What all tiers of decode agree on: who attends, which tokens a split holds, when a query counts as zero.
#pragma once

#include "octave/device.h"
#include "octave/lanes.h"

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
    first = num_queries;
    if (group < num_groups) {
      // Both at once.
      first = group_starts[group];
      const int next = group_starts[min(group + 1, num_groups - 1)];
      end = group + 1 < num_groups ? next : num_queries;
    }
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

// Query tokens of a group, one after the other, of one request: first to next - 1. length: the most tokens that one of
// them sees; shortest: the fewest that any of the group sees of this request.
struct QueryRun {
  int first;
  int next;
  int request;
  int length;
  int shortest;
};

// The same as load_query_group has it, in the lanes of every wave: query token q in lane q.
template <int kQueries>
struct QueryGroup {
  int request;
  int length;

  static OCTAVE_MEMBER QueryGroup from(const int32_t* q_to_req, const int32_t* q_to_klen, int queries) {
    const int q = min(lane_index() % kQueries, queries - 1);
    return {q_to_req[q], q_to_klen[q]};
  }
  static OCTAVE_MEMBER QueryGroup from(const int (&requests)[kQueries], const int (&lengths)[kQueries]) {
    return {requests[lane_index() % kQueries], lengths[lane_index() % kQueries]};
  }
  // A bit for each query token that attends; the others see nothing from here on.
  OCTAVE_MEMBER uint32_t settle(int queries, int num_requests) {
    const bool attends = lane_index() % kQueries < queries && request >= 0 && request < num_requests && length > 0;
    request = attends ? request : -1;
    length = attends ? length : 0;
    return static_cast<uint32_t>(wave_ballot(attends));
  }
  OCTAVE_MEMBER void put(int (&requests)[kQueries], int (&lengths)[kQueries]) const {
    if (thread_index() >= kQueries) return;
    requests[thread_index()] = request;
    lengths[thread_index()] = length;
  }
  OCTAVE_MEMBER QueryRun run_from(int first) const {
    QueryRun run{first, first, lane_value(request, first), 0, 0x7FFFFFFF};
    for (; run.next < kQueries && lane_value(request, run.next) == run.request; ++run.next) {
      const int tokens = lane_value(length, run.next);
      run.length = max(run.length, tokens);
      run.shortest = min(run.shortest, tokens);
    }
    // Tokens of other runs see nothing of this one.
    if (run.next - run.first < kQueries) run.shortest = 0;
    return run;
  }
};

struct TokenRange {
  int begin;
  int end;
};

// The tokens of a split: octave_gen/kernels/splits.py states the rule.
template <int kGranule>
OCTAVE_DEVICE TokenRange split_range(int length, int num_kv_splits, int64_t split) {
  const uint32_t share = (static_cast<uint32_t>(length) + num_kv_splits - 1) / static_cast<uint32_t>(num_kv_splits);
  const int64_t per_split = static_cast<int64_t>((share + kGranule - 1) / kGranule) * kGranule;
  const int begin = split * per_split < length ? static_cast<int>(split * per_split) : length;
  const int end = begin + per_split < length ? static_cast<int>(begin + per_split) : length;
  return {begin, end};
}

}  // namespace octave
