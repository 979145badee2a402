"""What each kind of kernel is counted on: launches at two lengths, and the tensors they work on.

A length is a number of units of work: tokens of context for decode and prefill's prefix, slots for store, vectors for
rotate, KV splits for reduce, tokens of a chunk for prefill's chunk. Everything else of a launch is one: one request,
one kv head, one query group, for decode and prefill one KV split. Prefill's rows are whole row tiles, of one head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import lcm

import torch
from torch import Tensor

from octave_gen.formats.octave.rotation import sign_tensor
from octave_gen.kernels.splits import PARTIAL_EXTRA, SPLIT_GRANULE, workspace_shape
from octave_gen.reference.store import cache_store
from octave_gen.runtime import launch
from octave_gen.runtime.launch import Launch
from octave_gen.verify.subject import Subject

BLOCK_SIZE = 16
QUERY_VECTORS = 128
"""Of one head: what a unit of prefill's work is counted for."""
CHUNK_TOKENS = 256
STORE_SLOTS = 16
"""Slots of the shortest store launch: a whole workgroup of any chip."""
SEED = 20
"""Of the random vectors; what a kernel executes does not depend on them, unless it skips work for a whole wave."""


@dataclass(frozen=True)
class Workload:
    """One launch, its tensors, and the units of work in it over all of its rows."""

    launch: Launch
    tensors: Mapping[str, Tensor]
    work: int


@dataclass(frozen=True)
class Method:
    """How the kernels of one kind are counted.

    lengths: of the shorter and the longer launch; least_bytes: what one unit of work must move between HBM and the
    chip, whatever the kernel; workload: the launch of a length.
    """

    lengths: tuple[int, int]
    least_bytes: Callable[[Subject], int]
    workload: Callable[[Subject, int], Workload]


def _random(subject: Subject, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(SEED)).to(subject.dtype)


def _cache(subject: Subject, tokens: int) -> Tensor:
    """An empty cache of one kv head: uint8 [blocks, 1, block size, slot]."""
    return torch.zeros(-(-tokens // BLOCK_SIZE), 1, BLOCK_SIZE, subject.layout.slot_bytes, dtype=torch.uint8)


def _vector_bytes(subject: Subject) -> int:
    return subject.head_size * subject.dtype.itemsize


def _center(subject: Subject) -> Tensor:
    return _random(subject, 1, subject.head_size)


def _store(subject: Subject, tokens: int, **center: Tensor) -> Workload:
    # Bank conflicts depend on the vectors, so a longer launch repeats those of the shortest.
    key = _random(subject, STORE_SLOTS, 1, subject.head_size).repeat(tokens // STORE_SLOTS, 1, 1)
    tensors = {
        "key": key,
        "value": key.flip(0),
        "cache": _cache(subject, tokens),
        "slot_mapping": torch.arange(tokens),
        "k_signs": sign_tensor(subject.head_size),
        "v_signs": sign_tensor(subject.head_size),
        **center,
    }
    return Workload(launch.store_launch(subject.variant, **tensors), tensors, tokens)


def _rotate(subject: Subject, tokens: int, **center: Tensor) -> Workload:
    """V's rotation, forward: the whole head as one block, which takes the most steps."""
    x = _random(subject, tokens, 1, subject.head_size)
    tensors = {"x": x, "signs": sign_tensor(subject.head_size), **center}
    made = launch.rotate_launch(subject.variant, **tensors, k_layout=False, inverse=False)
    return Workload(made, tensors, tokens)


def _decode(subject: Subject, tokens: int) -> Workload:
    """The last query_group tokens of a context of ``tokens``: each sees one token more than the one before it."""
    queries = subject.query_group
    key = _random(subject, tokens, 1, subject.head_size)
    cache = _cache(subject, tokens)
    cache_store(key, key.flip(0), cache, torch.arange(tokens), subject.layout)
    tensors = {
        "query": _random(subject, queries, subject.gqa_group, subject.head_size),
        "cache": cache,
        "block_table": torch.arange(cache.shape[0], dtype=torch.int32).unsqueeze(0),
        "q_to_req": torch.zeros(queries, dtype=torch.int32),
        "q_to_klen": torch.arange(tokens - queries + 1, tokens + 1, dtype=torch.int32),
        "mid_o": torch.zeros(workspace_shape(queries, subject.gqa_group, 1, subject.head_size)),
        "k_signs": sign_tensor(subject.head_size),
    }
    scale = subject.head_size**-0.5
    made = launch.decode_launch(subject.variant, **tensors, sm_scale=scale, num_kv_splits=1)
    return Workload(made, tensors, tokens)


def _reduce(subject: Subject, splits: int) -> Workload:
    partials = _random(subject, *workspace_shape(1, 1, splits, subject.head_size)).float()
    partials[..., subject.head_size + 1] = 1.0  # the sums: none of the splits is empty
    tensors = {
        "mid_o": partials,
        "out": torch.zeros(1, 1, subject.head_size, dtype=subject.dtype),
        "v_signs": sign_tensor(subject.head_size),
    }
    made = launch.reduce_launch(subject.variant, **tensors, num_kv_splits=splits)
    return Workload(made, tensors, splits)


def _rows_of_tile(subject: Subject) -> int:
    """Query rows of a workgroup."""
    return subject.variant.geometry.grid[0].per_workgroup


def _prefill_prefix(subject: Subject, tokens: int) -> Workload:
    """A chunk whose rows are whole row tiles and whole units of 128."""
    rows = lcm(_rows_of_tile(subject), QUERY_VECTORS)
    cache = _cache(subject, tokens)
    key = _random(subject, tokens, 1, subject.head_size)
    cache_store(key, key.flip(0), cache, torch.arange(tokens), subject.layout)
    tensors = {
        "q": _random(subject, rows, 1, subject.head_size),
        "cache": cache,
        "block_table": torch.arange(cache.shape[0], dtype=torch.int32).unsqueeze(0),
        "cu_seqlens_q": torch.tensor([0, rows], dtype=torch.int32),
        "seq_lens": torch.tensor([tokens + rows], dtype=torch.int32),
        "partials": torch.zeros(workspace_shape(rows, 1, 1, subject.head_size)),
    }
    scale = subject.head_size**-0.5
    made = launch.prefill_prefix_launch(subject.variant, **tensors, max_query_len=rows, sm_scale=scale, num_kv_splits=1)
    return Workload(made, tensors, tokens * rows // QUERY_VECTORS)


def _prefill_chunk(subject: Subject, tokens: int) -> Workload:
    """Requests with chunks of ``tokens``, as many tokens in all whatever the length: the same row tiles, each with its
    tile on the diagonal, so that the difference of two lengths is what rows do with tokens that all of them see."""
    shape = (CHUNK_TOKENS, 1, subject.head_size)
    requests = CHUNK_TOKENS // tokens
    q = _random(subject, *shape)
    tensors = {
        "q": q,
        "k": q.flip(0),
        "v": q.flip(1),
        "out": torch.zeros_like(q),
        "partials": torch.zeros(workspace_shape(CHUNK_TOKENS, 1, 1, subject.head_size)),
        "cu_seqlens_q": torch.arange(0, CHUNK_TOKENS + 1, tokens, dtype=torch.int32),
        "seq_lens": torch.full((requests,), tokens, dtype=torch.int32),
    }
    scale = subject.head_size**-0.5
    made = launch.prefill_chunk_launch(
        subject.variant, **tensors, max_query_len=tokens, sm_scale=scale, num_kv_splits=1
    )
    # row and token pairs: CHUNK_TOKENS * (tokens + 1) / 2
    return Workload(made, tensors, CHUNK_TOKENS * tokens // (2 * QUERY_VECTORS))


def merge(subject: Subject, splits: int) -> Workload:
    """prefill_chunk on a row tile whose prefix has ``splits`` splits of a tile each: its work is merging them."""
    rows = _rows_of_tile(subject)
    q = _random(subject, rows, 1, subject.head_size)
    partials = _random(subject, *workspace_shape(rows, 1, splits, subject.head_size)).float()
    partials[..., subject.head_size + 1] = 1.0
    tensors = {
        "q": q,
        "k": q.flip(0),
        "v": q.flip(1),
        "out": torch.zeros_like(q),
        "partials": partials,
        "cu_seqlens_q": torch.tensor([0, rows], dtype=torch.int32),
        "seq_lens": torch.tensor([rows + SPLIT_GRANULE * splits], dtype=torch.int32),
    }
    scale = subject.head_size**-0.5
    made = launch.prefill_chunk_launch(
        subject.variant, **tensors, max_query_len=rows, sm_scale=scale, num_kv_splits=splits
    )
    return Workload(made, tensors, splits)


METHODS: dict[str, Method] = {
    # Whole workgroups; K and V are read, a slot is written.
    "store": Method(
        (STORE_SLOTS, 2 * STORE_SLOTS), lambda subject: 2 * _vector_bytes(subject) + subject.layout.slot_bytes, _store
    ),
    # Whole workgroups of four waves; a vector is read and written.
    "rotate": Method((8, 16), lambda subject: 2 * _vector_bytes(subject), _rotate),
    # Whole tiles of 48 and of 64 tokens; a slot is read.
    "decode": Method((192, 384), lambda subject: subject.layout.slot_bytes, _decode),
    # Whole passes of a workgroup over the splits' maxima; a partial is read.
    "reduce": Method((512, 1024), lambda subject: 4 * (subject.head_size + PARTIAL_EXTRA), _reduce),
    # Whole tiles of up to 64 tokens; a slot is read, for all rows of its kv head.
    "prefill_prefix": Method((192, 384), lambda subject: subject.layout.slot_bytes, _prefill_prefix),
    # Whole row tiles of up to 128 rows; K and V of a token are read.
    "prefill_chunk": Method((128, 256), lambda subject: 2 * _vector_bytes(subject), _prefill_chunk),
}
"""By the name of the kind."""

CENTERED: dict[str, Callable[[Subject, int], Workload]] = {
    "store": lambda subject, tokens: _store(subject, tokens, k_center=_center(subject)),
    "rotate": lambda subject, tokens: _rotate(subject, tokens, center=_center(subject)),
}
"""The launches of the kinds that can subtract a center, with one; by the name of the kind."""
