"""Mistakes in prefill's wmma tier, both kernels."""

from __future__ import annotations

from functools import partial

from mutant import Mutant as AnyMutant

PREFIX_UNIT = "prefill_prefix_octave_k3v4_h128r64_wmma"
PLANES_UNIT = "prefill_prefix_octave_k3v3_h128r64_wmma"
CHUNK_UNIT = "prefill_chunk_h128_wmma"

MATRIX = "include/octave/wmma.h"
TILE = "include/octave/prefill_wmma_tile.h"
UNPACK = "include/octave/prefill_wmma_unpack.h"
PREFIX = "include/octave/prefill_prefix_wmma.h"
CHUNK = "include/octave/prefill_chunk_wmma.h"
ROWS = "include/octave/prefill_rows.h"
CHUNK_TILE = "include/octave/prefill_wmma_chunk.h"

Mutant = partial(AnyMutant, arch="gfx1100")

PREFILL_WMMA_MUTANTS: tuple[AnyMutant, ...] = (
    # operands
    Mutant(
        "prefill wmma: halves of the weights exchanged",
        MATRIX,
        "operand.words[i] = upper ? other : own[i];",
        "operand.words[i] = upper ? own[i] : other;",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefill wmma: keys in the order of lanes",
        TILE,
        "            wmma_row(lane),",
        "            lane % 16,",
        PREFIX_UNIT,
    ),
    # prefix
    Mutant("prefix wmma: K scale of another block", UNPACK, "dim / Format::kKBlockSize * 2", "0", PREFIX_UNIT),
    Mutant(
        "prefix wmma: V scales of neighbours exchanged",
        UNPACK,
        "part.value_scale[0] | part.value_scale[1] << 16",
        "part.value_scale[1] | part.value_scale[0] << 16",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix wmma: bits of the high plane of the neighbour",
        UNPACK,
        "(quad % 8 + 30) % 32",
        "(quad % 4 + 30) % 32",
        PLANES_UNIT,
    ),
    Mutant("prefix wmma: bias not removed", UNPACK, "half2{9.0f, 9.0f}", "half2{8.0f, 8.0f}", PREFIX_UNIT),
    Mutant(
        "prefix wmma: scale of V behind the end",
        UNPACK,
        "lane.part.value_token + t < count ? part.value_scale[t] : 0u",
        "part.value_scale[t]",
        PREFIX_UNIT,
        slow=False,
    ),
    Mutant(
        "prefix wmma: tail not masked",
        PREFIX,
        "probabilities(scores, visible < Tile::kTokens,",
        "probabilities(scores, false,",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix wmma: tail ends a token late",
        PREFIX,
        "visible - lane_index() / 16 * 8",
        "visible + 1 - lane_index() / 16 * 8",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix wmma: halves of a tile see the same", PREFIX, "visible - lane_index() / 16 * 8", "visible", PREFIX_UNIT
    ),
    Mutant(
        "prefix wmma: page of the tile before",
        PREFIX,
        "block = next_block;",
        "block = page % 4 == 3 ? block : next_block;",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix wmma: page behind the last one looked up",
        PREFIX,
        "next_block = load_uniform(blocks + min(page + 1, last_page));",
        "next_block = load_uniform(blocks + page + 1);",
        PREFIX_UNIT,
    ),
    Mutant("prefix wmma: empty split written", PREFIX, "if (range.begin >= range.end) return;", "", PREFIX_UNIT),
    Mutant(
        "prefix wmma: rows behind the last one written",
        PREFIX,
        "min(row_number, tokens.tokens * gqa_group - 1)",
        "row_number",
        PREFIX_UNIT,
    ),
    Mutant("prefix wmma: bf16 not brought into the range of fp16", PREFIX, "min(14 - exponent, 126)", "0", PREFIX_UNIT),
    Mutant(
        "prefix wmma: reference stored without its unit",
        PREFIX,
        "state.reference * state.unit",
        "state.reference",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefix wmma: sum of half of the lanes", PREFIX, "state.sum + lane_xor<16>(state.sum)", "state.sum", PREFIX_UNIT
    ),
    Mutant(
        "prefix wmma: missing barrier before the unpacked tile",
        PREFIX,
        "    workgroup_barrier();\n    const int visible",
        "    const int visible",
        PREFIX_UNIT,
        slow=False,
    ),
    Mutant(
        "prefix wmma: missing barrier behind the unpacked tile",
        PREFIX,
        "    workgroup_barrier();\n    if (tile_token",
        "    if (tile_token",
        PREFIX_UNIT,
    ),
    # softmax
    Mutant("prefill wmma: missing rescale of the sum", TILE, "row.sum *= rescale;", "", PREFIX_UNIT),
    Mutant("prefill wmma: missing rescale of the outputs", TILE, "row.out[n] *= rescale;", ";", PREFIX_UNIT),
    Mutant(
        "prefill wmma: reference of half of the lanes",
        TILE,
        "largest = (other - largest) * row.unit > 0.0f ? other : largest;",
        "",
        PREFIX_UNIT,
    ),
    Mutant(
        "prefill wmma: unrounded power less a rounded one",
        TILE,
        "powers[r] = r < visible ? (scores[r] - largest) * row.unit : -kInfinity;",
        "powers[r] = r < visible ? __builtin_fmaf(scores[r], row.unit, -(largest * row.unit)) : -kInfinity;",
        PREFIX_UNIT,
    ),
    Mutant("prefill wmma: reference not raised", TILE, "largest > kLargestPower", "largest > 1e30f", PREFIX_UNIT),
    Mutant(
        "prefill wmma: reference of unseen tokens",
        TILE,
        "r < visible && (scores[r] - largest)",
        "(scores[r] - largest)",
        CHUNK_UNIT,
    ),
    Mutant(
        "prefill wmma: unseen tokens come back with a new reference",
        TILE,
        "powers[r] = r < visible ? (scores[r] - largest) * row.unit : -kInfinity;",
        "powers[r] = (scores[r] - largest) * row.unit;",
        CHUNK_UNIT,
    ),
    # chunk
    Mutant(
        "chunk wmma: a future token seen",
        CHUNK,
        "const int visible = row.token + 1 - token;",
        "const int visible = row.token + 2 - token;",
        CHUNK_UNIT,
        slow=False,
    ),
    Mutant(
        "chunk wmma: own token not seen",
        CHUNK,
        "const int visible = row.token + 1 - token;",
        "const int visible = row.token + (row.token == 0) - token;",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk wmma: mask a token late", CHUNK, "wave_row / gqa_group + 1;", "wave_row / gqa_group + 2;", CHUNK_UNIT
    ),
    Mutant(
        "chunk wmma: last token of a wave left out",
        CHUNK,
        "(wave_row + 15) / gqa_group + 1",
        "(wave_row + 15) / gqa_group",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk wmma: tile taken as seen by all",
        CHUNK,
        "token + Tile::kTokens > all_see;",
        "token > all_see;",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk wmma: NaN in V reaches rows before it",
        CHUNK,
        "if (found) remove_outliers<Scalar>(part);",
        "",
        CHUNK_UNIT,
        slow=False,
    ),
    Mutant(
        "chunk wmma: outliers of unseen tokens added",
        CHUNK,
        "min(visible, request.tokens - token)",
        "request.tokens - token",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk wmma: outliers of the own wave alone",
        CHUNK,
        "found |= shared.outliers[w];",
        "found |= w == wave_index() ? shared.outliers[w] : 0;",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk wmma: outliers twice",
        CHUNK_TILE,
        "pair[half] = is_outlier<Scalar>(pair[half]) ? 0 : pair[half];",
        "pair[half] = pair[half];",
        CHUNK_UNIT,
    ),
    Mutant("chunk wmma: large bf16 values taken as fp16", CHUNK_TILE, "kLarge = 0x4580", "kLarge = 0x7F80", CHUNK_UNIT),
    Mutant(
        "chunk wmma: sum of the prefix twice",
        CHUNK,
        "lane_index() < 16 ? partial[Tile::kHeadSize + 1] : 0.0f",
        "partial[Tile::kHeadSize + 1]",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk wmma: prefixes merged without their weights",
        CHUNK,
        "reference == largest ? 1.0f : exp2(reference - largest)",
        "1.0f",
        CHUNK_UNIT,
    ),
    Mutant("chunk wmma: saturation dropped", ROWS, "x = __builtin_copysignf(kLargestHalf, x);", ";", CHUNK_UNIT),
    Mutant(
        "chunk wmma: missing barrier before a tile",
        CHUNK,
        "    workgroup_barrier();\n    const bool checked",
        "    const bool checked",
        CHUNK_UNIT,
    ),
    Mutant(
        "chunk wmma: missing barrier behind a tile",
        CHUNK,
        "    workgroup_barrier();\n    if (token + Tile::kTokens < any_sees)",
        "    if (token + Tile::kTokens < any_sees)",
        CHUNK_UNIT,
    ),
)
