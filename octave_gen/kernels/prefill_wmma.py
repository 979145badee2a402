"""prefill's wmma tier, for chips with WMMA: 128 query rows of a kv head per workgroup, 16 of them to a wave."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, Shape, Tier
from octave_gen.kernels.splits import SPLIT_GRANULE

WAVES = 8
ROWS = 16 * WAVES
"""Of a workgroup: rows of a kv head's query matrix, token_in_request * gqa_group + head_in_group."""
TILE = 16
HEAD_SIZES = (128, 256)

PREFIX_ACCURACY = Accuracy(rounding=8192.0, score_rounding=2048.0)
"""rounding: weights are fp16; score_rounding: so are keys, with their scales."""
CHUNK_ACCURACY = Accuracy(rounding=8192.0)
"""rounding: weights are fp16."""


def _query_steps_kept(head_size: int) -> int:
    """How many of a row's steps of 16 dims stay in registers, which the outputs share."""
    return {128: 8, 256: 5}[head_size]


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {
        "waves": WAVES,
        "query_steps_kept": _query_steps_kept(shape.head_size),
        "tile_buffers": 1,
        "split_granule": SPLIT_GRANULE,
    }


def _refuse(shape: Shape, arch: Arch) -> str | None:
    if shape.head_size not in HEAD_SIZES:
        return f"the wmma tier holds head_size {' and '.join(map(str, HEAD_SIZES))}, not {shape.head_size}"
    return None


def _tier(template: str, arguments: tuple[Argument, ...], third: str, accuracy: Accuracy) -> Tier:
    def geometry(shape: Shape, arch: Arch) -> Geometry:
        return Geometry(
            threads=WAVES * arch.wave_size,
            grid=(Extent("query_rows", ROWS), Extent("kv_heads"), Extent(third)),
        )

    return Tier("wmma", template, arguments, geometry, _constants, _refuse, accuracy, block_size_multiple=TILE)


def prefix_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of ``prefill_prefix``."""
    return _tier("prefill_prefix_wmma.hip.j2", arguments, "request_splits", PREFIX_ACCURACY)


def chunk_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of ``prefill_chunk``."""
    return _tier("prefill_chunk_wmma.hip.j2", arguments, "requests", CHUNK_ACCURACY)
