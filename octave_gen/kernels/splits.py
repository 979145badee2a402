"""KV splits, query groups and the workspace of decode: pure functions that callers, kernels and tests share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from octave_gen.errors import wrong_request

MAX_KV_SPLITS = 1024
SPLIT_GRANULE = 16
"""Tokens: a split starts at a multiple of this, so that no 16-token tile is shared by two splits."""
PARTIAL_EXTRA = 2
"""fp32 values that a partial carries behind its head_size outputs: the running maximum (log2 units) and the sum."""


def tokens_per_split(klen: int, num_kv_splits: int) -> int:
    """Tokens of one split of a context of ``klen`` tokens; splits past the end are empty."""
    share = -(-klen // num_kv_splits)
    return -(-share // SPLIT_GRANULE) * SPLIT_GRANULE


def query_groups(queries: int, query_group: int, group_starts: Sequence[int] | None = None) -> list[range]:
    """The query tokens of each group. Raises OctaveError for starts that fall, or that leave a query in no group."""
    if group_starts is None:
        return [range(start, min(start + query_group, queries)) for start in range(0, queries, query_group)]
    bounds = [*group_starts, queries]
    steps = [end - start for start, end in pairwise(bounds)]
    if (queries and bounds[0] != 0) or any(not 0 <= step <= query_group for step in steps):
        raise wrong_request(
            f"group_starts is {list(group_starts)} for {queries} queries",
            where="octave.decode",
            hint=f"it starts with 0, never falls, and no group holds more than query_group, {query_group}, queries",
        )
    return [range(start, end) for start, end in pairwise(bounds)]


def split_widths(
    q_to_req: Sequence[int], q_to_klen: Sequence[int], requests: int, num_kv_splits: int, groups: Iterable[range]
) -> list[int]:
    """Tokens of a KV split for each query, as the kernels split: consecutive queries of one request in one group share
    their splits, so the longest of them decides. 0 for padding."""
    widths: list[int] = []
    for group in groups:
        attending = [
            (q_to_req[q] if 0 <= q_to_req[q] < requests and q_to_klen[q] > 0 else None, q_to_klen[q]) for q in group
        ]
        for request, run in groupby(attending, key=lambda query: query[0]):
            lengths = [klen for _, klen in run]
            width = 0 if request is None else tokens_per_split(max(lengths), num_kv_splits)
            widths += [width] * len(lengths)
    return widths


def workspace_shape(num_queries: int, q_heads: int, num_kv_splits: int, head_size: int) -> tuple[int, int, int, int]:
    """Shape of decode's fp32 workspace ``mid_o``; raises OctaveError for a split count outside 1–1024."""
    if not 1 <= num_kv_splits <= MAX_KV_SPLITS:
        raise wrong_request(f"num_kv_splits must be 1 to {MAX_KV_SPLITS}, not {num_kv_splits}", where="workspace_shape")
    return num_queries, q_heads, num_kv_splits, head_size + PARTIAL_EXTRA


def workspace_bytes(num_queries: int, q_heads: int, num_kv_splits: int, head_size: int) -> int:
    """Bytes of ``mid_o``."""
    queries, heads, splits, row = workspace_shape(num_queries, q_heads, num_kv_splits, head_size)
    return 4 * queries * heads * splits * row
