"""prefill's wmma tier, for chips with WMMA: 128 query rows of a kv head per workgroup, 16 of them to a wave."""

from __future__ import annotations

from collections.abc import Callable

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, Shape, Tier
from octave_gen.kernels.splits import SPLIT_GRANULE

WAVES = 8
ROWS = 16 * WAVES
"""Query rows of a workgroup."""
TILE = 16
QUERY_STEPS_KEPT = {128: 8, 256: 5}
"""By head_size: how many of a row's steps of 16 dims stay in registers beside the outputs; LDS holds the others."""


def _geometry(last: str) -> Callable[[Shape, Arch], Geometry]:
    grid = (Extent("query_rows", ROWS), Extent("kv_heads"), Extent(last))
    return lambda shape, arch: Geometry(WAVES * arch.wave_size, grid)


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {
        "waves": WAVES,
        "query_steps_kept": QUERY_STEPS_KEPT[shape.head_size],
        "split_granule": SPLIT_GRANULE,
    }


def _refuse(shape: Shape, arch: Arch) -> str | None:
    if shape.head_size not in QUERY_STEPS_KEPT:
        return f"the wmma tier holds head_size {' and '.join(map(str, QUERY_STEPS_KEPT))}, not {shape.head_size}"
    return None


def prefix_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of prefill_prefix. Its K, V and probabilities are fp16, rounded once from what the codes stand for."""
    return Tier(
        "wmma",
        "prefill_prefix_wmma.hip.j2",
        arguments,
        _geometry("request_splits"),
        _constants,
        _refuse,
        Accuracy(rounding=8192.0, score_rounding=2048.0),
        block_size_multiple=TILE,
    )


def chunk_tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier of prefill_chunk. Its probabilities are fp16."""
    return Tier(
        "wmma",
        "prefill_chunk_wmma.hip.j2",
        arguments,
        _geometry("requests"),
        _constants,
        _refuse,
        Accuracy(rounding=8192.0, score_rounding=2.0),
    )
