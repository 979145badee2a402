"""What prefill works on: the chunks of several requests, and before them packed prefixes or synthetic partials.

Behind the last request come tokens of padding, NaN. Slots that no token sees are POISON or STALE bytes, and entries of
the block table behind a request's last block name no block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from octave_gen.kernels.splits import tokens_per_split, workspace_shape
from octave_gen.reference.prefill import Chunk
from octave_gen.reference.prefill import chunks as chunks_of
from octave_gen.reference.store import cache_store
from octave_gen.verify.batch import edge_queries, key_and_value, paged, slots_of
from octave_gen.verify.cases import ChunkCase, PrefixCase
from octave_gen.verify.inputs import gaussian, generator, scaled
from octave_gen.verify.subject import Subject

_PADDING = 3
_LOG2_SCORES = 5.0
_HUGE = 65504.0
_BAD = (torch.nan, torch.inf, -torch.inf)


@dataclass(frozen=True)
class Chunks:
    """Dense tensors of one prefill call. q [tokens, heads, head], k and v [tokens, kv_heads, head], with padding."""

    q: Tensor
    k: Tensor
    v: Tensor
    cu_seqlens_q: Tensor
    seq_lens: Tensor

    @property
    def requests(self) -> tuple[Chunk, ...]:
        """Those that have query tokens."""
        return tuple(chunks_of(self.cu_seqlens_q, self.seq_lens, self.q.shape[0]))

    @property
    def tokens(self) -> int:
        """Without the padding."""
        return int(self.cu_seqlens_q[-1])


def make_chunks(subject: Subject, case: ChunkCase, seed: int) -> Chunks:
    """The chunks of a case, before they are placed in memory.

    Poison: a query with NaN, and in every other request some last tokens whose K or V (in turn, V first in the first
    request, K in the next one) is not finite. Edges: finite.
    """
    bounds = [0, *accumulate(new for _, new in case.requests)]
    shape = (bounds[-1] + _PADDING, case.kv_heads, subject.head_size)
    q = scaled(gaussian(seed, "q", (shape[0], case.kv_heads * case.group, shape[2]), subject.dtype), case.scale)
    k, v = (torch.full(shape, torch.nan, dtype=subject.dtype) for _ in range(2))
    for request, (start, end) in enumerate(pairwise(bounds)):
        part = slice(start, end)
        size = (end - start, *shape[1:])
        key, value = key_and_value(seed, f"chunk {request}", size, subject.dtype, edges=case.values == "edges")
        k[part], v[part] = key if case.values == "edges" else scaled(key, case.scale), value
        if case.values == "poison" and request % 2 == 0:
            for i, token in enumerate(range(start + (end - start + 1) // 2, end)):
                (v, k)[(i + request // 2) % 2][token] = _BAD[i % len(_BAD)]
    if case.values == "poison":
        q[: bounds[-1]][:1, -1, 5] = torch.nan
    if case.values == "edges":
        edge_queries(q)
    q[bounds[-1] :] = torch.nan
    lengths = [prefix + new for prefix, new in case.requests]
    return Chunks(q, k, v, *(torch.tensor(x, dtype=torch.int32) for x in (bounds, lengths)))


def make_prefixes(subject: Subject, case: PrefixCase, seed: int) -> tuple[Tensor, Tensor]:
    """The cache with the prefixes of a case, and its block table."""
    prefixes = [prefix for prefix, _ in case.requests]
    table, cache = paged(prefixes, case.kv_heads, case.block_size, subject.layout, seed)
    for request, length in enumerate(prefixes):
        shape = (length, case.kv_heads, subject.head_size)
        key, value = key_and_value(seed, str(request), shape, subject.dtype, edges=case.values == "edges")
        if case.values != "edges":
            key = scaled(key, case.scale)
        cache_store(key, value, cache, slots_of(table, request, length, case.block_size), subject.layout)
    return table, cache


def make_partials(subject: Subject, case: ChunkCase, batch: Chunks, seed: int) -> Tensor:
    """A workspace, fp32, in which the splits that hold tokens of a prefix have synthetic partials and all else is NaN.

    Edges: some have outputs a little above 65504, as rounding may leave them, scores of millions, or a score far below
    all others.
    """
    heads, head = batch.q.shape[1:]
    made = torch.full(workspace_shape(batch.q.shape[0], heads, case.splits, head), torch.nan)
    random = gaussian(seed, "partials", made.shape, torch.float32)
    random[..., head] *= _LOG2_SCORES * case.scale**2
    random[..., head + 1] = torch.rand(made.shape[:-1], generator=generator(seed, "sums")) * 15 + 1
    if case.values == "edges":
        random[:, 1::4, :, :head] = _HUGE * (1 + 2.0**-11)
        random[:, 2::4, :, head] *= 1e6
        random[:, 3::4, :1, head] = -1e30
    random[..., :head] *= random[..., head + 1 :]
    for chunk in batch.requests:
        used = used_splits(chunk.prefix, case.splits)
        made[chunk.tokens, :, :used] = random[chunk.tokens, :, :used]
    return made


def used_splits(prefix: int, splits: int) -> int:
    """How many of the splits of a prefix hold tokens: the first ones."""
    return -(-prefix // tokens_per_split(prefix, splits)) if prefix else 0


def marked(partials: Tensor, batch: Chunks) -> Tensor:
    """A copy in which splits without tokens are zeros, -inf, 0, as the reference marks them."""
    made = torch.zeros_like(partials)
    made[..., -2] = -math.inf
    for chunk in batch.requests:
        used = used_splits(chunk.prefix, partials.shape[2])
        made[chunk.tokens, :, :used] = partials[chunk.tokens, :, :used]
    return made
