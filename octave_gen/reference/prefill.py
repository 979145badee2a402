"""Attention of a chunk of new tokens over its packed prefix and itself: what every prefill kernel is compared with.

All in the rotated space: q and k are rotated like K, v and the output like V, so nothing here rotates. Shapes: q and
out [tokens, q_heads, head]; k and v [tokens, kv_heads, head], fp16, bf16 or fp32; cache and block_table as in
`attention`. Request r owns the tokens cu_seqlens_q[r] .. cu_seqlens_q[r + 1] - 1 and seq_lens[r] tokens in all, the
first of which are its prefix in the cache. int32 [requests + 1] and [requests]. Tokens behind the last request are
padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.codec import dequantize
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.reference.attention import LOG2_E, scores_of, weighted_values, write_partials
from octave_gen.reference.paged import QueryRow, gather_slots
from octave_gen.reference.query import QueryMode, prepare_rotated


@dataclass(frozen=True)
class Chunk:
    """The tokens start .. end - 1 of one request, at least one, and how many of its tokens are in the cache."""

    request: int
    start: int
    end: int
    prefix: int

    @property
    def tokens(self) -> slice:
        return slice(self.start, self.end)


def prefill(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cache: Tensor,
    block_table: Tensor,
    cu_seqlens_q: Tensor,
    seq_lens: Tensor,
    layout: SlotLayout,
    sm_scale: float,
    query_mode: QueryMode = "exact",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """softmax(sm_scale * q K^T) V of every token over its prefix and the chunk up to itself; padding gives zeros.

    [tokens, q_heads, head] of dtype, fp32 or fp64, computed in it. query_mode: the form of q that meets the prefix
    (`query` states it); the chunk is met by q itself.
    """
    maps = (block_table, cu_seqlens_q, seq_lens)
    partials = prefix_partials(q, cache, *maps, layout, sm_scale, 1, seq_lens.tolist(), query_mode, dtype)
    return attend_chunk(q, k, v, partials, cu_seqlens_q, seq_lens, sm_scale, dtype)


def prefix_partials(
    q: Tensor,
    cache: Tensor,
    block_table: Tensor,
    cu_seqlens_q: Tensor,
    seq_lens: Tensor,
    layout: SlotLayout,
    sm_scale: float,
    num_kv_splits: int,
    tokens_per_split: Sequence[int],
    query_mode: QueryMode = "exact",
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """What each KV split of the prefix gives, of decode's form: [tokens, q_heads, num_kv_splits, head + 2] of dtype.

    Split s of request r holds the tokens s*n .. s*n + n - 1 of its prefix, n = tokens_per_split[r]; one without tokens
    is zeros, -inf, 0.
    """
    head = layout.head_size
    _check(q, cache, layout, block_table, seq_lens)
    partials = torch.zeros(*q.shape[:2], num_kv_splits, head + 2, dtype=dtype)
    partials[..., head] = -math.inf
    for chunk in chunks(cu_seqlens_q, seq_lens, q.shape[0]):
        if chunk.prefix == 0:
            continue
        slots = gather_slots(cache, block_table, QueryRow(chunk.start, chunk.request, chunk.prefix))
        k, v = dequantize(slots, layout, dtype)
        prepared = prepare_rotated(q[chunk.tokens], query_mode, dtype)
        width = tokens_per_split[chunk.request]
        for row, query in zip(partials[chunk.tokens], prepared, strict=True):
            write_partials(row, query, k, v, sm_scale, width, f"request {chunk.request}")
    return partials


def attend_chunk(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    partials: Tensor,
    cu_seqlens_q: Tensor,
    seq_lens: Tensor,
    sm_scale: float,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Goes on from the prefix's `prefix_partials` with the chunk's own tokens: [tokens, q_heads, head] of dtype."""
    head = q.shape[-1]
    out = torch.zeros(q.shape, dtype=dtype)
    for chunk in chunks(cu_seqlens_q, seq_lens, q.shape[0]):
        before = partials[chunk.tokens].to(dtype)
        queries, keys, values = (x[chunk.tokens].to(dtype) for x in (q, k, v))
        for i, row in enumerate(out[chunk.tokens]):
            scores = (scores_of(queries[i], keys[: i + 1]) * (sm_scale * LOG2_E)).flatten(0, 1)
            maxima = before[i, ..., head]
            largest = torch.cat([scores, maxima], dim=-1).amax(-1, keepdim=True)
            own, earlier = torch.exp2(scores - largest), torch.exp2(maxima - largest)
            grouped = own.reshape(keys.shape[1], -1, i + 1)
            total = own.sum(-1) + (earlier * before[i, ..., head + 1]).sum(-1)
            merged = weighted_values(grouped, values[: i + 1])
            merged = merged + (earlier.unsqueeze(-1) * before[i, ..., :head]).sum(-2)
            row.copy_(merged / total.unsqueeze(-1))
    return out


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x as outputs of dtype: what is finite stays finite. A prefix of fp16 vectors may hold values beyond 65504."""
    largest = torch.finfo(dtype).max
    return x.where(~x.isfinite(), x.clamp(-largest, largest)).to(dtype)


def chunks(cu_seqlens_q: Tensor, seq_lens: Tensor, tokens: int) -> Iterator[Chunk]:
    """The requests that have query tokens, in order.

    Raises OctaveError where the bounds fall, leave ``tokens``, or hold more query tokens than the request has tokens.
    """
    bounds, lengths = cu_seqlens_q.tolist(), seq_lens.tolist()
    if len(bounds) != len(lengths) + 1:
        raise OctaveError(f"cu_seqlens_q has {len(bounds)} entries for {len(lengths)} requests")
    if bounds[0] < 0 or bounds[-1] > tokens or any(end < start for start, end in pairwise(bounds)):
        raise OctaveError(f"cu_seqlens_q does not rise from 0 to at most {tokens}, the tokens of q")
    for request, length in enumerate(lengths):
        start, end = bounds[request : request + 2]
        if end == start:
            continue
        if length < end - start:
            raise OctaveError(f"request {request} has {end - start} query tokens, and seq_lens {length}")
        yield Chunk(request, start, end, length - (end - start))


def _check(q: Tensor, cache: Tensor, layout: SlotLayout, block_table: Tensor, seq_lens: Tensor) -> None:
    problems = []
    if q.dim() != 3 or q.shape[-1] != layout.head_size:
        problems.append(f"q is {list(q.shape)}, expected [tokens, heads, {layout.head_size}]")
    if cache.dim() != 4 or cache.dtype != torch.uint8 or cache.shape[-1] != layout.slot_bytes:
        problems.append(
            f"cache is {cache.dtype} {list(cache.shape)}, expected uint8 [blocks, heads, rows, {layout.slot_bytes}]"
        )
    elif q.dim() == 3 and (cache.shape[1] == 0 or q.shape[1] % cache.shape[1]):
        problems.append(f"{q.shape[1]} query heads are no multiple of {cache.shape[1]} kv heads")
    if block_table.dim() != 2 or block_table.shape[0] < seq_lens.shape[0]:
        problems.append(f"block_table is {list(block_table.shape)}, expected [{seq_lens.shape[0]} requests, blocks]")
    if problems:
        raise OctaveError("prefill: " + "; ".join(problems))
