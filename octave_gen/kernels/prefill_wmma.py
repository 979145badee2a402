"""prefill's wmma tiers, for chips with WMMA: 128 query rows of a kv head per workgroup, 16 of them to a wave."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Shape
from octave_gen.kernels.prefill_matrix import MatrixTiers
from octave_gen.kernels.splits import SPLIT_GRANULE

PREFIX_ACCURACY = Accuracy(rounding=8192.0, score_rounding=2048.0)
"""K, V and probabilities are fp16, K and V rounded once from what the codes stand for."""
CHUNK_ACCURACY = Accuracy(rounding=8192.0, score_rounding=2.0)
"""rounding: probabilities are fp16."""

WAVES = 8
QUERY_STEPS_KEPT = {128: 8, 256: 5}
"""By head_size: how many of a row's steps of 16 dims stay in registers beside the outputs; LDS holds the others."""


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {
        "waves": WAVES,
        "query_steps_kept": QUERY_STEPS_KEPT[shape.head_size],
        "split_granule": SPLIT_GRANULE,
    }


TIERS = MatrixTiers("wmma", WAVES, 16 * WAVES, tuple(QUERY_STEPS_KEPT), _constants, PREFIX_ACCURACY, CHUNK_ACCURACY)
