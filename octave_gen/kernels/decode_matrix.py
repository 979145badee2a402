"""What decode's tiers for matrix cores share: how a query group is shared out, geometry, constants, limits."""

from __future__ import annotations

from collections.abc import Mapping

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, Shape, Tier, Wide, head_size_in
from octave_gen.kernels.splits import SPLIT_GRANULE

WAVES = 4
TILE = 16
"""Tokens whose scores a wave computes at a time."""


def _constants(shape: Shape, max_rows: Mapping[int, int]) -> dict[str, int]:
    """``queries``: query tokens of a workgroup, the largest part of query_group whose rows it holds."""
    assert shape.gqa_group is not None
    assert shape.query_group is not None
    parts = (n for n in range(shape.query_group, 0, -1) if shape.query_group % n == 0)
    return {
        "gqa_group": shape.gqa_group,
        "query_group": shape.query_group,
        "queries": next(n for n in parts if n * shape.gqa_group <= max_rows[shape.head_size]),
        "waves": WAVES,
        "split_granule": SPLIT_GRANULE,
    }


def matrix_tier(
    name: str,
    arguments: tuple[Argument, ...],
    accuracy: Accuracy,
    max_rows: Mapping[int, int],
    wide_waves: Mapping[int, int] | None = None,
) -> Tier:
    """The tier ``name``.

    max_rows: query rows of a workgroup (at least MAX_GROUP), by head_size: of those that the tier holds, in rising
    order. wide_waves: of a workgroup in launches of no more workgroups than places on the chip, by head_size, where
    that is not WAVES.
    """

    def geometry(shape: Shape, arch: Arch) -> Geometry:
        queries = _constants(shape, max_rows)["queries"]
        wide = (wide_waves or {}).get(shape.head_size)
        return Geometry(
            WAVES * arch.wave_size,
            (Extent("queries", queries), Extent("kv_heads"), Extent("kv_splits")),
            Wide(wide * arch.wave_size, arch.workgroup_places) if wide else None,
        )

    return Tier(
        name,
        f"decode_{name}.hip.j2",
        arguments,
        geometry,
        constants=lambda shape, arch: _constants(shape, max_rows),
        refuse=lambda shape, arch: head_size_in(max_rows, name, shape),
        accuracy=accuracy,
        block_size_multiple=TILE,
    )
