"""decode's wmma tier, for chips with WMMA: both products on the matrix cores, 64 tokens of a workgroup at a time."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, Shape, Tier
from octave_gen.kernels.splits import SPLIT_GRANULE

WAVES = 4
TILE = 16
MAX_ROWS = 48
"""Query rows of a workgroup: three columns of 16 are what a wave's registers hold."""
HEAD_SIZES = (128, 256)

ACCURACY = Accuracy(query_mode="fp16", exact_bound=1e-3, rounding=8192.0)
"""rounding: probabilities are fp16."""


def _queries(shape: Shape) -> int:
    """Query tokens of a workgroup: the largest part of query_group whose rows it holds."""
    assert shape.gqa_group is not None
    assert shape.query_group is not None
    parts = (n for n in range(shape.query_group, 0, -1) if shape.query_group % n == 0)
    return next(n for n in parts if n * shape.gqa_group <= MAX_ROWS)


def _geometry(shape: Shape, arch: Arch) -> Geometry:
    return Geometry(
        threads=WAVES * arch.wave_size,
        grid=(Extent("queries", _queries(shape)), Extent("kv_heads"), Extent("kv_splits")),
    )


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    assert shape.gqa_group is not None
    assert shape.query_group is not None
    return {
        "gqa_group": shape.gqa_group,
        "query_group": shape.query_group,
        "queries": _queries(shape),
        "waves": WAVES,
        "split_granule": SPLIT_GRANULE,
    }


def _refuse(shape: Shape, arch: Arch) -> str | None:
    if shape.head_size not in HEAD_SIZES:
        return f"the wmma tier holds head_size {' and '.join(map(str, HEAD_SIZES))}, not {shape.head_size}"
    return None


def tier(arguments: tuple[Argument, ...]) -> Tier:
    """The tier; ``arguments`` are those of every tier of decode."""
    return Tier(
        "wmma", "decode_wmma.hip.j2", arguments, _geometry, _constants, _refuse, ACCURACY, block_size_multiple=TILE
    )
