"""What attention works on: a paged cache with the tokens of several requests; and the query tokens of a decode.

Slots that no query may see are POISON bytes (their scales are NaN) or STALE ones (large), and entries of the block
table behind a request's last block name no block; the longest request has none. Unless all values are Gaussian,
queries that are padding are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, groupby

import torch
from torch import Tensor

from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.reference.store import cache_store
from octave_gen.verify.cases import DecodeCase
from octave_gen.verify.inputs import POISON, STALE, gaussian, generator, scaled, signs
from octave_gen.verify.subject import Subject

_SPARE_BLOCKS = 2
_NO_BLOCKS = (-1, 2**31 - 1, -(2**31))
_DENORMAL = 2.0**-20
_HUGE = 65504.0


@dataclass(frozen=True)
class Batch:
    """Dense tensors of one decode call. rows: (request, tokens seen) of each query; query [rows, heads, head];
    group_starts: None, or int32 [groups]."""

    query: Tensor
    cache: Tensor
    block_table: Tensor
    rows: tuple[tuple[int, int], ...]
    k_signs: Tensor
    v_signs: Tensor
    group_starts: Tensor | None

    @property
    def q_to_req(self) -> Tensor:
        return torch.tensor([request for request, _ in self.rows], dtype=torch.int32)

    @property
    def q_to_klen(self) -> Tensor:
        return torch.tensor([seen for _, seen in self.rows], dtype=torch.int32)

    @property
    def padding(self) -> Tensor:
        """bool [rows]: queries that see nothing."""
        requests = self.block_table.shape[0]
        return torch.tensor([not (0 <= request < requests and seen > 0) for request, seen in self.rows])


def make_batch(subject: Subject, case: DecodeCase, seed: int) -> Batch:
    """The inputs of a case, before they are placed in memory."""
    rows = query_rows(case.lengths, subject.query_group, case.rows)
    table, cache = paged(case.lengths, case.kv_heads, case.block_size, subject.layout, seed)
    k_signs, v_signs = (signs(seed, role, subject.head_size, case.signs) for role in ("k_signs", "v_signs"))
    for request, length in enumerate(case.lengths):
        shape = (length, case.kv_heads, subject.head_size)
        key, value = key_and_value(seed, str(request), shape, subject.dtype, edges=case.values == "edges")
        if case.values != "edges":
            key = scaled(key, case.scale)
        slots = slots_of(table, request, length, case.block_size)
        cache_store(key, value, cache, slots, subject.layout, k_signs, v_signs)
        if case.values == "poison" and request % 2 == 0:
            seen = [tokens for row, tokens in rows if row == request and tokens > 0]
            hidden = slots[min(seen, default=0) :]
            cache[hidden // case.block_size, :, hidden % case.block_size] = POISON
    starts = group_starts(rows, subject.query_group) if case.rows == "ragged" else None
    batch = Batch(_queries(case, subject, seed, rows), cache, table, rows, k_signs, v_signs, starts)
    if case.values != "gaussian":
        batch.query[batch.padding] = torch.nan
    return batch


def query_rows(lengths: Sequence[int], query_group: int, rows: str) -> tuple[tuple[int, int], ...]:
    """(request, tokens seen) of each query token; see :class:`DecodeCase`. A request that is too short for all of its
    query tokens has padding first."""
    if rows == "grouped":
        return tuple((r, length - query_group + 1 + i) for r, length in enumerate(lengths) for i in range(query_group))
    if rows == "ragged":
        counts = cycle([query_group, 1, query_group + 1, max(1, query_group - 1)])
        requests = [(r, length, next(counts)) for r, length in enumerate(lengths)]
        attending = ((r, length - n + 1 + i) for r, length, n in requests for i in range(n))
        return (*attending, (-1, 5), (len(lengths), 3), (0, 0))
    # A group without padding first: what its last request leaves of the rows before shows.
    padding = cycle([None, (0, 0), (-1, 5), (len(lengths), 3), (0, -4)])
    found = []
    for request, length in enumerate(lengths):
        after = (request + 1) % len(lengths)
        shorter = length // 2 if request % 2 else length - 2
        found += [
            (request, length),
            (request, shorter),
            (after, lengths[after]),
            next(padding) or (after, lengths[after]),
        ]
    return (*found, (0, lengths[0]))


def group_starts(rows: Sequence[tuple[int, int]], query_group: int) -> Tensor:
    """int32 [groups]: groups of neighbours with the same request, and two empty ones behind the last query."""
    starts: list[int] = []
    first = 0
    for _, run in groupby(rows, key=lambda row: row[0]):
        count = len(list(run))
        starts += range(first, first + count, query_group)
        first += count
    return torch.tensor([*starts, first, first], dtype=torch.int32)


def paged(
    lengths: Sequence[int], kv_heads: int, block_size: int, layout: SlotLayout, seed: int
) -> tuple[Tensor, Tensor]:
    """The block table, int32 [requests, blocks], and a cache of POISON, odd rows STALE; blocks are in random order."""
    needed = [-(-length // block_size) for length in lengths]
    blocks = torch.randperm(sum(needed) + _SPARE_BLOCKS, generator=generator(seed, "blocks")).to(torch.int32)
    table = torch.zeros(len(needed), max(1, *needed), dtype=torch.int32)
    start = 0
    for request, count in enumerate(needed):
        table[request] = _NO_BLOCKS[request % len(_NO_BLOCKS)]
        table[request, :count] = blocks[start : start + count]
        start += count
    cache = torch.full((len(blocks), kv_heads, block_size, layout.slot_bytes), POISON, dtype=torch.uint8)
    cache[:, :, 1::2] = STALE
    return table, cache


def slots_of(table: Tensor, request: int, length: int, block_size: int) -> Tensor:
    """int64 [length]: where the first tokens of a request are stored."""
    token = torch.arange(length)
    return table[request, token // block_size].long() * block_size + token % block_size


def key_and_value(
    seed: int, role: str, shape: tuple[int, int, int], dtype: torch.dtype, *, edges: bool
) -> tuple[Tensor, Tensor]:
    """Key and value of ``shape`` [length, kv_heads, head] for the request whose number ends ``role``.

    Edges, by request: zero and denormal tokens; 65504 in K and V; 65504 in every other V; 65504 and
    -65504 in some odd K of the second half, so that scores grow late.
    """
    key, value = (gaussian(seed, f"{what} {role}", shape, dtype) for what in ("key", "value"))
    if edges:
        kind = int(role.split()[-1]) % 4
        if kind == 0:
            for x in (key, value):
                x[0::5] = 0.0
                x[1::5] *= _DENORMAL
        elif kind == 1:
            key.fill_(_HUGE)
            value.fill_(-_HUGE)
        elif kind == 2:
            value[::2] = value[::2].sign() * _HUGE
        else:
            odd = len(key) // 2 | 1
            key[odd::12], key[odd + 6 :: 12] = _HUGE, -_HUGE
    return key, value


def _queries(case: DecodeCase, subject: Subject, seed: int, rows: Sequence[tuple[int, int]]) -> Tensor:
    """[rows, heads, head]. Edges: `edge_queries`, NaN in the first row's first head, Inf in the last row's last one."""
    shape = (len(rows), case.kv_heads * subject.gqa_group, subject.head_size)
    query = scaled(gaussian(seed, "query", shape, subject.dtype), case.scale)
    if case.values == "edges":
        edge_queries(query)
        query[0, 0, 3] = torch.nan
        query[-1, -1, -1] = torch.inf
    return query


def edge_queries(query: Tensor) -> None:
    """Changes Gaussian queries [rows, heads, head] in place: heads in turn Gaussian, zero, denormal, 65504."""
    for row in range(len(query)):
        query[row, (1 + row) % 4 :: 4] = 0.0
        query[row, (2 + row) % 4 :: 4] *= _DENORMAL
        query[row, (3 + row) % 4 :: 4] = _HUGE
