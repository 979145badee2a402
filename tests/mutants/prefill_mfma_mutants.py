"""Mistakes in prefill's mfma tier, both kernels, and in what all tiers of prefill agree on."""

from __future__ import annotations

from mutant import Mutant

PREFIX_UNIT = "prefill_prefix_octave_k3v4_h128r64_mfma"
PLANES_UNIT = "prefill_prefix_octave_k3v3_h128r64_mfma"
CHUNK_UNIT = "prefill_chunk_h128_mfma"

ROWS = "include/octave/prefill_rows.h"
QUERY = "include/octave/prefill_query.h"
UNPACK = "include/octave/prefill_unpack.h"
SHARED = "include/octave/prefill_mfma.h"
PREFIX = "include/octave/prefill_prefix_mfma.h"
PREFIX_SOURCE = "include/octave/prefill_prefix_source.h"
CHUNK = "include/octave/prefill_chunk_mfma.h"
CHUNK_SOURCE = "include/octave/prefill_chunk_source.h"

PREFILL_MFMA_MUTANTS: tuple[Mutant, ...] = (
    # rows and requests
    Mutant(
        "prefill: row behind a request's last one written",
        ROWS,
        "token < request.tokens}",
        "token <= request.tokens}",
        CHUNK_UNIT,
    ),
    Mutant(
        "prefill: token of a row taken for its head",
        ROWS,
        "(row - token * gqa_group)",
        "row % max(1, request.tokens) % gqa_group",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefill: partials of empty splits read",
        ROWS,
        "(context + per_split - 1) / per_split",
        "num_kv_splits",
        CHUNK_UNIT,
        slow=False,
    ),
    Mutant(
        "prefill: last split not merged",
        ROWS,
        "(context + per_split - 1) / per_split",
        "max(1, context / per_split)",
        CHUNK_UNIT,
    ),
    Mutant(
        "prefill: chunk counted in the prefix", ROWS, "seq_lens[request] - tokens}", "seq_lens[request]}", PREFIX_UNIT
    ),
    # prefix: query and tiles
    Mutant(
        "prefix mfma: low half of the query left out", QUERY, "in_agpr<Tile>(low)", "in_agpr<Tile>(0u)", PREFIX_UNIT
    ),
    Mutant(
        "prefix mfma: NaN in a query taken as zero", QUERY, 'finite ? 0.0f : __builtin_nanf("")', "0.0f", PREFIX_UNIT
    ),
    Mutant(
        "prefix mfma: K scale of another block",
        PREFIX_SOURCE,
        "run % Format::kKBlocks, buffer)",
        "0, buffer)",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: tokens of V in another order",
        UNPACK,
        "pair_bytes(codes[2 * pair], codes[2 * pair + 1], half)",
        "pair_bytes(codes[2 * pair + 1], codes[2 * pair], half)",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: bits of the high plane of the neighbour",
        UNPACK,
        "(quad % 8 - 2) & 31",
        "(quad % 4 - 2) & 31",
        PLANES_UNIT,
    ),
    Mutant(
        "prefix mfma: one page of two",
        PREFIX_SOURCE,
        "while (row >= block_size)",
        "if (row >= block_size)",
        PREFIX_UNIT,
    ),
    Mutant("prefix mfma: page kept at a block's end", PREFIX_SOURCE, "        ++page;\n", "", PREFIX_UNIT),
    Mutant(
        "prefix mfma: V of the tile ahead",
        PREFIX_SOURCE,
        "packed.load_values(value_base)",
        "packed.load_values(key_base)",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: tile behind the end looked up",
        PREFIX_SOURCE,
        "if (token + Tile::kTokens < end) {",
        "{",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: subtile behind the end loaded", PREFIX_SOURCE, "if (token >= end) token = begin;", "", PREFIX_UNIT
    ),
    Mutant(
        "prefix mfma: last tile left out",
        PREFIX,
        "(end - begin + Tile::kTokens - 1) / Tile::kTokens",
        "max(1, (end - begin) / Tile::kTokens)",
        PREFIX_UNIT,
    ),
    # prefix: who sees what
    Mutant(
        "prefix mfma: tail not masked",
        PREFIX_SOURCE,
        "begin + (t + 1) * Tile::kTokens > end",
        "begin + t * Tile::kTokens > end",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: probability of an unseen token in the sum",
        PREFIX_SOURCE,
        "added[i][r % 2] += seen ? p : 0.0f;",
        "added[i][r % 2] += p;",
        PREFIX_UNIT,
        slow=False,
    ),
    Mutant(
        "prefix mfma: weight of an unseen token not masked",
        PREFIX_SOURCE,
        "seen ? p * value_scale[s][r] : 0.0f",
        "p * value_scale[s][r]",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: score of an unseen token in the reference",
        PREFIX_SOURCE,
        "largest = first + 16 * s + r < end ? __builtin_fmaxf(largest, weight) : largest;",
        "largest = __builtin_fmaxf(largest, weight);",
        PREFIX_UNIT,
    ),
    Mutant("prefix mfma: empty split written", PREFIX, "begin >= end || ", "", PREFIX_UNIT),
    # prefix: softmax and partials
    Mutant("prefill mfma: missing rescale of the sum", SHARED, "sum[i] *= rescale;", "", PREFIX_UNIT),
    Mutant(
        "prefill mfma: missing rescale of the outputs", SHARED, "out[i][n] *= rescale;", ";", PREFIX_UNIT, slow=False
    ),
    Mutant(
        "prefix mfma: headroom rounded up",
        PREFIX_SOURCE,
        "state.raise(i, reference_above(largest));",
        "state.raise(i, largest + kHeadroom);",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: unrounded score less a rounded reference",
        PREFIX_SOURCE,
        "const float p = exp2(power[s][r] - state.reference[i]);",
        "const float p = exp2(__builtin_fmaf(scores[s][i][r], query.scale[i], -state.reference[i]));",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefill mfma: reference not raised",
        SHARED,
        "reference[i] = raised;",
        "reference[i] = reference[i] == -kInfinity ? raised : reference[i];",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: reference stored as the maximum",
        PREFIX,
        "min(__builtin_amdgcn_frexp_expf(total) - 1, 0)",
        "0",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix mfma: outputs not measured by the maximum",
        PREFIX,
        "(rescale * (kTruncation / Format::kLutOne))",
        "(kTruncation / Format::kLutOne)",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefill mfma: large weights of odd tokens missed",
        SHARED,
        "(bits & 0x40004000u)",
        "(bits & 0x4000u)",
        PREFIX_UNIT,
    ),
    # barriers
    Mutant(
        "prefill mfma: missing barrier before the first tile",
        SHARED,
        "  workgroup_barrier();\n  for (int t = 0",
        "  for (int t = 0",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefill mfma: missing barrier behind a tile",
        SHARED,
        "state.sum[i] += source.added[i];\n    workgroup_barrier();",
        "state.sum[i] += source.added[i];",
        PREFIX_UNIT,
        slow=False,
    ),
    # chunk
    Mutant(
        "chunk mfma: a future token seen",
        CHUNK,
        "source.limit[i] = row.token + 1;",
        "source.limit[i] = row.token + 2;",
        CHUNK_UNIT,
        slow=False,
    ),
    Mutant(
        "chunk mfma: own token not seen",
        CHUNK,
        "source.limit[i] = row.token + 1;",
        "source.limit[i] = row.token + (row.token == 0);",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: probability of an unseen token not masked",
        CHUNK_SOURCE,
        "seen ? power[s][i][r] - state.reference[i] : -kInfinity",
        "power[s][i][r] - state.reference[i]",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: score of an unseen token in the reference",
        CHUNK_SOURCE,
        "largest = first + 16 * s + r < limit[i] ? __builtin_fmaxf(largest, power[s][i][r]) : largest;",
        "largest = __builtin_fmaxf(largest, power[s][i][r]);",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: NaN in V reaches rows before it",
        CHUNK_SOURCE,
        "if (!fit) value_words[t] = uint2{};",
        "",
        CHUNK_UNIT,
        slow=False,
    ),
    Mutant("chunk mfma: NaN in V of the neighbour token", CHUNK_SOURCE, "(unfit & own) == 0", "unfit == 0", CHUNK_UNIT),
    Mutant(
        "chunk mfma: NaN in V lost",
        CHUNK_SOURCE,
        "< limit[i] ? unfit[r] : 0.0f",
        "< limit[i] ? 0.0f : 0.0f",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: tile taken as seen by all",
        CHUNK_SOURCE,
        "(t + 1) * Tile::kTokens <= common",
        "t * Tile::kTokens < common",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: V checked in another tile",
        CHUNK_SOURCE,
        "!seen_by_all(loaded - 3)",
        "!seen_by_all(loaded - 4)",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: keys behind the chunk read",
        CHUNK_SOURCE,
        "min(loaded * Tile::kTokens + key_token(e), visible - 1)",
        "loaded * Tile::kTokens + key_token(e)",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: token of the last row left out",
        CHUNK,
        "(first_row + Tile::kRows - 1) / gqa_group + 1",
        "max(1, (first_row + Tile::kRows - 1) / gqa_group)",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk mfma: rest of bf16 weights left out",
        CHUNK_SOURCE,
        "bit_cast<uint32_t>(lower[1]), bit_cast<uint32_t>(lower[0])",
        "0u, 0u",
        CHUNK_UNIT,
    ),
    Mutant("chunk mfma: sum of the prefix four times", CHUNK, "lane_index() < 16 ? sum : 0.0f", "sum", CHUNK_UNIT),
    Mutant(
        "chunk mfma: prefixes merged without their weights",
        CHUNK,
        "reference == state.reference[i] ? 1.0f : exp2(reference - state.reference[i])",
        "1.0f",
        CHUNK_UNIT,
    ),
    Mutant("chunk mfma: saturation dropped", ROWS, "x = __builtin_copysignf(kLargestHalf, x);", "x = x;", CHUNK_UNIT),
)
