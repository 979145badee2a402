"""Mistakes in decode's mfma tier."""

from __future__ import annotations

from mutant import Mutant

PAIRED = "decode_octave_k3v4_h128r64_g4_q1_mfma"
"""Both halves of the query in one matrix instruction."""
ONE_COLUMN = "decode_octave_k3v3_compact_h128r64_g4_q4_mfma"
COLUMNS = "decode_octave_k3v3_h128r64_g8_q4_mfma"
"""Two columns of 16 query rows, the query in LDS."""

DECODE = "include/octave/decode_mfma.h"
QUERY = "include/octave/mfma_query.h"
MERGE = "include/octave/mfma_merge.h"
GROUP = "include/octave/decode_group.h"
SCORE = "include/octave/mfma_score.h"
OUTPUT = "include/octave/mfma_output.h"
TILE = "include/octave/mfma_tile.h"

MFMA_MUTANTS: tuple[Mutant, ...] = (
    # query
    Mutant(
        "mfma: low half of the query left out",
        QUERY,
        "static_cast<int8_t>(code - high * 128)",
        "0",
        ONE_COLUMN,
        slow=False,
    ),
    Mutant(
        "mfma: halves of paired columns not joined",
        SCORE,
        "own + move_dpp<dpp::kRowRotate8>(own)",
        "own",
        PAIRED,
    ),
    Mutant(
        "mfma: high half shifted once for two blocks",
        SCORE,
        "if (kShared && h == 1) sum <<= 7;",
        "if (kShared && h == 1 && b == 0) sum <<= 7;",
        COLUMNS,
    ),
    Mutant("mfma: NaN in a query taken as zero", QUERY, 'finite ? 0.0f : __builtin_nanf("")', "0.0f", PAIRED),
    # tiles
    Mutant("mfma: K scale of another block", SCORE, "Tile::kScales == 1 ? 0 : b;", "0;", COLUMNS),
    Mutant(
        "mfma: V's tokens in another order",
        OUTPUT,
        "(bytes[1], bytes[0], selector)",
        "(bytes[0], bytes[1], selector)",
        PAIRED,
    ),
    Mutant(
        "mfma: bits of the high plane of the neighbour",
        TILE,
        "self.value_high_shift = dim % 32 / 4",
        "self.value_high_shift = dim % 16 / 4",
        ONE_COLUMN,
    ),
    Mutant(
        "mfma: page kept at a block's end",
        DECODE,
        "      row -= block_size;\n      ++page;",
        "      row -= block_size;",
        PAIRED,
    ),
    Mutant(
        "mfma: next block asked for after the end",
        DECODE,
        "if (walk.token < end) block = block_of(walk);",
        "block = block_of(walk);",
        PAIRED,
    ),
    Mutant(
        "mfma: V of the next tile from this one",
        DECODE,
        "load_value(next, row_stride, lane, words);",
        "load_value(base, row_stride, lane, words);",
        ONE_COLUMN,
    ),
    Mutant("mfma: empty split read", DECODE, "    if (token < end)\n", "    if (token <= end)\n", PAIRED),
    # who sees what
    Mutant(
        "mfma: probability of an unseen token in the sum", DECODE, "p[r] = seen ? p[r] : 0.0f;", "", PAIRED, slow=False
    ),
    Mutant(
        "mfma: weight of an unseen token not masked",
        DECODE,
        "weighted[c][r / 2] &= seen ? 0xFFFFFFFFu : 0xFFFF0000u >> (16 * (r % 2));",
        "",
        COLUMNS,
    ),
    Mutant(
        "mfma: score of an unseen token in the reference",
        DECODE,
        "largest = seen ? __builtin_fmaxf(largest, x) : largest;",
        "largest = __builtin_fmaxf(largest, x);",
        COLUMNS,
    ),
    Mutant(
        "mfma: a future token seen",
        DECODE,
        "min(shared.length[min(q, Tile::kQueries - 1)], end)",
        "min(shared.length[min(q, Tile::kQueries - 1)] + 1, end)",
        ONE_COLUMN,
    ),
    Mutant(
        "mfma: rows of other runs see a whole tile",
        GROUP,
        "if (run.next - run.first < kQueries) run.shortest = 0;",
        "",
        ONE_COLUMN,
    ),
    Mutant(
        "mfma: row taken for a query",
        DECODE,
        "const int q = (c * 16 + column_row) / Config::kGqaGroup;",
        "const int q = (c * 16 + column_row) % Tile::kQueries;",
        ONE_COLUMN,
    ),
    # softmax
    Mutant(
        "mfma: reference of half of the lanes",
        DECODE,
        "largest = __builtin_fmaxf(largest, lane_xor<32>(largest));",
        "",
        ONE_COLUMN,
    ),
    Mutant(
        "mfma: unrounded score less a rounded reference",
        OUTPUT,
        "inline constexpr float kHugeScore = 0x1p24f;",
        "inline constexpr float kHugeScore = 0x1p30f;",
        PAIRED,
    ),
    Mutant(
        "mfma: reference not raised",
        DECODE,
        "columns[c].reference = raised;",
        "columns[c].reference = columns[c].reference == -kInfinity ? raised : columns[c].reference;",
        PAIRED,
    ),
    Mutant("mfma: missing rescale of the bias", DECODE, "bias[c] *= rescale;", "", PAIRED),
    Mutant("mfma: missing rescale of the sum", DECODE, "columns[c].sum *= rescale;", "", PAIRED),
    Mutant("mfma: missing rescale of the outputs", DECODE, "out[c][n] *= rescale;", ";", PAIRED),
    Mutant("mfma: bias not removed", MERGE, "= -lane_value(levels.bias, place)", "= 0.0f", PAIRED, slow=False),
    # merge
    Mutant(
        "mfma: reference of the last wave",
        MERGE,
        "self.reference = __builtin_fmaxf(self.reference, level[w][0])",
        "self.reference = level[w][0]",
        PAIRED,
    ),
    Mutant(
        "mfma: waves merged without their weights",
        MERGE,
        "level[w][0] == self.reference ? 1.0f : exp2(level[w][0] - self.reference)",
        "1.0f",
        PAIRED,
    ),
    Mutant(
        "mfma: missing barrier before the merge",
        MERGE,
        "part);\n      workgroup_barrier();",
        "part);",
        PAIRED,
        slow=False,
    ),
    Mutant(
        "mfma: missing barrier behind the merge",
        MERGE,
        "      workgroup_barrier();\n      Merge::put",
        "      Merge::put",
        PAIRED,
    ),
    Mutant(
        "mfma: missing barrier before the query",
        DECODE,
        "  workgroup_barrier();\n\n  const int column_row",
        "  const int column_row",
        PAIRED,
    ),
)
