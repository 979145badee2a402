"""Causal attention over a whole text, with or without a sliding window."""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.quality.attention import hidden_keys

QUERIES = 256
"""At a time: a sliding window of 512 then reads no more than 767 keys."""


def attend(query: Tensor, key: Tensor, value: Tensor, sm_scale: float, window: int | None) -> Tensor:
    """query [q_heads, tokens, head]; key, value [kv_heads, tokens, head] -> [q_heads, tokens, head], in their dtype.

    Query head i reads kv head i // (q_heads / kv_heads). window: how many tokens, its own included, a query sees.
    """
    kv_heads, tokens, head = key.shape
    grouped = query.reshape(kv_heads, -1, tokens, head)
    group = grouped.shape[1]
    out = torch.empty_like(grouped)
    for first in range(0, tokens, QUERIES):
        last = min(first + QUERIES, tokens)
        start = 0 if window is None else max(0, first - window + 1)
        hidden = hidden_keys(first, last, start, window)
        rows = grouped[:, :, first:last].reshape(kv_heads, -1, head)
        scores = rows @ key[:, start:last].transpose(1, 2) * sm_scale
        scores = scores.masked_fill_(hidden.repeat(group, 1), -torch.inf)
        seen = scores.softmax(-1) @ value[:, start:last]
        out[:, :, first:last] = seen.view(kv_heads, group, last - first, head)
    return out.view(query.shape)
