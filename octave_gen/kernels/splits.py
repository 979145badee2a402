"""KV splits and the workspace of decode: pure functions that callers, kernels and tests share."""

from __future__ import annotations

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


def workspace_shape(num_queries: int, q_heads: int, num_kv_splits: int, head_size: int) -> tuple[int, int, int, int]:
    """Shape of decode's fp32 workspace ``mid_o``; raises OctaveError for a split count outside 1–1024."""
    if not 1 <= num_kv_splits <= MAX_KV_SPLITS:
        raise wrong_request(f"num_kv_splits must be 1 to {MAX_KV_SPLITS}, not {num_kv_splits}", where="workspace_shape")
    return num_queries, q_heads, num_kv_splits, head_size + PARTIAL_EXTRA


def workspace_bytes(num_queries: int, q_heads: int, num_kv_splits: int, head_size: int) -> int:
    """Bytes of ``mid_o``."""
    queries, heads, splits, row = workspace_shape(num_queries, q_heads, num_kv_splits, head_size)
    return 4 * queries * heads * splits * row
