"""What decode's tiers for matrix cores share: how a query group is shared out, geometry, constants, limits."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, Shape, Tier, Wide, head_size_in
from octave_gen.kernels.splits import SPLIT_GRANULE

WAVES = 4
TILE = 16
"""Tokens whose scores a wave computes at a time."""
HEAD_SIZES = (128, 256)


def _constants(shape: Shape, max_rows: int) -> dict[str, int]:
    """``queries``: query tokens of a workgroup, the largest part of query_group whose rows it holds."""
    assert shape.gqa_group is not None
    assert shape.query_group is not None
    parts = (n for n in range(shape.query_group, 0, -1) if shape.query_group % n == 0)
    return {
        "gqa_group": shape.gqa_group,
        "query_group": shape.query_group,
        "queries": next(n for n in parts if n * shape.gqa_group <= max_rows),
        "waves": WAVES,
        "split_granule": SPLIT_GRANULE,
    }


def matrix_tier(
    name: str,
    arguments: tuple[Argument, ...],
    accuracy: Accuracy,
    max_rows: int,
    wide_waves: int | None = None,
) -> Tier:
    """The tier ``name``, whose workgroups hold ``max_rows`` query rows (at least MAX_GROUP).

    wide_waves: of a workgroup in launches of no more workgroups than places on the chip, where that is not WAVES.
    """

    def geometry(shape: Shape, arch: Arch) -> Geometry:
        queries = _constants(shape, max_rows)["queries"]
        return Geometry(
            WAVES * arch.wave_size,
            (Extent("queries", queries), Extent("kv_heads"), Extent("kv_splits")),
            Wide(wide_waves * arch.wave_size, arch.workgroup_places) if wide_waves else None,
        )

    return Tier(
        name,
        f"decode_{name}.hip.j2",
        arguments,
        geometry,
        constants=lambda shape, arch: _constants(shape, max_rows),
        refuse=lambda shape, arch: head_size_in(HEAD_SIZES, name, shape),
        accuracy=accuracy,
        block_size_multiple=TILE,
    )
