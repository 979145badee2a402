"""cache_store: rotate, quantize and pack the K and V of new tokens; one wave per slot."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels.base import (
    I32,
    I64,
    Argument,
    Extent,
    Geometry,
    KernelKind,
    Shape,
    Tier,
    pointer,
    power_of_two_head,
)

WAVES_PER_WORKGROUP = 4

ARGUMENTS = (
    Argument("key", pointer("const Scalar*")),
    Argument("value", pointer("const Scalar*")),
    Argument("cache", pointer("uint8_t*")),
    Argument("slot_mapping", pointer("const int64_t*")),
    Argument("k_signs", pointer("const uint32_t*")),
    Argument("v_signs", pointer("const uint32_t*")),
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
"""Strides of key and value in elements, of the cache in bytes (multiples of 4)."""


def _geometry(shape: Shape, arch: Arch) -> Geometry:
    return Geometry(
        threads=WAVES_PER_WORKGROUP * arch.wave_size,
        grid=(Extent("tokens", WAVES_PER_WORKGROUP), Extent("kv_heads")),
    )


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {"waves": WAVES_PER_WORKGROUP}


def _refuse(shape: Shape, arch: Arch) -> str | None:
    return power_of_two_head(shape)


KIND = KernelKind(
    name="store",
    op="cache_store",
    purpose="rotate, quantize and pack new K and V into their slots",
    fields=("cache_dtype", "rotary_dims"),
    tiers=(Tier("portable", "store_portable.hip.j2", ARGUMENTS, _geometry, _constants, _refuse),),
)
