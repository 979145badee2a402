"""Mistakes in decode's wmma tier."""

from __future__ import annotations

from functools import partial

from mutant import Mutant as AnyMutant

ONE_COLUMN = "decode_octave_k3v4_h128r64_g4_q4_wmma"
PLANES = "decode_octave_k3v3_h128r64_g4_q1_wmma"
COLUMNS = "decode_octave_k3v4_h128r64_g8_q4_wmma"

DECODE = "include/octave/decode_wmma.h"
SCORE = "include/octave/wmma_score.h"
SOFTMAX = "include/octave/wmma_softmax.h"
OPERAND = "include/octave/wmma_operand.h"
TILE = "include/octave/wmma_tile.h"

Mutant = partial(AnyMutant, arch="gfx1100")

WMMA_MUTANTS: tuple[AnyMutant, ...] = (
    # query
    Mutant("wmma: query taken as twice as large", SCORE, "(268u - exponent) << 23", "(269u - exponent) << 23", PLANES),
    Mutant("wmma: NaN in a query taken as zero", SCORE, 'finite ? 0.0f : __builtin_nanf("")', "0.0f", PLANES),
    # tiles
    Mutant(
        "wmma: K scale of another block",
        SCORE,
        "own.scale[Tile::kScales == 1 ? 0 : b]",
        "own.scale[0]",
        PLANES,
    ),
    Mutant(
        "wmma: scales of the tokens in the order of lanes",
        DECODE,
        "[lane_row % 2 * 8 + lane_row / 2]",
        "[lane_row]",
        PLANES,
    ),
    Mutant(
        "wmma: weights in another order than V",
        SOFTMAX,
        "[row][r % 2 * 4 + wave]",
        "[row][r % 2 + 2 * wave]",
        ONE_COLUMN,
    ),
    Mutant(
        "wmma: bits of the high plane of the neighbour",
        TILE,
        "self.value_high_shift = dim % 32 / 4",
        "self.value_high_shift = dim % 16 / 4",
        PLANES,
    ),
    Mutant(
        "wmma: block's last row taken for the next block's",
        TILE,
        "block_size - 1 - row",
        "block_size - row",
        ONE_COLUMN,
    ),
    Mutant("wmma: pages behind the end looked up", TILE, "exists ? walk.page : inside.page", "walk.page", ONE_COLUMN),
    Mutant(
        "wmma: keys of the wave before",
        TILE,
        "t == 0 || t == wave ? places.row[t]",
        "t == 0 || t == wave - 1 ? places.row[t]",
        ONE_COLUMN,
    ),
    Mutant(
        "wmma: V of the tile before",
        DECODE,
        "if (n == Tile::kChunks - 1) load_value(slots_of, lane, values);",
        "if (n == Tile::kChunks - 1 && token % 128 == 0) load_value(slots_of, lane, values);",
        ONE_COLUMN,
    ),
    # who sees what
    Mutant(
        "wmma: probability of an unseen token in the sum",
        SOFTMAX,
        "made.sum += r < seen ? p : 0.0f;",
        "made.sum += p;",
        ONE_COLUMN,
        slow=False,
    ),
    Mutant("wmma: weight of an unseen token not masked", SOFTMAX, "r < seen ? weight : 0.0f", "weight", ONE_COLUMN),
    Mutant(
        "wmma: score of an unseen token in the reference", SOFTMAX, "r < seen ? power : -kInfinity", "power", ONE_COLUMN
    ),
    Mutant(
        "wmma: a future token seen",
        DECODE,
        "min(shared.length[min(q, Tile::kQueries - 1)], end)",
        "min(shared.length[min(q, Tile::kQueries - 1)] + 1, end)",
        ONE_COLUMN,
    ),
    Mutant("wmma: tile special only where all rows end", DECODE, "min(shortest, end)", "end", ONE_COLUMN),
    Mutant(
        "wmma: rows of other runs become active",
        DECODE,
        "columns[c].active == kInfinity ? kInfinity : raised",
        "raised",
        ONE_COLUMN,
    ),
    Mutant(
        "wmma: rows of other runs active",
        DECODE,
        "in_run ? columns[c].reference : kInfinity",
        "columns[c].reference",
        ONE_COLUMN,
    ),
    Mutant("wmma: empty split read", DECODE, "if (begin >= end) continue;", "", ONE_COLUMN),
    Mutant(
        "wmma: row's head taken for its query",
        DECODE,
        "const int q = thread_index() / Config::kGqaGroup;",
        "const int q = thread_index() % Tile::kQueries;",
        COLUMNS,
    ),
    # softmax
    Mutant(
        "wmma: reference of the first wave",
        DECODE,
        "largest = __builtin_fmaxf(largest, shared.exchange[w]",
        "largest = __builtin_fmaxf(largest, shared.exchange[0]",
        ONE_COLUMN,
    ),
    Mutant(
        "wmma: reference of half of the lanes",
        DECODE,
        "__builtin_fmaxf(largest, lane_xor<16>(largest))",
        "largest",
        ONE_COLUMN,
    ),
    Mutant(
        "wmma: reference not raised",
        DECODE,
        "columns[c].reference = raised;",
        "columns[c].reference = columns[c].reference == -kInfinity ? raised : columns[c].reference;",
        PLANES,
    ),
    Mutant(
        "wmma: unrounded score less a rounded reference",
        SOFTMAX,
        "float power = scores[r] * column.query_scale - column.reference;",
        "float power = __builtin_fmaf(scores[r], column.query_scale, -column.reference);",
        PLANES,
    ),
    Mutant("wmma: missing rescale of the sum", DECODE, "columns[c].sum *= rescale;", "", PLANES),
    Mutant("wmma: missing rescale of the outputs", DECODE, "out[c][n] *= rescale;", ";", PLANES, slow=False),
    # partials
    Mutant(
        "wmma: sum of the last three waves",
        DECODE,
        "total += shared.exchange[w][row]",
        "total += w > 0 ? shared.exchange[w][row] : 0.0f",
        PLANES,
    ),
    # barriers
    Mutant(
        "wmma: missing barrier before the weights",
        DECODE,
        "      workgroup_barrier();\n      const auto flags",
        "      const auto flags",
        ONE_COLUMN,
    ),
    Mutant("wmma: weights of two tiles in one place", DECODE, "parity ^= 1;", "", PLANES),
    Mutant(
        "wmma: missing barrier before the largest scores",
        DECODE,
        "        workgroup_barrier();\n#pragma unroll\n"
        "        for (int c = 0; c < Tile::kColumns; ++c) {\n          float largest",
        "#pragma unroll\n        for (int c = 0; c < Tile::kColumns; ++c) {\n          float largest",
        ONE_COLUMN,
        slow=False,
    ),
    Mutant(
        "wmma: missing barrier behind masked weights",
        DECODE,
        "        workgroup_barrier();\n      }\n#pragma unroll",
        "      }\n#pragma unroll",
        ONE_COLUMN,
    ),
)
