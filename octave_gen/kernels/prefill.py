"""prefill: a chunk of new tokens attends to its packed prefix (phase 1) and causally to its own K and V (phase 2).

All of it is in the rotated space: q and k rotated like K, v and the output like V. Phase 1 leaves partials of each KV
split of the prefix in the workspace, of the form that decode's have; phase 2 goes on from them and writes the output.
Splits that hold no token of a request's prefix are neither written nor read.
"""

from __future__ import annotations

from octave_gen.kernels import prefill_mfma, prefill_wmma
from octave_gen.kernels.base import F32, I32, I64, Argument, KernelKind, pointer
from octave_gen.kernels.flydsl import tiers

PREFIX_ARGUMENTS = (
    Argument("q", pointer("const Scalar*")),
    Argument("cache", pointer("const uint8_t*")),
    Argument("block_table", pointer("const int32_t*")),
    Argument("cu_seqlens_q", pointer("const int32_t*")),
    Argument("seq_lens", pointer("const int32_t*")),
    Argument("partials", pointer("float*")),
    Argument("q_token_stride", I64),
    Argument("q_head_stride", I64),
    Argument("cache_block_stride", I64),
    Argument("cache_head_stride", I64),
    Argument("cache_row_stride", I64),
    Argument("block_table_stride", I64),
    Argument("partial_token_stride", I64),
    Argument("partial_head_stride", I64),
    Argument("partial_split_stride", I64),
    Argument("gqa_group", I32),
    Argument("block_size", I32),
    Argument("num_kv_splits", I32),
    Argument("sm_scale", F32),
)
"""Strides of the cache in bytes (multiples of 4), all others in elements; those of q are multiples of 8."""

CHUNK_ARGUMENTS = (
    Argument("q", pointer("const Scalar*")),
    Argument("k", pointer("const Scalar*")),
    Argument("v", pointer("const Scalar*")),
    Argument("out", pointer("Scalar*")),
    Argument("partials", pointer("const float*")),
    Argument("cu_seqlens_q", pointer("const int32_t*")),
    Argument("seq_lens", pointer("const int32_t*")),
    Argument("q_token_stride", I64),
    Argument("q_head_stride", I64),
    Argument("k_token_stride", I64),
    Argument("k_head_stride", I64),
    Argument("v_token_stride", I64),
    Argument("v_head_stride", I64),
    Argument("out_token_stride", I64),
    Argument("out_head_stride", I64),
    Argument("partial_token_stride", I64),
    Argument("partial_head_stride", I64),
    Argument("partial_split_stride", I64),
    Argument("gqa_group", I32),
    Argument("num_kv_splits", I32),
    Argument("sm_scale", F32),
)
"""Strides in elements; those of q, k, v and out are multiples of 8."""

PREFIX = KernelKind(
    name="prefill_prefix",
    op="prefill",
    purpose="attention partials of a chunk's query tokens over one KV split of their packed prefix",
    fields=("cache_dtype", "rotary_dims"),
    tiers=(
        prefill_mfma.TIERS.prefix_tier(PREFIX_ARGUMENTS),
        prefill_wmma.TIERS.prefix_tier(PREFIX_ARGUMENTS),
        tiers.prefix_tier(PREFIX_ARGUMENTS),
    ),
)

CHUNK = KernelKind(
    name="prefill_chunk",
    op="prefill",
    purpose="causal attention of a chunk to its own K and V, merged with the prefix's partials",
    fields=(),
    tiers=(
        prefill_mfma.TIERS.chunk_tier(CHUNK_ARGUMENTS),
        prefill_wmma.TIERS.chunk_tier(CHUNK_ARGUMENTS),
        tiers.chunk_tier(CHUNK_ARGUMENTS),
    ),
)
