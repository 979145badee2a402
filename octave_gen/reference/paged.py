"""Reads a paged cache for the reference: which rows a query may see, checked before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.layout import SlotLayout


@dataclass(frozen=True)
class QueryRow:
    """One query token that sees something: its row in `query`, its request, and how many tokens it may see (>= 1)."""

    index: int
    request: int
    klen: int


def check_decode_inputs(
    query: Tensor, cache: Tensor, block_table: Tensor, q_to_req: Tensor, q_to_klen: Tensor, layout: SlotLayout
) -> None:
    """OctaveError unless the shapes fit each other and the layout."""
    problems = []
    if query.dim() != 3 or query.shape[-1] != layout.head_size:
        problems.append(f"query is {list(query.shape)}, expected [tokens, heads, {layout.head_size}]")
    if cache.dim() != 4 or cache.dtype != torch.uint8 or cache.shape[-1] != layout.slot_bytes:
        problems.append(
            f"cache is {cache.dtype} {list(cache.shape)}, expected uint8 [blocks, heads, rows, {layout.slot_bytes}]"
        )
    elif query.dim() == 3 and (cache.shape[1] == 0 or query.shape[1] % cache.shape[1]):
        problems.append(f"{query.shape[1]} query heads are no multiple of {cache.shape[1]} kv heads")
    if block_table.dim() != 2:
        problems.append(f"block_table is {list(block_table.shape)}, expected [requests, blocks]")
    for name, x in (("q_to_req", q_to_req), ("q_to_klen", q_to_klen)):
        if list(x.shape) != [query.shape[0]]:
            problems.append(f"{name} is {list(x.shape)}, expected [{query.shape[0]}]")
    if problems:
        raise OctaveError("decode: " + "; ".join(problems))


def visible_rows(q_to_req: Tensor, q_to_klen: Tensor, requests: int) -> Iterator[QueryRow]:
    """The query tokens that are no padding: request in [0, requests) and klen > 0."""
    for index, (request, klen) in enumerate(zip(q_to_req.tolist(), q_to_klen.tolist(), strict=True)):
        if 0 <= request < requests and klen > 0:
            yield QueryRow(index, request, klen)


def gather_slots(cache: Tensor, block_table: Tensor, row: QueryRow) -> Tensor:
    """The slots of tokens 0 .. klen-1 of a request: uint8 [klen, kv heads, slot].

    Token t is row t % block_size of block block_table[request, t // block_size]. Entries behind the last block that
    is needed are not read; OctaveError when one that is needed does not exist.
    """
    block_size = cache.shape[2]
    needed = -(-row.klen // block_size)
    if needed > block_table.shape[1]:
        raise OctaveError(
            f"query {row.index} sees {row.klen} tokens, the block table of request {row.request} ends at "
            f"{block_table.shape[1] * block_size}"
        )
    blocks = block_table[row.request, :needed].long()
    if int(blocks.min()) < 0 or int(blocks.max()) >= cache.shape[0]:
        raise OctaveError(
            f"the block table of request {row.request} names a block outside 0 .. {cache.shape[0] - 1} "
            f"within its first {needed} entries"
        )
    token = torch.arange(row.klen)
    return cache[blocks[token // block_size], :, token % block_size]
