// cache_store: a team of lanes rotates, quantizes and packs the K and V of one token and kv head into its slot, which
// is put together in LDS. Teams wait for nobody else.
#pragma once

#include "octave/device.h"
#include "octave/encoder.h"
#include "octave/search.h"
#include "octave/team.h"

namespace octave {

// What follows from the format: how K and V lie in a team, and the team's LDS: tables of thresholds, then the slot.
template <class Format>
struct StorePlan {
  static_assert(Format::kVBlockSize == Format::kHeadSize, "a team rotates the whole head with one transform");
  static_assert(Format::kVScaleOffset == Format::kKScaleOffset + 2 * Format::kKBlocks);
  using Key = Coding<Part<Format::kHeadSize, Format::kKBlockSize>, Format::kKNibbleDims / Format::kKBlockSize>;
  using Value = Coding<Part<Format::kHeadSize, Format::kHeadSize>, Format::kVBits == 4>;
  static constexpr int kLanes = kTeam<Format::kHeadSize>;
  static constexpr int kTokens = kWaveSize / kLanes;  // of a wave
  static constexpr int kSlotWords = Format::kSlotBytes / 4;
  static constexpr int kScaleWord = Format::kKScaleOffset / 4;
  static_assert(kSlotWords <= kScaleWord + kLanes, "each lane clears a word of the scales and the padding");
  static constexpr int kTableBytes = (Key::kRows + Value::kRows) * kRowBytes;
  static constexpr int kPlainBytes = kTableBytes + round_up(4 * (kScaleWord + kLanes), 8);
  // A search's histograms lie where tables and slot come later.
  template <bool kSearch>
  static constexpr int kTeamBytes =
      kSearch ? max(round_up(kPlainBytes, kHistogramBytes), Key::kBlocksOfSet* kHistogramBytes) : kPlainBytes;
  // Lane s of each four works out the scalars of its block in set s of K; the lanes that are left, V's.
  static constexpr bool kLanesLeft = Key::kSets < 4;
};

// Which block's scalars a lane works out.
template <class Format>
struct Role {
  using Key = typename StorePlan<Format>::Key;
  using Value = typename StorePlan<Format>::Value;
  int set;
  bool value;
  bool four_bits;

  OCTAVE_MEMBER explicit Role(int place) : set(lane_index() % 4), value(set >= Key::kSets) {
    four_bits = Value::four_bits(0, place);
#pragma unroll
    for (int s = 0; s < Key::kSets; ++s) four_bits = set == s ? Key::four_bits(s, place) : four_bits;
  }
  OCTAVE_MEMBER float pick(const float (&key)[Key::kSets], float of_value) const {
    float picked = of_value;
#pragma unroll
    for (int s = 0; s < Key::kSets; ++s) picked = set == s ? key[s] : picked;
    return picked;
  }
  OCTAVE_MEMBER float pick(float key, float of_value) const { return value ? of_value : key; }
};

// team · stride without a multiplication of 64 bits.
template <int kTeams>
OCTAVE_DEVICE int64_t team_stride(int team, int64_t stride) {
  int64_t sum = 0;
#pragma unroll
  for (int bit = 1; bit < kTeams; bit *= 2) sum += team & bit ? bit * stride : 0;
  return sum;
}

// Rotated K and V of a lane into the team's slot in LDS.
template <class Format, bool kSearch, class Scalar>
OCTAVE_DEVICE void encode_slot(const float2 (&k)[StorePlan<Format>::Key::kPairs],
                               const float2 (&v)[StorePlan<Format>::Value::kPairs], int place, uint32_t tables,
                               Scalar) {
  using Plan = StorePlan<Format>;
  using Key = typename Plan::Key;
  using Value = typename Plan::Value;
  constexpr float kKeyGain = kGain<Key, Scalar>;
  constexpr float kValueGain = kGain<Value, Scalar>;
  constexpr bool kUnderflow = !kIsHalf<Scalar>;
  const uint32_t slot = tables + Plan::kTableBytes;
  const auto clear_scales = [&] { local_store(slot + 4 * (Plan::kScaleWord + place), 0u); };  // the padding, too
  if constexpr (!kSearch) clear_scales();

  const Role<Format> role(place);
  schedule_barrier();
  float k_sums[Key::kSets], v_sums[1];
  float2 k_terms[Key::kPairs], v_terms[Value::kPairs];
#pragma unroll
  for (int i = 0; i < Key::kPairs; ++i) k_terms[i] = k[i] * k[i];
#pragma unroll
  for (int i = 0; i < Value::kPairs; ++i) v_terms[i] = v[i] * v[i];
  team_sums<Key>(k_terms, k_sums);
  team_sums<Value>(v_terms, v_sums);
  const auto block =
      block_scalars<Format>(role.pick(k_sums, v_sums[0]), role.pick(1.0f / Key::kBlock, 1.0f / Value::kBlock),
                            role.pick(kLeastRms * kKeyGain, kLeastRms * kValueGain), role.four_bits);
  auto v_block = block;
  if constexpr (!Plan::kLanesLeft) {
    v_block = block_scalars<Format>(v_sums[0], 1.0f / Value::kBlock, kLeastRms * kValueGain, Format::kVBits == 4);
  }

  QuantizerOf<Key> k_quantizer;
  QuantizerOf<Value> v_quantizer;
  const uint32_t v_tables = tables + Key::kRows * kRowBytes;
  uint32_t k_codes[Key::kElements], v_codes[Value::kElements];
  if constexpr (kSearch) {
    const float ratio = unit_ratio<Format, Key, Value>(role, block.rms);
    float v_ratio = ratio;
    if constexpr (!Plan::kLanesLeft) v_ratio = divide(kRatio<Format, Value, Format::kVBits == 4>, v_block.rms);
    Searched<Key> k_search;
    Searched<Value> v_search;
    for_sets<Key>([&](auto set) {
      constexpr int s = decltype(set)::value;
      k_search.ratio[s] = from_quad<s>(ratio);
    });
    v_search.ratio[0] = from_quad<3>(v_ratio);
    k_search.template run<Format>(k, place, tables);
    v_search.template run<Format>(v, place, tables);
    clear_scales();
    k_search.template prepare<Format>(place, tables, k_quantizer);
    v_search.template prepare<Format>(place, v_tables, v_quantizer);
    wave_fence();
    quantize<Key>(k, k_search.rounded, k_quantizer, k_codes, k_terms);
    quantize<Value>(v, v_search.rounded, v_quantizer, v_codes, v_terms);
  } else {
    for_sets<Key>([&](auto set) {
      constexpr int s = decltype(set)::value;
      k_quantizer.template set<s>(place, from_quad<s>(block.guess), tables);
      write_plain_table<Format, Key, kUnderflow>(s, place, from_quad<s>(block.rms), from_quad<s>(block.underflow),
                                                 k_quantizer.table[s]);
    });
    v_quantizer.template set<0>(place, from_quad<3>(v_block.guess), v_tables);
    write_plain_table<Format, Value, kUnderflow>(0, place, from_quad<3>(v_block.rms), from_quad<3>(v_block.underflow),
                                                 v_quantizer.table[0]);
    wave_fence();
    quantize<Key>(k, k, k_quantizer, k_codes, k_terms);
    quantize<Value>(v, v, v_quantizer, v_codes, v_terms);
  }
  team_sums<Key>(k_terms, k_sums);
  team_sums<Value>(v_terms, v_sums);
  const uint32_t scales = slot + Format::kKScaleOffset;
  const int block_number = role.value ? Format::kKBlocks : role.set * Key::kBlocksOfSet + place / Key::kLanes;
  local_store(scales + 2 * block_number,
              block_scale(block.sum_of_squares, role.pick(k_sums, v_sums[0]),
                          role.pick(Format::kLutOne / kKeyGain, Format::kLutOne / kValueGain)));
  if constexpr (!Plan::kLanesLeft) {
    local_store(scales + 2 * Format::kKBlocks,
                block_scale(v_block.sum_of_squares, v_sums[0], Format::kLutOne / kValueGain));
  }

#pragma unroll
  for (int s = 0; s < Key::kSets; ++s) {
    // The planes begin behind the 4-bit dims.
    pack<Key>(k_codes + s * Key::kInLane, s, place, slot + Format::kKNibbleOffset,
              slot + Format::kKPlaneOffset - Format::kKNibbleDims / 4,
              slot + Format::kKHighPlane - Format::kKNibbleDims / 8);
  }
  pack<Value>(v_codes, 0, place, slot + Format::kVOffset, slot + Format::kVOffset, slot + Format::kVHighPlane);
}

// Config: kWaves of a workgroup, and which encoder, kSearch or the plain one. k_center: of each kv head, or null.
template <class Format, class Config, class Scalar>
OCTAVE_DEVICE void cache_store(const Scalar* key, const Scalar* value, uint8_t* cache, const int64_t* slot_mapping,
                               const uint32_t* k_signs, const uint32_t* v_signs, const Scalar* k_center,
                               int64_t key_token_stride, int64_t key_head_stride, int64_t value_token_stride,
                               int64_t value_head_stride, int64_t cache_block_stride, int64_t cache_head_stride,
                               int64_t cache_row_stride, int32_t num_tokens, int32_t block_size) {
  constexpr int kWaves = Config::kWaves;
  using Plan = StorePlan<Format>;
  using Key = typename Plan::Key;
  using Value = typename Plan::Value;
  constexpr int kTeamBytes = Plan::template kTeamBytes<Config::kSearch != 0>;
  __shared__ __attribute__((aligned(kHistogramBytes))) uint8_t shared[kWaves * Plan::kTokens][kTeamBytes];

  const int64_t first = (static_cast<int64_t>(workgroup_x()) * kWaves + wave_index()) * Plan::kTokens;
  const int64_t head = workgroup_y();
  const int team = lane_index() / Plan::kLanes;
  if (team >= static_cast<int32_t>(num_tokens - first)) return;
  const int64_t index = slot_mapping[first + team];
  if (index < 0) return;
  const int place = team_place<Plan::kLanes>();

  const Scalar* keys = key + first * key_token_stride + head * key_head_stride;
  const Scalar* values = value + first * value_token_stride + head * value_head_stride;
  const auto raw_k = load_raw<Key>(keys + team_stride<Plan::kTokens>(team, key_token_stride), k_signs, place);
  const auto raw_v = load_raw<Value>(values + team_stride<Plan::kTokens>(team, value_token_stride), v_signs, place);
  uint32_t center[Key::kPairs];  // not set without one
  if (k_center) load_words<Key>(k_center + head * Format::kHeadSize, place, center);
  schedule_barrier();
  float2 k[Key::kPairs], v[Value::kPairs];
  if (k_center) {
    first_stage<Key>(raw_k, center, k, Scalar{});
  } else {
    first_stage<Key, Scalar>(raw_k, k);
  }
  other_stages<Key, Scalar>(place, k);
  rotate_raw<Value, Scalar>(raw_v, place, v);
  const uint32_t tables = local_address(shared[wave_index() * Plan::kTokens]) + team * kTeamBytes;
  encode_slot<Format, Config::kSearch != 0>(k, v, place, tables, Scalar{});
  wave_fence();

  // A cache has fewer than 2^32 blocks.
  const auto block = static_cast<uint32_t>(static_cast<uint64_t>(index) / static_cast<uint32_t>(block_size));
  const uint32_t row = static_cast<uint32_t>(index) - block * block_size;
  uint8_t* target = cache + block * cache_block_stride + head * cache_head_stride + row * cache_row_stride;
#pragma unroll
  for (int i = 0; i < Plan::kSlotWords; i += Plan::kLanes) {
    const int word = i + lane_index() % Plan::kLanes;
    if (word >= Plan::kSlotWords) break;
    const auto data = local_load<uint32_t>(tables + Plan::kTableBytes + 4 * word);
    __builtin_memcpy(__builtin_assume_aligned(target + 4 * word, 4), &data, 4);
  }
}

}  // namespace octave
