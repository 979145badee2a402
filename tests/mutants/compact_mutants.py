"""Mistakes that only compact slots with one side of 4 bits show: it is taken for 3 bits wide, as in the others."""

from __future__ import annotations

from mutant import Mutant

STORE_UNIT = "store_octave_k3v4_compact_h128r64_plain_portable"
PORTABLE_UNIT = "decode_octave_k3v4_compact_h128r64_g4_q1_portable"
MFMA_UNIT = "decode_octave_k3v4_compact_h128r64_g4_q1_mfma"
WMMA_UNIT = "decode_octave_k3v4_compact_h128r64_g4_q1_wmma"
MFMA_PREFIX_UNIT = "prefill_prefix_octave_k3v4_compact_h128r64_mfma"
WMMA_PREFIX_UNIT = "prefill_prefix_octave_k3v4_compact_h128r64_wmma"
K4_STORE_UNIT = "store_octave_k4v3_compact_h128r64_plain_portable"
K4_PORTABLE_UNIT = "decode_octave_k4v3_compact_h128r64_g4_q1_portable"
K4_MFMA_UNIT = "decode_octave_k4v3_compact_h128r64_g4_q1_mfma"
K4_WMMA_UNIT = "decode_octave_k4v3_compact_h128r64_g4_q1_wmma"
K4_MFMA_PREFIX_UNIT = "prefill_prefix_octave_k4v3_compact_h128r64_mfma"
K4_WMMA_PREFIX_UNIT = "prefill_prefix_octave_k4v3_compact_h128r64_wmma"

COMPACT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "store: V of compact K coded in 3 bits",
        "include/octave/store.h",
        "Format::kVBits == 4>;",
        "Format::kVBits == 4 && !Format::kCompact>;",
        STORE_UNIT,
        slow=False,
    ),
    Mutant(
        "decode: V of compact K looked up in planes",
        "include/octave/portable_output.h",
        "if constexpr (Format::kVBits == 4) {\n    bytes",
        "if constexpr (Format::kVBits == 4 && !Format::kCompact) {\n    bytes",
        PORTABLE_UNIT,
        "gfx1100",
    ),
    Mutant(
        "mfma: V of compact K where planes would lie",
        "include/octave/mfma_tile.h",
        "(Format::kVBits == 4 ? dim / 8 : dim / 16)",
        "(Format::kVBits == 4 && !Format::kCompact ? dim / 8 : dim / 16)",
        MFMA_UNIT,
    ),
    Mutant(
        "wmma: V of compact K where 3 bits would lie",
        "include/octave/wmma_tile.h",
        "dim * Format::kVBits / 8",
        "dim * (Format::kCompact ? 3 : Format::kVBits) / 8",
        WMMA_UNIT,
        "gfx1100",
    ),
    Mutant(
        "prefill: V of compact K shifted like planes",
        "include/octave/prefill_unpack.h",
        "self.value_shift = Format::kVBits == 4 ?",
        "self.value_shift = Format::kVBits == 4 && !Format::kCompact ?",
        MFMA_PREFIX_UNIT,
    ),
    Mutant(
        "prefill wmma: V of compact K shifted like planes",
        "include/octave/prefill_wmma_unpack.h",
        "self.value_shift = Format::kVBits == 4 ?",
        "self.value_shift = Format::kVBits == 4 && !Format::kCompact ?",
        WMMA_PREFIX_UNIT,
        "gfx1100",
    ),
    Mutant(
        "store: compact K of 4 bits coded in 3",
        "include/octave/store.h",
        "Format::kKNibbleDims / Format::kKBlockSize>",
        "(Format::kCompact ? 0 : Format::kKNibbleDims / Format::kKBlockSize)>",
        K4_STORE_UNIT,
        slow=False,
    ),
    Mutant(
        "decode: half of compact K looked up in planes",
        "include/octave/portable_score.h",
        "dim < Format::kKNibbleDims;",
        "dim < min(Format::kKNibbleDims, 64);",
        K4_PORTABLE_UNIT,
        "gfx1100",
    ),
    Mutant(
        "mfma: half of compact K where planes would lie",
        "include/octave/mfma_tile.h",
        "kNibbleBlocks = Format::kKNibbleDims / 64;",
        "kNibbleBlocks = min(Format::kKNibbleDims, 64) / 64;",
        K4_MFMA_UNIT,
    ),
    Mutant(
        "wmma: half of compact K where planes would lie",
        "include/octave/wmma_tile.h",
        "kNibbleBlocks = Format::kKNibbleDims / 64;",
        "kNibbleBlocks = min(Format::kKNibbleDims, 64) / 64;",
        K4_WMMA_UNIT,
        "gfx1100",
    ),
    Mutant(
        "prefill: half of compact K where planes would lie",
        "include/octave/prefill_unpack.h",
        "kNibbleBlocks = Format::kKNibbleDims / 64;",
        "kNibbleBlocks = min(Format::kKNibbleDims, 64) / 64;",
        K4_MFMA_PREFIX_UNIT,
    ),
    Mutant(
        "prefill wmma: half of compact K where planes would lie",
        "include/octave/prefill_wmma_unpack.h",
        "wave < Format::kKNibbleDims;",
        "wave < min(Format::kKNibbleDims, 64);",
        K4_WMMA_PREFIX_UNIT,
        "gfx1100",
    ),
)
