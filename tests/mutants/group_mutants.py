"""Mistakes in what all tiers of decode agree on: groups of query tokens, their parts, and splits.

That a group's start or end is ignored changes no result (each query is right in any group, and would be computed
twice): tests/kernels/test_query_groups.py looks at which queries are touched.
"""

from __future__ import annotations

from mutant import Mutant

PORTABLE = "decode_octave_k3v3_h128r64_g4_q4_portable"
MFMA_PARTS = "decode_octave_k3v4_h128r64_g12_q4_mfma"
WMMA_PARTS = "decode_octave_k3v4_h128r64_g16_q4_wmma"

DECODE_GROUP = "include/octave/decode_group.h"

GROUP_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "group ends a query early",
        DECODE_GROUP,
        "group + 1 < num_groups ? next : num_queries",
        "group + 1 < num_groups ? next - 1 : num_queries",
        WMMA_PARTS,
        "gfx1100",
        slow=False,
    ),
    Mutant(
        "parts of a group taken as groups",
        DECODE_GROUP,
        "workgroup_x() / kParts",
        "workgroup_x()",
        WMMA_PARTS,
        "gfx1100",
    ),
    Mutant(
        "second part of a group left out",
        DECODE_GROUP,
        "first += workgroup_x() % kParts * Config::kQueries;",
        "",
        MFMA_PARTS,
        slow=False,
    ),
    Mutant(
        "part reaches beyond its group",
        DECODE_GROUP,
        "min(Config::kQueries, end - first)",
        "min(Config::kQueries, end - first + 1)",
        MFMA_PARTS,
    ),
    Mutant(
        "split ends a token early",
        DECODE_GROUP,
        "static_cast<int>(begin + per_split) : length",
        "static_cast<int>(begin + per_split - 1) : length",
        MFMA_PARTS,
    ),
    Mutant(
        "splits rounded down",
        DECODE_GROUP,
        "(static_cast<uint32_t>(length) + num_kv_splits - 1) / static_cast<uint32_t>(num_kv_splits)",
        "max(1, length / num_kv_splits)",
        WMMA_PARTS,
        "gfx1100",
    ),
    Mutant(
        "request of the query before",
        DECODE_GROUP,
        "q < queries ? q_to_req[q] : -1",
        "q < queries ? q_to_req[q - (q > 0)] : -1",
        PORTABLE,
    ),
)
