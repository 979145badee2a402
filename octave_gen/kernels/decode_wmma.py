"""decode's wmma tier, for chips with WMMA: both products on the matrix cores, 64 tokens of a workgroup at a time."""

from __future__ import annotations

from octave_gen.kernels.base import Accuracy, Argument, Tier
from octave_gen.kernels.decode_matrix import matrix_tier

MAX_ROWS = {128: 48, 256: 48}
"""Query rows of a workgroup, by head_size: three columns of 16 are what registers hold. More are shared out."""

ACCURACY = Accuracy(query_mode="fp16", exact_bound=1e-3, rounding=8192.0)
"""rounding: probabilities are fp16."""


def tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier; ``arguments`` are those of every tier of decode."""
    return matrix_tier("wmma", arguments, ACCURACY, MAX_ROWS)
