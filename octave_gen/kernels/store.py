"""cache_store: rotate, quantize and pack the K and V of new tokens; one wave per slot."""

from __future__ import annotations

from octave_gen.kernels.base import (
    I32,
    I64,
    WAVES_PER_WORKGROUP,
    Argument,
    Extent,
    KernelKind,
    pointer,
    portable_tier,
)

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


KIND = KernelKind(
    name="store",
    op="cache_store",
    purpose="rotate, quantize and pack new K and V into their slots",
    fields=("cache_dtype", "rotary_dims"),
    tiers=(
        portable_tier("store_portable.hip.j2", ARGUMENTS, Extent("tokens", WAVES_PER_WORKGROUP), Extent("kv_heads")),
    ),
)
