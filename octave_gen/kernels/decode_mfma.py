"""decode's mfma tier, for chips with MFMA: both products on the matrix cores, 16 tokens of a wave at a time."""

from __future__ import annotations

from octave_gen.kernels.base import Accuracy, Argument, Tier
from octave_gen.kernels.decode_matrix import matrix_tier

MAX_ROWS = {128: 32, 256: 32, 512: 16}
"""Of a workgroup, by head_size: two columns of outputs are what a wave's registers hold, one of 512 dims. More of a
query group are shared out."""

WIDE_WAVES = {128: 8, 256: 8}
"""Of a workgroup that has a CU to itself, by head_size: what the registers of two waves a SIMD hold."""

ACCURACY = Accuracy(query_mode="int16", exact_bound=1e-3, rounding=8192.0)
"""rounding: probabilities are fp16."""


def tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier; ``arguments`` are those of every tier of decode."""
    return matrix_tier("mfma", arguments, ACCURACY, MAX_ROWS, WIDE_WAVES)
