"""decode: attention of query tokens over the packed cache, split over the context; partial results go to ``mid_o``."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels import decode_mfma, decode_wmma
from octave_gen.kernels.base import (
    F32,
    I32,
    I64,
    Accuracy,
    Argument,
    Extent,
    Geometry,
    KernelKind,
    Shape,
    Tier,
    pointer,
    power_of_two_head,
)
from octave_gen.kernels.flydsl import tiers
from octave_gen.kernels.splits import SPLIT_GRANULE

PORTABLE_THREADS = 256
PORTABLE_MAX_ROWS = 64
PORTABLE_ROWS_AT_FOUR_DIMS = 32
"""More rows than this would not leave the outputs of four dims per lane in registers."""

ARGUMENTS = (
    Argument("query", pointer("const Scalar*")),
    Argument("cache", pointer("const uint8_t*")),
    Argument("block_table", pointer("const int32_t*")),
    Argument("q_to_req", pointer("const int32_t*")),
    Argument("q_to_klen", pointer("const int32_t*")),
    Argument("group_starts", pointer("const int32_t*")),
    Argument("mid_o", pointer("float*")),
    Argument("k_signs", pointer("const uint32_t*")),
    Argument("query_token_stride", I64),
    Argument("query_head_stride", I64),
    Argument("cache_block_stride", I64),
    Argument("cache_head_stride", I64),
    Argument("cache_row_stride", I64),
    Argument("block_table_stride", I64),
    Argument("mid_token_stride", I64),
    Argument("mid_head_stride", I64),
    Argument("mid_split_stride", I64),
    Argument("num_queries", I32),
    Argument("num_groups", I32),
    Argument("num_requests", I32),
    Argument("block_size", I32),
    Argument("num_kv_splits", I32),
    Argument("sm_scale", F32),
)
"""Strides of the cache in bytes (multiples of 4), all others in elements. group_starts may be null: groups of
query_group query tokens then follow each other."""


def _rows(shape: Shape) -> int:
    assert shape.gqa_group is not None
    assert shape.query_group is not None
    return shape.gqa_group * shape.query_group


def _tile_tokens(shape: Shape) -> int:
    """64, or 48 where 64 rows of queries and scores would fill more than half of a CU's LDS."""
    return 48 if _rows(shape) > 48 and shape.head_size >= 256 else 64


def _geometry(shape: Shape, arch: Arch) -> Geometry:
    assert shape.query_group is not None
    return Geometry(
        threads=PORTABLE_THREADS,
        grid=(Extent("queries", shape.query_group), Extent("kv_heads"), Extent("kv_splits")),
    )


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    assert shape.gqa_group is not None
    assert shape.query_group is not None
    return {
        "gqa_group": shape.gqa_group,
        "query_group": shape.query_group,
        "queries": shape.query_group,
        "threads": PORTABLE_THREADS,
        "tile_tokens": _tile_tokens(shape),
        "split_granule": SPLIT_GRANULE,
        "value_dims_per_lane": 4 if _rows(shape) <= PORTABLE_ROWS_AT_FOUR_DIMS else 2,
    }


def _refuse(shape: Shape, arch: Arch) -> str | None:
    if _rows(shape) > PORTABLE_MAX_ROWS:
        return f"the portable tier holds gqa_group × query_group up to {PORTABLE_MAX_ROWS}, not {_rows(shape)}"
    return power_of_two_head(shape)


KIND = KernelKind(
    name="decode",
    op="decode",
    purpose="attention partials of up to query_group query tokens over one KV split",
    fields=("cache_dtype", "rotary_dims", "gqa_group", "query_group"),
    tiers=(
        Tier(
            "portable",
            "decode_portable.hip.j2",
            ARGUMENTS,
            _geometry,
            _constants,
            _refuse,
            Accuracy(query_mode="int8", exact_bound=3e-2),
        ),
        decode_mfma.tier(ARGUMENTS),
        decode_wmma.tier(ARGUMENTS),
        tiers.decode_tier(ARGUMENTS),
    ),
)
