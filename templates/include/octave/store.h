// cache_store: a team of lanes rotates, quantizes and packs the K and V of one token and kv head into its slot.
#pragma once

#include "octave/device.h"
#include "octave/encoder.h"
#include "octave/team.h"

namespace octave {

// What the kernel knows of a format: the parts of K and V, and the LDS of a team.
template <class Format>
struct StorePlan {
  static_assert(Format::kVBlockSize == Format::kHeadSize, "a team rotates the whole head with one transform");
  static_assert(Format::kVScaleOffset == Format::kKScaleOffset + 2 * Format::kKBlocks);
  using Key = Coding<Part<Format::kHeadSize, Format::kKBlockSize>, Format::kRotaryDims / Format::kKBlockSize>;
  using Value = Coding<Part<Format::kHeadSize, Format::kHeadSize>, Format::kVBits == 4>;
  static constexpr int kLanes = kTeam<Format::kHeadSize>;
  static constexpr int kTokens = kWaveSize / kLanes;  // of a wave
  static constexpr int kSlotWords = Format::kSlotBytes / 4;
  static constexpr int kScaleWord = Format::kKScaleOffset / 4;
  // A lane clears one of the words from the scales on.
  static constexpr int kImageWords = kScaleWord + kLanes;
  static_assert(kSlotWords - kScaleWord <= kLanes);
  static constexpr int kTableBytes = (Key::kRows + Value::kRows) * kRowBytes;
  static constexpr int kTeamBytes = kTableBytes + (kImageWords * 4 + 7) / 8 * 8;
};

// Every lane works out the scalars of one block: lane s of each four that of its block in set s of K, the others V's.
template <class Format, class Scalar>
struct Roles {
  using Key = typename StorePlan<Format>::Key;
  using Value = typename StorePlan<Format>::Value;
  static constexpr int kSets = Key::kSets;
  static_assert(kSets <= 3);

  int role;
  bool value, four_bits;

  OCTAVE_MEMBER explicit Roles(int place) : role(lane_index() % 4), value(role >= kSets) {
    four_bits = Value::four_bits(0, place);
#pragma unroll
    for (int s = kSets - 1; s >= 0; --s) four_bits = role == s ? Key::four_bits(s, place) : four_bits;
  }
  OCTAVE_MEMBER float pick(const float (&key)[kSets], float of_value) const {
    float picked = of_value;
#pragma unroll
    for (int s = kSets - 1; s >= 0; --s) picked = role == s ? key[s] : picked;
    return picked;
  }
  OCTAVE_MEMBER float choose(float key, float of_value) const { return value ? of_value : key; }
};

// team · stride without a multiplication of 64 bits.
template <int kTeams>
OCTAVE_DEVICE int64_t team_stride(int team, int64_t stride) {
  int64_t sum = 0;
#pragma unroll
  for (int bit = 1; bit < kTeams; bit *= 2) sum += team & bit ? bit * stride : 0;
  return sum;
}

template <class Format, int kWaves, class Scalar>
OCTAVE_DEVICE void cache_store(const Scalar* key, const Scalar* value, uint8_t* cache, const int64_t* slot_mapping,
                               const uint32_t* k_signs, const uint32_t* v_signs, int64_t key_token_stride,
                               int64_t key_head_stride, int64_t value_token_stride, int64_t value_head_stride,
                               int64_t cache_block_stride, int64_t cache_head_stride, int64_t cache_row_stride,
                               int32_t num_tokens, int32_t block_size) {
  using Plan = StorePlan<Format>;
  using Key = typename Plan::Key;
  using Value = typename Plan::Value;
  constexpr float kKeyGain = kGain<Key, Scalar>;
  constexpr float kValueGain = kGain<Value, Scalar>;
  __shared__ __attribute__((aligned(16))) uint8_t shared[kWaves * Plan::kTokens][Plan::kTeamBytes];

  const int64_t first = (static_cast<int64_t>(workgroup_x()) * kWaves + wave_index()) * Plan::kTokens;
  const int64_t head = workgroup_y();
  const int team = lane_index() / Plan::kLanes;
  if (team >= static_cast<int32_t>(num_tokens - first)) return;
  const int64_t index = slot_mapping[first + team];
  if (index < 0) return;
  const int place = team_place<Plan::kLanes>();

  const auto raw_k = load_raw<Key>(key + head * key_head_stride + first * key_token_stride +
                                       team_stride<Plan::kTokens>(team, key_token_stride), k_signs, place);
  const auto raw_v = load_raw<Value>(value + head * value_head_stride + first * value_token_stride +
                                         team_stride<Plan::kTokens>(team, value_token_stride), v_signs, place);
  schedule_barrier();
  float2 k[Key::kPairs], v[Value::kPairs];
  rotate_raw<Key, Scalar>(raw_k, place, k);
  rotate_raw<Value, Scalar>(raw_v, place, v);

  const uint32_t tables = local_address(shared[0]) + (wave_index() * Plan::kTokens + team) * Plan::kTeamBytes;
  const uint32_t slot = tables + Plan::kTableBytes;
  local_store(slot + 4 * (Plan::kScaleWord + place), 0u);  // the padding, too

  const Roles<Format, Scalar> roles(place);
  schedule_barrier();
  float k_sums[Key::kSets], v_sums[1];
  float2 k_terms[Key::kPairs], v_terms[Value::kPairs];
#pragma unroll
  for (int i = 0; i < Key::kPairs; ++i) k_terms[i] = k[i] * k[i];
#pragma unroll
  for (int i = 0; i < Value::kPairs; ++i) v_terms[i] = v[i] * v[i];
  team_sums<Key>(k_terms, k_sums);
  team_sums<Value>(v_terms, v_sums);
  const auto block = block_scalars<Format>(
      roles.pick(k_sums, v_sums[0]), roles.choose(1.0f / Key::kBlock, 1.0f / Value::kBlock),
      roles.choose(1e-12f * kKeyGain, 1e-12f * kValueGain), roles.four_bits);

  float k_guess[Key::kSets], v_guess[1], k_steps[Key::kSets], v_steps[1];
  uint32_t k_table[Key::kSets], v_table[1];
  for_sets<Key>([&](auto set) {
    constexpr int s = decltype(set)::value;
    k_guess[s] = from_quad<s>(block.guess);
    k_steps[s] = Key::four_bits(s, place) ? Guess<true>::kSteps : Guess<false>::kSteps;
    if constexpr (Key::all_four(s) || !Key::any_four(s)) asm("" : "+s"(k_steps[s]));
    k_table[s] = tables + (Key::first_row(s) + place / Key::kLanes * Key::rows(s)) * kRowBytes;
    write_table<Format, Key, !kIsHalf<Scalar>>(s, place, from_quad<s>(block.rms), from_quad<s>(block.underflow),
                                               k_table[s]);
  });
  v_guess[0] = from_quad<3>(block.guess);
  v_steps[0] = Guess<Format::kVBits == 4>::kSteps;
  asm("" : "+s"(v_steps[0]));
  v_table[0] = tables + Key::kRows * kRowBytes;
  write_table<Format, Value, !kIsHalf<Scalar>>(0, place, from_quad<3>(block.rms), from_quad<3>(block.underflow),
                                               v_table[0]);
  wave_fence();

  uint32_t k_codes[Key::kElements], v_codes[Value::kElements];
  quantize<Key>(k, k_guess, k_steps, k_table, k_codes, k_terms);
  quantize<Value>(v, v_guess, v_steps, v_table, v_codes, v_terms);
  team_sums<Key>(k_terms, k_sums);
  team_sums<Value>(v_terms, v_sums);
  const _Float16 scale = block_scale(block.sum_of_squares, roles.pick(k_sums, v_sums[0]),
                                     roles.choose(Format::kLutOne / kKeyGain, Format::kLutOne / kValueGain));
  const int scale_index = roles.value ? Format::kKBlocks : roles.role * Key::kBlocksOfSet + place / Key::kLanes;
  local_store(slot + Format::kKScaleOffset + 2 * scale_index, scale);

#pragma unroll
  for (int s = 0; s < Key::kSets; ++s) {
    const uint32_t* codes = k_codes + s * Key::kInLane;
    const int dim = s * Key::kStride + place * Key::kInLane;
    const uint32_t rotary = slot + Format::kKRotaryOffset;
    const uint32_t low = slot + Format::kKRestOffset - Format::kRotaryDims / 4;
    const uint32_t high = slot + Format::kKRestHighPlane - Format::kRotaryDims / 8;
    if constexpr (Key::kInLane == 8) {
      pack_blocks<Key>(codes, s, place, dim, rotary, low, high);
    } else {
      pack3<Key::kInLane>(codes, place, dim, low, high);
    }
  }
  if constexpr (Format::kVBits == 4) {
    pack4<Value::kInLane>(v_codes, place * Value::kInLane, slot + Format::kVOffset);
  } else {
    pack3<Value::kInLane>(v_codes, place, place * Value::kInLane, slot + Format::kVOffset, slot + Format::kVHighPlane);
  }
  wave_fence();

  const auto block_number = static_cast<uint32_t>(static_cast<uint64_t>(index) / static_cast<uint32_t>(block_size));
  const uint32_t row = static_cast<uint32_t>(index) - block_number * block_size;
  uint8_t* target = cache + head * cache_head_stride + block_number * cache_block_stride + row * cache_row_stride;
#pragma unroll
  for (int i = 0; i < Plan::kSlotWords; i += Plan::kLanes) {
    const int word = i + lane_index() % Plan::kLanes;
    if (word < Plan::kSlotWords) {
      const auto data = local_load<uint32_t>(slot + 4 * word);
      __builtin_memcpy(__builtin_assume_aligned(target + 4 * word, 4), &data, 4);
    }
  }
}

}  // namespace octave
