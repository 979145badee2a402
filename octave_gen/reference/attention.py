"""Paged decode attention over Octave slots in fp32 or fp64: what every decode kernel is compared with.

A query token sees the first klen tokens of its request and nothing else: slots behind them are never read, so their
bytes, non-finite scales included, cannot reach its output. A padding query (request out of range, or klen <= 0) gives
exact (positive) zeros. A query row (one token, one head) that is not finite gives NaN in its own row only.

Scores, softmax and weighted values are summed in whatever order torch takes: unlike the encoder, whose bytes a kernel
must meet, attention is compared within a tolerance.

Shapes, for all functions: query [Q, q_heads, head] fp16, bf16 or fp32; cache uint8 [blocks, kv_heads, block_size,
slot], any strides; block_table int32 [requests, max_blocks]; q_to_req and q_to_klen int32 [Q]; k_signs, v_signs int32
[head / 32], the format's own when None. Query head i reads kv head i // (q_heads / kv_heads).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.codec import dequantize
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.formats.octave.rotation import rotate_inverse
from octave_gen.reference.paged import check_decode_inputs, gather_slots, visible_rows
from octave_gen.reference.query import QueryMode, prepare_query

LOG2_E = math.log2(math.e)


def decode(
    query: Tensor,
    cache: Tensor,
    block_table: Tensor,
    q_to_req: Tensor,
    q_to_klen: Tensor,
    layout: SlotLayout,
    sm_scale: float,
    query_mode: QueryMode = "exact",
    dtype: torch.dtype = torch.float32,
    k_signs: Tensor | None = None,
    v_signs: Tensor | None = None,
) -> Tensor:
    """softmax(sm_scale * q K^T) V of every query token: [Q, q_heads, head] of dtype, fp32 or fp64, computed in it.

    query_mode "exact" rotates the query in dtype; "int8" quantizes it as `query.quantize_query` states, like the
    portable tier.
    """
    check_decode_inputs(query, cache, block_table, q_to_req, q_to_klen, layout)
    prepared = prepare_query(query, layout, query_mode, dtype, k_signs)
    out = torch.zeros(query.shape, dtype=dtype)
    for row in visible_rows(q_to_req, q_to_klen, block_table.shape[0]):
        k, v = dequantize(gather_slots(cache, block_table, row), layout, dtype)
        weights = torch.softmax(scores_of(prepared[row.index], k) * sm_scale, dim=-1)
        out[row.index] = rotate_inverse(weighted_values(weights, v), layout.v_block_size, v_signs)
    return out


def decode_partials(
    query: Tensor,
    cache: Tensor,
    block_table: Tensor,
    q_to_req: Tensor,
    q_to_klen: Tensor,
    layout: SlotLayout,
    sm_scale: float,
    num_kv_splits: int,
    tokens_per_split: Sequence[int],
    query_mode: QueryMode = "exact",
    dtype: torch.dtype = torch.float32,
    k_signs: Tensor | None = None,
) -> Tensor:
    """The workspace between split decode and reduce: fp32 [Q, q_heads, num_kv_splits, head + 2].

    Per split: the unnormalised output in the rotated V space, the largest score in log2 units (score * sm_scale *
    log2(e)), and the sum of exp2(score - largest). Split s of query i holds tokens s*n .. s*n + n - 1 that the query
    sees, n = tokens_per_split[i]. A split without tokens is zeros, -inf, 0.
    """
    check_decode_inputs(query, cache, block_table, q_to_req, q_to_klen, layout)
    if num_kv_splits < 1:
        raise OctaveError(f"num_kv_splits is {num_kv_splits}", hint="at least 1")
    prepared = prepare_query(query, layout, query_mode, dtype, k_signs)
    head = layout.head_size
    mid_o = torch.zeros(query.shape[0], query.shape[1], num_kv_splits, head + 2)
    mid_o[..., head] = -math.inf
    for row in visible_rows(q_to_req, q_to_klen, block_table.shape[0]):
        k, v = dequantize(gather_slots(cache, block_table, row), layout, dtype)
        width = tokens_per_split[row.index]
        write_partials(mid_o[row.index], prepared[row.index], k, v, sm_scale, width, f"query {row.index}")
    return mid_o


def write_partials(
    partials: Tensor, query: Tensor, k: Tensor, v: Tensor, sm_scale: float, width: int, whose: str
) -> None:
    """The partials of one prepared query [q_heads, head] over k and v [tokens, kv_heads, head] in splits of ``width``
    tokens, into [q_heads, splits, head + 2]; those without tokens are left alone."""
    tokens, head = k.shape[0], k.shape[2]
    if width * partials.shape[1] < tokens:
        raise OctaveError(f"{whose}: {partials.shape[1]} splits of {width} tokens do not hold {tokens}")
    scores = scores_of(query, k) * (sm_scale * LOG2_E)
    for split, start in enumerate(range(0, tokens, width)):
        part = scores[..., start : start + width]
        largest = part.amax(-1, keepdim=True)
        weights = torch.exp2(part - largest)
        partials[:, split, :head] = weighted_values(weights, v[start : start + width])
        partials[:, split, head] = largest.flatten()
        partials[:, split, head + 1] = weights.sum(-1).flatten()


def reduce_partials(
    mid_o: Tensor, layout: SlotLayout, dtype: torch.dtype = torch.float32, v_signs: Tensor | None = None
) -> Tensor:
    """Merges, normalises, rotates back: fp32 [Q, q_heads, splits, >= head + 2] -> [Q, q_heads, head] of dtype.

    Rows whose splits are all empty give exact (positive) zeros. An empty split's values are not read: only (-inf, 0)
    marks it.
    """
    merged, full = merge_partials(mid_o, layout.head_size, dtype)
    out = rotate_inverse(merged, layout.v_block_size, v_signs)
    return torch.where(full, out, 0.0)


def merge_partials(mid_o: Tensor, head: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """`reduce_partials` in the rotated space: [Q, q_heads, head] of dtype, and bool [Q, q_heads, 1]: whether any split
    holds a token (what the others give means nothing)."""
    values, largest, total = mid_o[..., :head].to(dtype), mid_o[..., head].to(dtype), mid_o[..., head + 1].to(dtype)
    empty = (total == 0) & (largest == -math.inf)
    weights = torch.exp2(largest - largest.amax(-1, keepdim=True))
    merged = (weights.unsqueeze(-1) * values.masked_fill(empty.unsqueeze(-1), 0.0)).sum(-2)
    return merged / (weights * total).sum(-1, keepdim=True), ~empty.all(-1, keepdim=True)


def scores_of(query: Tensor, k: Tensor) -> Tensor:
    """query [q_heads, head], k [tokens, kv_heads, head] -> [kv_heads, group, tokens]."""
    grouped = query.reshape(k.shape[1], query.shape[0] // k.shape[1], query.shape[1])
    return torch.einsum("hgd,thd->hgt", grouped, k)


def weighted_values(weights: Tensor, v: Tensor) -> Tensor:
    """weights [kv_heads, group, tokens], v [tokens, kv_heads, head] -> [q_heads, head]."""
    return torch.einsum("hgt,thd->hgd", weights, v).flatten(0, 1)
