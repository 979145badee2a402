"""The ops on CPU tensors: the reference, behind the same checks as the GPU path."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from octave_gen.kernels.splits import tokens_per_split
from octave_gen.reference import attention, store
from octave_gen.reference import rotate as rotation
from octave_gen.runtime.checks import check_cache_store, check_decode, check_rotate
from octave_gen.runtime.dispatch import no_matrix_tier


def cache_store(
    key: Tensor, value: Tensor, cache: Tensor, slot_mapping: Tensor, k_signs: Tensor, v_signs: Tensor, fmt: int
) -> None:
    layout = check_cache_store(key, value, cache, slot_mapping, k_signs, v_signs, fmt)
    tokens = slot_mapping.shape[0]
    store.cache_store(key[:tokens], value[:tokens], cache, slot_mapping, layout, k_signs, v_signs)


def rotate(x: Tensor, signs: Tensor, k_layout: bool, inverse: bool) -> None:
    check_rotate(x, signs)
    rotation.rotate(x, k_layout, inverse, signs)


def decode(
    out: Tensor,
    query: Tensor,
    cache: Tensor,
    block_table: Tensor,
    q_to_req: Tensor,
    q_to_klen: Tensor,
    mid_o: Tensor,
    k_signs: Tensor,
    v_signs: Tensor,
    sm_scale: float,
    num_kv_splits: int,
    fmt: int,
    query_group: int,
    use_wmma: bool,
) -> None:
    """What the portable tier computes: int8 queries, fp32, partials in mid_o, then one rounding into out."""
    if use_wmma:
        raise no_matrix_tier("cpu")
    layout = check_decode(
        out,
        query,
        cache,
        block_table,
        q_to_req,
        q_to_klen,
        mid_o,
        k_signs,
        v_signs,
        sm_scale,
        num_kv_splits,
        fmt,
        query_group,
    )
    queries, q_heads, _ = query.shape
    q_to_req, q_to_klen = q_to_req[:queries], q_to_klen[:queries]
    widths = split_widths(q_to_req.tolist(), q_to_klen.tolist(), block_table.shape[0], num_kv_splits, query_group)
    partials = attention.decode_partials(
        query,
        cache,
        block_table,
        q_to_req,
        q_to_klen,
        layout,
        sm_scale,
        num_kv_splits,
        widths,
        query_mode="int8",
        k_signs=k_signs,
    )
    mid_o[:queries, :q_heads, :num_kv_splits, : partials.shape[3]] = partials
    out.copy_(attention.reduce_partials(partials, layout, torch.float32, v_signs))


def split_widths(
    q_to_req: Sequence[int], q_to_klen: Sequence[int], requests: int, num_kv_splits: int, query_group: int
) -> list[int]:
    """Tokens of a KV split for each query, as the kernels split: consecutive queries of one request in one query group
    share their splits, so the longest of them decides. 0 for padding."""
    widths: list[int] = []
    for start in range(0, len(q_to_req), query_group):
        group = [
            (request if 0 <= request < requests and klen > 0 else None, klen)
            for request, klen in zip(
                q_to_req[start : start + query_group], q_to_klen[start : start + query_group], strict=True
            )
        ]
        for request, run in groupby(group, key=lambda query: query[0]):
            lengths = [klen for _, klen in run]
            width = 0 if request is None else tokens_per_split(max(lengths), num_kv_splits)
            widths += [width] * len(lengths)
    return widths
