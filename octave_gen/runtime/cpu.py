"""The ops on CPU tensors: the reference, behind the same checks as the GPU path."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.kernels.splits import query_groups, split_widths
from octave_gen.reference import attention, store
from octave_gen.reference import prefill as chunked
from octave_gen.reference import rotate as rotation
from octave_gen.runtime.checks import (
    DecodeArguments,
    PrefillArguments,
    check_cache_store,
    check_decode,
    check_prefill,
    check_rotate,
    encoder_of,
    named,
)
from octave_gen.runtime.dispatch import check_tier, no_matrix_tier


@named("cache_store")
def cache_store(
    key: Tensor,
    value: Tensor,
    cache: Tensor,
    slot_mapping: Tensor,
    k_signs: Tensor,
    v_signs: Tensor,
    fmt: int,
    encoder: str | None = None,
    k_center: Tensor | None = None,
) -> None:
    layout = check_cache_store(key, value, cache, slot_mapping, k_signs, v_signs, fmt, k_center)
    tokens = slot_mapping.shape[0]
    rows = (key[:tokens], value[:tokens])
    store.cache_store(*rows, cache, slot_mapping, layout, k_signs, v_signs, encoder_of(encoder), k_center)


@named("rotate")
def rotate(x: Tensor, signs: Tensor, k_layout: bool, inverse: bool, center: Tensor | None = None) -> None:
    check_rotate(x, signs, inverse, center)
    rotation.rotate(x, k_layout, inverse, signs, center)


@named("decode")
def decode(*arguments: Any, **by_name: Any) -> None:
    """What the portable tier computes, whatever ``tier`` is: int8 queries, fp32, partials in mid_o, then one rounding
    into out.

    Takes the fields of `DecodeArguments`.
    """
    a = DecodeArguments(*arguments, **by_name)
    check_tier("decode", a.tier)
    if a.use_wmma and a.tier is None:
        raise no_matrix_tier("cpu")
    layout = check_decode(a)
    queries, q_heads, _ = a.query.shape
    q_to_req, q_to_klen = a.q_to_req[:queries], a.q_to_klen[:queries]
    groups = query_groups(queries, a.query_group, None if a.group_starts is None else a.group_starts.tolist())
    widths = split_widths(q_to_req.tolist(), q_to_klen.tolist(), a.block_table.shape[0], a.num_kv_splits, groups)
    partials = attention.decode_partials(
        a.query,
        a.cache,
        a.block_table,
        q_to_req,
        q_to_klen,
        layout,
        a.sm_scale,
        a.num_kv_splits,
        widths,
        query_mode="int8",
        k_signs=a.k_signs,
    )
    a.mid_o[:queries, :q_heads, : a.num_kv_splits, : partials.shape[3]] = partials
    a.out.copy_(attention.reduce_partials(partials, layout, torch.float32, a.v_signs))


@named("prefill")
def prefill(*arguments: Any, **by_name: Any) -> None:
    """In fp32 with the query as it is, then one rounding into out, which saturates; the workspace and rows of padding
    are left alone.

    Takes the fields of `PrefillArguments`.
    """
    a = PrefillArguments(*arguments, **by_name)
    check_tier("prefill_prefix", a.tier)
    layout = check_prefill(a)
    maps = (a.block_table, a.cu_seqlens_q, a.seq_lens)
    longest = max((end - start for start, end in pairwise(a.cu_seqlens_q.tolist())), default=0)
    if longest > a.max_query_len:
        raise OctaveError(f"max_query_len is {a.max_query_len}, and a request has {longest} query tokens")
    found = chunked.prefill(a.q, a.k, a.v, a.cache, *maps, layout, a.sm_scale)
    for chunk in chunked.chunks(a.cu_seqlens_q, a.seq_lens, a.q.shape[0]):
        a.out[chunk.tokens] = chunked.rounded(found[chunk.tokens], a.out.dtype)
