"""The chips: their figures, the chips that are refused and why, target ids, and the layouts of matrix instructions."""

from octave_gen.arch.chips import (
    ALLOW_UNVALIDATED,
    ARCHS,
    PORTABLE,
    UNSUPPORTED,
    Arch,
    Evidence,
    build_command,
    get,
    refusal,
    supported_words,
)
from octave_gen.arch.costs import QUARTER_RATE_MULTIPLIES, IssueCosts, LoneWave
from octave_gen.arch.layouts import MATRIX_LAYOUTS, MatrixLayout
from octave_gen.arch.target import TargetId, parse_target_id

__all__ = [
    "ALLOW_UNVALIDATED",
    "ARCHS",
    "MATRIX_LAYOUTS",
    "PORTABLE",
    "QUARTER_RATE_MULTIPLIES",
    "UNSUPPORTED",
    "Arch",
    "Evidence",
    "IssueCosts",
    "LoneWave",
    "MatrixLayout",
    "TargetId",
    "build_command",
    "get",
    "parse_target_id",
    "refusal",
    "supported_words",
]
