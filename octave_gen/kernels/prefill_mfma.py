"""prefill's mfma tiers, for chips with MFMA: both products of both phases on the matrix cores, for 128 query rows."""

from __future__ import annotations

from collections.abc import Callable

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, Shape, Tier
from octave_gen.kernels.splits import SPLIT_GRANULE

PREFIX_ACCURACY = Accuracy(query_mode="int16", rounding=12288.0)
"""rounding: of weights that are cut off to fp16, and set right on average: at most 2^-10 - 0.36 * 2^-10."""
CHUNK_ACCURACY = Accuracy(rounding=8192.0)
"""rounding: fp16 weights; bf16 ones have two parts."""

WAVES = 4
ROW_TILES = 2
"""Of 16 query rows, for each wave: what its registers hold at head_size 256."""
ROWS = 16 * ROW_TILES * WAVES
"""Query rows of a workgroup."""
BLOCK_SIZE_MULTIPLE = 16
HEAD_SIZES = (128, 256)


def _geometry(last: str) -> Callable[[Shape, Arch], Geometry]:
    grid = (Extent("query_rows", ROWS), Extent("kv_heads"), Extent(last))
    return lambda shape, arch: Geometry(WAVES * arch.wave_size, grid)


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {"waves": WAVES, "row_tiles": ROW_TILES, "split_granule": SPLIT_GRANULE}


def _refuse(shape: Shape, arch: Arch) -> str | None:
    if shape.head_size not in HEAD_SIZES:
        return f"the mfma tier holds head_size {' and '.join(map(str, HEAD_SIZES))}, not {shape.head_size}"
    return None


def prefix_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of prefill_prefix."""
    return Tier(
        "mfma",
        "prefill_prefix_mfma.hip.j2",
        arguments,
        _geometry("request_splits"),
        _constants,
        _refuse,
        PREFIX_ACCURACY,
        block_size_multiple=BLOCK_SIZE_MULTIPLE,
    )


def chunk_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of prefill_chunk."""
    return Tier(
        "mfma", "prefill_chunk_mfma.hip.j2", arguments, _geometry("requests"), _constants, _refuse, CHUNK_ACCURACY
    )
