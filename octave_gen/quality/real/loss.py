"""Losses of tokens from the last hidden states, without the logits of all tokens and words at once."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 768
WORDS = 4096
"""Of the vocabulary at a time: 12 MiB of fp32 logits."""


def token_losses(hidden: Tensor, words: Tensor, targets: Tensor) -> Tensor:
    """-log p(target) in nats: hidden fp32 [tokens, dims], words fp32 [vocabulary, dims], int64 [tokens] -> [tokens]."""
    losses = []
    for rows, wanted in zip(torch.split(hidden, ROWS), torch.split(targets, ROWS), strict=True):
        buffer = torch.empty(len(rows), WORDS)
        totals = []
        for part in torch.split(words, WORDS):
            logits = torch.mm(rows, part.T, out=buffer[:, : len(part)] if len(part) == WORDS else None)
            largest = logits.amax(-1, keepdim=True)
            totals.append(logits.sub_(largest).exp_().sum(-1).log_().add_(largest[:, 0]))
        losses.append(torch.stack(totals).logsumexp(0) - (rows * words[wanted]).sum(-1))
    return torch.cat(losses)
