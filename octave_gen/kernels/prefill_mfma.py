"""prefill's mfma tiers, for chips with MFMA: both products of both phases on the matrix cores, for 128 query rows."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Shape
from octave_gen.kernels.prefill_matrix import MatrixTiers
from octave_gen.kernels.splits import SPLIT_GRANULE

PREFIX_ACCURACY = Accuracy(query_mode="int16", rounding=12288.0)
"""rounding: of weights that are cut off to fp16, and set right on average: at most 2^-10 - 0.36 * 2^-10."""
CHUNK_ACCURACY = Accuracy(rounding=8192.0)
"""rounding: fp16 weights; bf16 ones have two parts."""

WAVES = 4
ROW_TILES = 2
"""Of 16 query rows, for each wave: what its registers hold at head_size 256."""
HEAD_SIZES = (128, 256)


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {"waves": WAVES, "row_tiles": ROW_TILES, "split_granule": SPLIT_GRANULE}


TIERS = MatrixTiers("mfma", WAVES, 16 * ROW_TILES * WAVES, HEAD_SIZES, _constants, PREFIX_ACCURACY, CHUNK_ACCURACY)
