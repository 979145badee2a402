"""cache_store: rotate, quantize and pack the K and V of new tokens; a team of up to 16 lanes per slot."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.formats.octave.encoders import SEARCH
from octave_gen.kernels.base import (
    I32,
    I64,
    WAVES_PER_WORKGROUP,
    Argument,
    Extent,
    Geometry,
    KernelKind,
    Shape,
    Tier,
    pointer,
    power_of_two_head,
)

ARGUMENTS = (
    Argument("key", pointer("const Scalar*")),
    Argument("value", pointer("const Scalar*")),
    Argument("cache", pointer("uint8_t*")),
    Argument("slot_mapping", pointer("const int64_t*")),
    Argument("k_signs", pointer("const uint32_t*")),
    Argument("v_signs", pointer("const uint32_t*")),
    Argument("k_center", pointer("const Scalar*")),
    Argument("key_token_stride", I64),
    Argument("key_head_stride", I64),
    Argument("value_token_stride", I64),
    Argument("value_head_stride", I64),
    Argument("cache_block_stride", I64),
    Argument("cache_head_stride", I64),
    Argument("cache_row_stride", I64),
    Argument("num_tokens", I32),
    Argument("block_size", I32),
)
"""Strides of key and value in elements, of the cache in bytes (multiples of 4).

k_center: dense [kv_heads, head_size], subtracted from key in fp32 before the signs; null: nothing is.
"""


def team_lanes(head_size: int) -> int:
    """Lanes that hold one vector; ``kTeam`` of octave/team.h."""
    return min(16, head_size // 8)


def _geometry(shape: Shape, arch: Arch) -> Geometry:
    tokens = WAVES_PER_WORKGROUP * arch.wave_size // team_lanes(shape.head_size)
    return Geometry(WAVES_PER_WORKGROUP * arch.wave_size, (Extent("tokens", tokens), Extent("kv_heads")))


KIND = KernelKind(
    name="store",
    op="cache_store",
    purpose="rotate, quantize and pack new K and V into their slots",
    fields=("cache_dtype", "rotary_dims", "encoder"),
    tiers=(
        Tier(
            "portable",
            "store_portable.hip.j2",
            ARGUMENTS,
            geometry=_geometry,
            constants=lambda shape, arch: {"waves": WAVES_PER_WORKGROUP, "search": int(shape.encoder == SEARCH)},
            refuse=lambda shape, arch: power_of_two_head(shape),
        ),
    ),
)
