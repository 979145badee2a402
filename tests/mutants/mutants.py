"""Wrong kernels: textual edits of the project's own templates, each a mistake that someone could make.

An edit replaces ``before``, which occurs once in the file, by ``after``. It is checked on one unit of the shipped
specs, the cheapest that can show it.
"""

from __future__ import annotations

from compact_mutants import COMPACT_MUTANTS
from group_mutants import GROUP_MUTANTS
from mfma_mutants import MFMA_MUTANTS
from mutant import Mutant
from prefill_mfma_mutants import PREFILL_MFMA_MUTANTS
from prefill_wmma_mutants import PREFILL_WMMA_MUTANTS
from search_mutants import SEARCH_MUTANTS
from wmma_mutants import WMMA_MUTANTS

STORE_K3V3 = "store_octave_k3v3_h128r64_plain_portable"
STORE_K3V4 = "store_octave_k3v4_h128r64_plain_portable"
ROTATE = "rotate_h128_portable"
REDUCE = "reduce_h128_portable"
DECODE = "decode_octave_k3v3_h128r64_g4_q4_portable"
DECODE_ONE = "decode_octave_k3v4_h128r64_g4_q1_portable"


ENCODER = "include/octave/encoder.h"
STORE_H = "include/octave/store.h"
VECTOR = "include/octave/vector.h"
LANES = "include/octave/lanes.h"
TEAM = "include/octave/team.h"
CODEBOOK = "include/octave/codebook.h"
ROTATE_H = "include/octave/rotate.h"
REDUCE_H = "include/octave/reduce.h"
DECODE_H = "include/octave/decode_portable.h"
PORTABLE_TILE = "include/octave/portable_tile.h"
PORTABLE_SCORE = "include/octave/portable_score.h"
PORTABLE_OUTPUT = "include/octave/portable_output.h"
DECODE_GROUP = "include/octave/decode_group.h"
REDUCE_TEMPLATE = "hip/reduce_portable.hip.j2"

MUTANTS: tuple[Mutant, ...] = (
    # store: codes and scales
    Mutant(
        "threshold taken as reached", ENCODER, "compared_value(i) > below.y", "compared_value(i) >= below.y", STORE_K3V3
    ),
    Mutant("threshold of the code below", ENCODER, "row + kRowBytes)", "row)", STORE_K3V4, "gfx1100"),
    Mutant(
        "guess two codes off", ENCODER, "kStep = kFour ? 13.66f : 32.2f", "kStep = kFour ? 20.0f : 32.2f", STORE_K3V4
    ),
    Mutant("least rms too large", ENCODER, "1e-12f", "1e-4f", STORE_K3V3, "gfx1100"),
    Mutant(
        "saturation dropped",
        ENCODER,
        "scale < kLargestHalf ? scale : kLargestHalf",
        "scale",
        STORE_K3V3,
        slow=False,
    ),
    Mutant("codes of non-finite input", ENCODER, "__builtin_fmaf(sum_of_squares, 0.0f, rms)", "rms", STORE_K3V4),
    Mutant(
        "scale of non-finite input",
        ENCODER,
        "__builtin_fmaf(sum_of_squares, 0.0f, dot) > 0.0f",
        "dot > 0.0f",
        STORE_K3V4,
        "gfx1100",
    ),
    Mutant(
        "zero vector divides by zero",
        ENCODER,
        "positive ? sum_of_squares / dot * unit : 0.0f",
        "sum_of_squares / dot * unit",
        STORE_K3V4,
        "gfx1100",
    ),
    Mutant(
        "plane shift of the low plane reversed",
        ENCODER,
        "low << (4 * (place % 2))",
        "low << (4 - 4 * (place % 2))",
        STORE_K3V3,
        "gfx1100",
    ),
    Mutant(
        "bit of the high plane in the neighbour's place",
        ENCODER,
        "high << (2 * (place % 4))",
        "high << (2 * (place % 4 ^ 1))",
        STORE_K3V3,
    ),
    # store: addresses
    Mutant("skipped slot -1 stored", STORE_H, "if (index < 0) return;", "", STORE_K3V3, slow=False),
    Mutant(
        "one token too many",
        STORE_H,
        "team >= static_cast<int32_t>(num_tokens - first)",
        "team > static_cast<int32_t>(num_tokens - first)",
        STORE_K3V3,
        "gfx1100",
    ),
    Mutant(
        "block size taken as 16",
        STORE_H,
        "/ static_cast<uint32_t>(block_size)",
        "/ 16",
        STORE_K3V3,
    ),
    Mutant(
        "wrong row formula",
        STORE_H,
        "row * cache_row_stride",
        "block * cache_row_stride",
        STORE_K3V3,
        "gfx1100",
        slow=False,
    ),
    Mutant("wrong head stride", STORE_H, "head * cache_head_stride +", "head * cache_row_stride +", STORE_K3V4),
    Mutant(
        "32-bit slot offset",
        STORE_H,
        "block * cache_block_stride",
        "static_cast<int32_t>(block * cache_block_stride)",
        STORE_K3V3,
    ),
    Mutant(
        "padding of the slot not zeroed",
        STORE_H,
        "4 * (Plan::kScaleWord + place), 0u",
        "4 * Plan::kScaleWord, 0u",
        STORE_K3V3,
    ),
    Mutant("V rotated with K's signs", STORE_H, "v_signs, place)", "k_signs, place)", STORE_K3V3),
    Mutant(
        "V scale in K's place", STORE_H, "role.value ? Format::kKBlocks :", "role.value ? 0 :", STORE_K3V3, slow=False
    ),
    Mutant("a token of the team before", STORE_H, "team & bit ?", "team & 2 * bit ?", STORE_K3V3, "gfx1100"),
    # teams of lanes
    Mutant("lane stage left out", TEAM, "team_stage<Part, 8>(place, x);", "", STORE_K3V4),
    Mutant("dims in the order of lanes", TEAM, "(place ^ (Part::kLanes - 1))", "place", STORE_K3V4, "gfx1100"),
    Mutant("places in the order of lanes", TEAM, "lane ^ ((lane & 4) ? 3 : 0)", "lane", STORE_K3V3),
    Mutant(
        "sum without its last level",
        TEAM,
        "if constexpr (Part::kLanes > 8) sum +=",
        "if constexpr (false) sum +=",
        STORE_K3V3,
    ),
    # vectors and lanes
    Mutant(
        "butterfly stage left out",
        VECTOR,
        "if constexpr (kLanes > 8) hadamard_lane_stage<8>(x);",
        "",
        ROTATE,
        slow=False,
    ),
    Mutant("wrong sign of a butterfly", VECTOR, "x[i + h] = a - b;", "x[i + h] = b - a;", ROTATE, "gfx1100"),
    Mutant("signs of the wrong dim", VECTOR, "signs[dim / 32] >> (dim % 32)", "signs[dim / 32] >> (dim % 16)", ROTATE),
    Mutant("wrong lane exchange", LANES, "kRowXor4 = 0x164", "kRowXor4 = 0x165", ROTATE, "gfx1100", slow=False),
    Mutant("rows exchanged at distance 8", LANES, "(16 << 10) | 0x1F", "(8 << 10) | 0x1F", REDUCE),
    Mutant(
        "reduction without its last stage",
        LANES,
        "if constexpr (kLanes > 16) value = combine(value, lane_xor<16>(value));",
        "",
        DECODE_ONE,
    ),
    # rotate
    Mutant(
        "K rotated in blocks of 32", ROTATE_H, "rotate_vector<64>(signs", "rotate_vector<32>(signs", ROTATE, "gfx1100"
    ),
    Mutant(
        "inverse rotates forward",
        ROTATE_H,
        "rotate_inverse<kDims>(signs, x)",
        "rotate_forward<kDims>(signs, x)",
        ROTATE,
    ),
    Mutant(
        "rotate with the center of the first head for all",
        ROTATE_H,
        "center + static_cast<int64_t>(workgroup_y()) * kHeadSize",
        "center",
        ROTATE,
    ),
    Mutant(
        "rotate with the center added",
        ROTATE_H,
        "values[i] -= of_head[i]",
        "values[i] += of_head[i]",
        ROTATE,
        "gfx1100",
    ),
    Mutant(
        "rotate with a difference rounded to the query dtype",
        ROTATE_H,
        "values[i] -= of_head[i]",
        "values[i] = static_cast<float>(static_cast<Scalar>(values[i] - of_head[i]))",
        ROTATE,
    ),
    # decode: tokens
    Mutant(
        "tail mask dropped",
        PORTABLE_OUTPUT,
        "visible = min(visible, count);",
        "visible = Tile::kTokens;",
        DECODE_ONE,
        "gfx1100",
        slow=False,
    ),
    Mutant(
        "probability of an unseen token not masked",
        PORTABLE_OUTPUT,
        "const bool seen = token < visible;",
        "const bool seen = true;",
        DECODE,
    ),
    Mutant(
        "last token of a split twice",
        PORTABLE_OUTPUT,
        "visible = min(visible, count);",
        "visible = min(visible, count + 1);",
        DECODE,
        "gfx1100",
    ),
    Mutant(
        "a future token seen",
        DECODE_H,
        "uniform(shared.length[q]) - tile : 0",
        "uniform(shared.length[q]) - tile + 1 : 0",
        DECODE,
    ),
    Mutant(
        "off by one in the split's begin",
        DECODE_GROUP,
        "const int begin = split * per_split < length ? static_cast<int>(split * per_split) : length;",
        "const int begin = split * per_split < length ? static_cast<int>(split * per_split + (split > 0)) : length;",
        DECODE_ONE,
        slow=False,
    ),
    Mutant(
        "off by one in the tile's end",
        PORTABLE_OUTPUT,
        "for (int token = group; token < count;",
        "for (int token = group; token < count - 1;",
        DECODE_ONE,
        "gfx1100",
    ),
    Mutant("tokens past the end located", PORTABLE_TILE, "tile + min(i, count - 1)", "tile + i", DECODE_ONE),
    Mutant(
        "query that attends to nothing not skipped",
        DECODE_GROUP,
        "= request >= 0 && request < num_requests && length > 0",
        "= request >= 0 && length > 0",
        DECODE,
    ),
    # decode: addresses
    Mutant(
        "block size of decode taken as 16",
        PORTABLE_TILE,
        "blocks[token / block_size]",
        "blocks[token / 16]",
        DECODE_ONE,
    ),
    Mutant(
        "32-bit cache offset",
        PORTABLE_TILE,
        "block * block_stride + token",
        "static_cast<int32_t>(block * block_stride) + token",
        DECODE_ONE,
        "gfx1100",
    ),
    Mutant("wrong kv head stride", DECODE_H, "kv_head * cache_head_stride", "kv_head * cache_row_stride", DECODE),
    Mutant(
        "K scale of another block",
        PORTABLE_SCORE,
        "Format::kKScaleOffset + dim / Format::kKBlockSize * 2",
        "Format::kKScaleOffset",
        DECODE_ONE,
        slow=False,
    ),
    Mutant("wrong plane shift", PORTABLE_SCORE, "plane_dim / 16 % 2 * 4", "plane_dim / 16 % 2 * 2", DECODE, "gfx1100"),
    Mutant(
        "wrong row formula of the partials",
        PORTABLE_OUTPUT,
        "mid_o[query * token_stride + row % Config::kGqaGroup * head_stride",
        "mid_o[query * token_stride + row / Config::kQueryGroup * head_stride",
        DECODE,
    ),
    # decode: arithmetic
    Mutant(
        "int8 values read as unsigned",
        CODEBOOK,
        "static_cast<int8_t>(values >> (8 * i))",
        "static_cast<uint8_t>(values >> (8 * i))",
        DECODE_ONE,
        "gfx1100",
    ),
    Mutant(
        "stale value scale",
        PORTABLE_TILE,
        "shared.value_scale[i] = static_cast<float>(scale)",
        "if (tile % (2 * Tile::kTokens) == 0) shared.value_scale[i] = static_cast<float>(scale)",
        DECODE_ONE,
        slow=False,
    ),
    Mutant(
        "missing rescale of the outputs",
        PORTABLE_OUTPUT,
        "out[r][i] *= factors[r];",
        "out[r][i] *= factors[r] * 0.0f + 1.0f;",
        DECODE_ONE,
    ),
    Mutant(
        "missing rescale of the sum",
        PORTABLE_OUTPUT,
        "__builtin_fmaf(shared.sum[row], rescale, sum)",
        "shared.sum[row] + sum",
        DECODE_ONE,
        "gfx1100",
    ),
    Mutant(
        "infinite maxima subtracted",
        PORTABLE_OUTPUT,
        "maximum == before ? 1.0f : exp2(before - maximum)",
        "exp2(before - maximum)",
        DECODE,
    ),
    Mutant("query code of 126", PORTABLE_SCORE, "largest / 127.0f * unit", "largest / 126.0f * unit", DECODE),
    Mutant(
        "a group of lanes not merged",
        PORTABLE_OUTPUT,
        "g < Tile::kValueGroups; ++g",
        "g < Tile::kValueGroups - 1; ++g",
        DECODE_ONE,
    ),
    # decode: barriers
    Mutant(
        "missing barrier before the softmax",
        DECODE_H,
        "      score_tile<Format>(head_cache, shared);\n      workgroup_barrier();",
        "      score_tile<Format>(head_cache, shared);",
        DECODE_ONE,
        slow=False,
    ),
    Mutant(
        "missing barrier before the outputs",
        DECODE_H,
        "      workgroup_barrier();\n      accumulate_tile",
        "      accumulate_tile",
        DECODE,
    ),
    Mutant(
        "missing barrier before the next tile",
        DECODE_H,
        "      workgroup_barrier();\n      locate_tile",
        "      locate_tile",
        DECODE_ONE,
        "gfx1100",
    ),
    # reduce
    Mutant(
        "outputs of an empty split used",
        REDUCE_H,
        "counts ? values[j][i] : 0.0f",
        "values[j][i]",
        REDUCE,
    ),
    Mutant(
        "last split left out",
        REDUCE_H,
        "num_kv_splits > wave ? (num_kv_splits - wave + kWaves - 1)",
        "num_kv_splits - 1 > wave ? (num_kv_splits - wave + kWaves - 2)",
        REDUCE,
        slow=False,
    ),
    Mutant("padding row not zeroed", REDUCE_H, "if (sum == 0.0f) {", "if (false) {", REDUCE, "gfx1100"),
    Mutant(
        "waves added without their weights",
        REDUCE_H,
        "shared.maximum[w] == maximum ? 1.0f : exp2(shared.maximum[w] - maximum)",
        "1.0f",
        REDUCE,
        "gfx1100",
    ),
    Mutant("waves that do not wait", REDUCE_H, "  workgroup_barrier();\n  if (wave > 0)", "  if (wave > 0)", REDUCE),
    Mutant("wrong weight of a split", REDUCE_H, "exp2(mine[0] - maximum)", "exp2(maximum - mine[0])", REDUCE),
    Mutant("workgroups taken as twice as wide", REDUCE_TEMPLATE, "Config::kWaves", "2 * Config::kWaves", REDUCE),
    *SEARCH_MUTANTS,
    *COMPACT_MUTANTS,
    *GROUP_MUTANTS,
    *MFMA_MUTANTS,
    *WMMA_MUTANTS,
    *PREFILL_MFMA_MUTANTS,
    *PREFILL_WMMA_MUTANTS,
)
