"""The flydsl tiers: what the mfma tiers promise, computed by kernels written in FlyDSL. Imports no flydsl."""

from __future__ import annotations

from dataclasses import replace

from octave_gen.kernels import decode_mfma, prefill_mfma
from octave_gen.kernels.base import FLYDSL, Argument, Tier
from octave_gen.kernels.decode_matrix import matrix_tier

NAME = "flydsl"
VERSION = "0.5.0"
"""Of flydsl that the kernels are written for: they use names that it does not promise to keep."""
EXTRA = "pip install 'octave-gen[flydsl]'"
"""How to get it."""

_INT8 = ("v_mfma_i32_16x16x32_i8", "v_mfma_i32_16x16x64_i8")
_FP16 = ("v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x32_f16")
_BF16 = ("v_mfma_f32_16x16x16_bf16", "v_mfma_f32_16x16x32_bf16")
CACHE_MNEMONICS = (_INT8, _FP16)
CHUNK_MNEMONICS = ((*_FP16, *_BF16),)
"""What the kernels multiply with: of each pair the second on gfx950, if it is used there."""

HEAD_SIZES = prefill_mfma.HEAD_SIZES
_PREFILL = replace(prefill_mfma.TIERS, name=NAME)


def decode_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of decode; ``arguments`` are those of every tier of decode."""
    rows = {head_size: decode_mfma.MAX_ROWS[head_size] for head_size in HEAD_SIZES}
    tier = matrix_tier(NAME, arguments, decode_mfma.ACCURACY, rows)
    return _in_flydsl(tier, "decode", CACHE_MNEMONICS)


def prefix_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of prefill_prefix."""
    return _in_flydsl(_PREFILL.prefix_tier(arguments), "prefill_prefix", CACHE_MNEMONICS)


def chunk_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of prefill_chunk."""
    return _in_flydsl(_PREFILL.chunk_tier(arguments), "prefill_chunk", CHUNK_MNEMONICS)


def _in_flydsl(tier: Tier, module: str, mnemonics: tuple[tuple[str, ...], ...]) -> Tier:
    return replace(tier, template=f"flydsl/{module}.py", language=FLYDSL, mnemonics=mnemonics)
