"""Mutants of cache_store's encoder `search` and of its K centring."""

from __future__ import annotations

from mutant import Mutant

# 4-bit and 3-bit blocks side by side in one set; two sets, the histograms one after the other; blocks of 128 dims
MIXED = "store_octave_k3v4_h128r64_search_portable"
TWO_SETS = "store_octave_k3v3_h256r64_search_portable"
WHOLE = "store_octave_k3v3_compact_h128r64_search_portable"
LONG = "store_octave_k3v3_compact_h512r128_search_portable"
PLAIN = "store_octave_k3v3_h128r64_plain_portable"

SEARCH_H = "include/octave/search.h"
STORE_H = "include/octave/store.h"
TEAM = "include/octave/team.h"

SEARCH_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "candidates: the last of equals",
        SEARCH_H,
        """(kCandidates - 1 - c * Coded::kLanes) - lane_index() % Coded::kLanes;
    const uint32_t ranked = (bit_cast<uint32_t>(metric) & -static_cast<uint32_t>(kCandidates)) | rank;
    best = ranked > best ? ranked : best;
  }
  best = group_reduce<Coded::kLanes>(best, MaxBits{});
  // Candidate 15 - rank has (24 + (candidate ^ 8)) / 32.
  return __builtin_fmaf(static_cast<float>((best & (kCandidates - 1)) ^ 7),""",
        """c * Coded::kLanes + lane_index() % Coded::kLanes;
    const uint32_t ranked = (bit_cast<uint32_t>(metric) & -static_cast<uint32_t>(kCandidates)) | rank;
    best = ranked > best ? ranked : best;
  }
  best = group_reduce<Coded::kLanes>(best, MaxBits{});
  return __builtin_fmaf(static_cast<float>((best & (kCandidates - 1)) ^ 8),""",
        MIXED,
        slow=False,
    ),
    Mutant(
        "candidates: the metric's last bits decide",
        SEARCH_H,
        "(bit_cast<uint32_t>(metric) & -static_cast<uint32_t>(kCandidates)) | rank",
        "(bit_cast<uint32_t>(metric) & -4u) | rank",
        TWO_SETS,
        "gfx1100",
    ),
    Mutant("candidates: a lane's first one twice", SEARCH_H, "[first + i * Coded::kLanes]", "[first]", MIXED),
    Mutant(
        "candidates: of the other codebook", SEARCH_H, "kSearchStarts[four]", "kSearchStarts[!four]", WHOLE, "gfx1100"
    ),
    Mutant("candidates: a threshold taken twice", SEARCH_H, "(i - 1) % 2 == 1, histogram", "false, histogram", MIXED),
    Mutant(
        "candidates: a lane's own alone", SEARCH_H, "best = group_reduce<Coded::kLanes>(best, MaxBits{});", "", WHOLE
    ),
    Mutant("suffix: a lane's bins counted twice", SEARCH_H, "  above -= words[0][0];\n", "", TWO_SETS, slow=False),
    Mutant(
        "suffix: without the farthest lanes",
        SEARCH_H,
        "if constexpr (kDistance < kLanes) {",
        "if constexpr (2 * kDistance < kLanes) {",
        MIXED,
        "gfx1100",
    ),
    Mutant("suffix: sums from below", SEARCH_H, "dpp::kRowShiftLeft + kDistance", "0x110 + kDistance", WHOLE),
    Mutant("suffix: bins of a lane by themselves", SEARCH_H, "words[i] + above", "words[i]", TWO_SETS, "gfx1100"),
    Mutant(
        "histogram: values beyond the last bin wrap around",
        SEARCH_H,
        "one < kOneValue + kBins * kSteps - 1 ? one : kOneValue + kBins * kSteps - 1",
        "one",
        MIXED,
        "gfx1100",
        slow=False,
    ),
    Mutant(
        "histogram: left from the set before",
        SEARCH_H,
        "local_store(room + i + lane_index()",
        "if (s == 0) local_store(room + i + lane_index()",
        TWO_SETS,
        slow=False,
    ),
    Mutant(
        "histogram: one of all blocks",
        SEARCH_H,
        "room + place / Coded::kLanes * kHistogramBytes",
        "room",
        MIXED,
    ),
    Mutant("histogram: half of it cleared", SEARCH_H, "i < kUsed; i += 16", "i < kUsed / 2; i += 16", MIXED, "gfx1100"),
    # |q| of 512 values in 4 steps a unit sums up to 121 088
    Mutant(
        "histogram: the sum grows into the number",
        SEARCH_H,
        "kUnitSteps = Coded::kBlock <= 256 ? 4 : 2",
        "kUnitSteps = 4",
        LONG,
    ),
    Mutant("histogram: values with their sign", SEARCH_H, "__builtin_elementwise_min(value, zero)", "zero", WHOLE),
    Mutant(
        "weights: the energy of all values",
        SEARCH_H,
        "energy = add_upper<kUniform>(above",
        "energy = add_upper<kUniform>(all",
        MIXED,
    ),
    Mutant("ratio of 3-bit blocks for all", SEARCH_H, "divide(role.four_bits ? four : three,", "divide(three,", MIXED),
    Mutant(
        "thresholds of plain codes",
        SEARCH_H,
        "__builtin_fmaf(row.limit, factor[s], row.rounding)",
        "row.limit + row.rounding",
        WHOLE,
    ),
    Mutant(
        "thresholds not rounded to nearest", SEARCH_H, "factor[s], row.rounding)", "factor[s], 0.0f)", MIXED, "gfx1100"
    ),
    Mutant(
        "thresholds beyond the last bin",
        SEARCH_H,
        "__builtin_amdgcn_fmed3f(start, -kLast, kLast)",
        "start",
        MIXED,
        "gfx1100",
    ),
    Mutant("guess for the rms itself", SEARCH_H, " * __builtin_amdgcn_rcpf(factor[s])", "", MIXED),
    Mutant("padding left from the histograms", STORE_H, "    clear_scales();\n    k_search", "    k_search", MIXED),
    # centring
    Mutant(
        "center of the first head for all",
        STORE_H,
        "k_center + head * Format::kHeadSize",
        "k_center",
        PLAIN,
        slow=False,
    ),
    Mutant("center with its own signs", TEAM, "    flip_words(raw.signs[i], center, 8 * i);\n", "", PLAIN, "gfx1100"),
    Mutant("center added", TEAM, "  return a - b;", "  return a + b;", PLAIN),
)
