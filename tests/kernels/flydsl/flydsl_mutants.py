"""Mistakes in decode in FlyDSL: textual edits of its modules, as in tests/mutants."""

from __future__ import annotations

from mutant import Mutant

PAIRED = "decode_octave_k3v4_h128r64_g4_q1_flydsl"
"""Both halves of the query in one matrix instruction."""
ONE_COLUMN = "decode_octave_k3v3_compact_h128r64_g4_q4_flydsl"
COMPACT = "decode_octave_k3v4_compact_h128r64_g4_q1_flydsl"
COMPACT_K4 = "decode_octave_k4v3_compact_h128r64_g4_q1_flydsl"
COLUMNS = "decode_octave_k3v3_h128r64_g8_q4_flydsl"
"""Two columns of 16 query rows, the query in LDS."""

DECODE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "flydsl: a future token seen",
        "decode_walk.py",
        "select(fx.min(length, end), fx.Int32(0))",
        "select(fx.min(length + 1, end), fx.Int32(0))",
        ONE_COLUMN,
        slow=False,
    ),
    Mutant(
        "flydsl: V of compact K where planes would lie",
        "decode_tile.py",
        "dim // 8 if tile.layout.v_bits == 4 else dim // 16",
        "dim // 8 if tile.layout.v_bits == 4 and tile.nibble_blocks else dim // 16",
        COMPACT,
    ),
    Mutant(
        "flydsl: half of compact K where planes would lie",
        "decode_tile.py",
        "self.layout.k_nibbles.dims // _BLOCK",
        "min(self.layout.k_nibbles.dims, 64) // _BLOCK",
        COMPACT_K4,
    ),
    Mutant("flydsl: K scale of another block", "decode_score.py", "0 if tile.scales == 1 else b, 2", "0, 2", COLUMNS),
    Mutant(
        "flydsl: halves of paired columns not joined",
        "decode_score.py",
        "own[r], lanes.ROW_ROTATE_8",
        "own[r], 0xE4",
        PAIRED,
    ),
    Mutant(
        "flydsl: weight of an unseen token not masked",
        "decode_output.py",
        "        weighted = masked_words(weighted, seen)\n",
        "",
        COLUMNS,
    ),
    Mutant(
        "flydsl: V's tokens in another order",
        "decode_output.py",
        "(found[t + 1], found[t], selector)",
        "(found[t], found[t + 1], selector)",
        PAIRED,
    ),
    Mutant(
        "flydsl: missing rescale of the sum", "decode_output.py", "column.sum = column.sum * rescale", "pass", PAIRED
    ),
    Mutant(
        "flydsl: page kept at a block's end", "decode_walk.py", " + over.select(fx.Int32(1), fx.Int32(0))", "", PAIRED
    ),
    Mutant(
        "flydsl: rows of other runs see a whole tile",
        "decode_rows.py",
        "run.shortest = (run.next - run.first < tile.queries).select(fx.Int32(0), run.shortest)",
        "pass",
        ONE_COLUMN,
    ),
    Mutant(
        "flydsl: query's row of another wave",
        "decode_rows.py",
        "return lanes.wave_index() + i * tile.waves",
        "return lanes.wave_index() * own_rows(tile) + i",
        ONE_COLUMN,
    ),
    Mutant(
        "flydsl: bias of one wave alone",
        "decode_merge.py",
        "bias = fx.fma(level[1], factors[-1], bias)",
        "bias = level[1] * factors[-1]",
        PAIRED,
    ),
)
