"""Attention over decoded K and V against attention over the exact ones.

Products are in fp32; logits, softmax and sums over keys in fp64. The logits over decoded keys are s + d, s = q.k and
d = q.(k_hat - k). So KL(p || p_hat) = log(sum exp(s + d)) - log(sum exp(s)) - sum(p d): no error is lost beside a large
logit, and a codec that changes nothing gives exact zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_CHUNK = 1 << 17
"""Logits at a time: 1 MiB in fp64."""


@dataclass
class Loss:
    """Sums over query rows. error: of |o - o_hat|**2; kl: of KL(p || p_hat) in nats; found: rows with a target whose
    largest weight is at it."""

    error: float = 0.0
    kl: float = 0.0
    found: int = 0


@dataclass(frozen=True)
class Losses:
    """What all codecs are measured against, and the loss of each. energy: sum of |o|**2; rows: query rows;
    sought: rows with a target; exact: the loss of K and V themselves, whose ``found`` alone is not zero."""

    energy: float
    rows: int
    sought: int
    exact: Loss
    each: tuple[Loss, ...]


def compare(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decoded: Sequence[tuple[Tensor, Tensor]],
    sm_scale: float,
    window: int | None = None,
    target: Tensor | None = None,
) -> Losses:
    """Causal attention of one kv head.

    query: [tokens, group, head]; key, value and both of each pair of decoded: [tokens, head]; all fp32. window, target:
    as of a `Sample`.
    """
    tokens, group, head = query.shape
    window = None if window is None else min(window, tokens)
    errors = [k_hat - key for k_hat, _ in decoded]
    exact, losses = Loss(), [Loss() for _ in decoded]
    energy, sought = 0.0, 0
    for first, last in _chunks(tokens, group):
        start = 0 if window is None else max(0, first - window + 1)
        rows = query[first:last].reshape(-1, head) * sm_scale
        hidden = hidden_keys(first, last, start, window).repeat_interleave(group, dim=0)
        wanted = None
        if target is not None:
            wanted = target[first:last].repeat_interleave(group) - start
            sought += int((wanted >= 0).sum())
        logits = (rows @ key[start:last].T).double().masked_fill_(hidden, -torch.inf)
        exact.found += _found(logits, wanted)
        top, weights, total, out = _attend(logits, value[start:last])
        energy += _energy(out)
        for loss, error, (_, v_hat) in zip(losses, errors, decoded, strict=True):
            shift = rows @ error[start:last].T
            moved = logits + shift
            loss.found += _found(moved, wanted)
            moved_top, _, moved_total, moved_out = _attend(moved, v_hat[start:last])
            mean_shift = (weights * shift).sum(-1) / total
            loss.kl += float(((moved_total / total).log() + (moved_top - top) - mean_shift).clamp(min=0).sum())
            loss.error += _energy(moved_out - out)
    return Losses(energy, tokens * group, sought, exact, tuple(losses))


def _attend(logits: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The largest logit of each row, weights over that of the largest, their sum, the output."""
    top = logits.amax(-1)
    weights = (logits - top.unsqueeze(-1)).exp_()
    total = weights.sum(-1)
    return top, weights, total, (weights.float() @ value).double() / total.unsqueeze(-1)


def _chunks(tokens: int, group: int) -> Iterator[tuple[int, int]]:
    """Runs of query tokens of about ``_CHUNK`` logits."""
    step = max(1, _CHUNK // (tokens * group))
    for first in range(0, tokens, step):
        yield first, min(first + step, tokens)


def hidden_keys(first: int, last: int, start: int, window: int | None) -> Tensor:
    """Which keys from ``start`` to ``last`` the query tokens do not see: bool [last - first, last - start]."""
    ahead = torch.arange(start, last) - torch.arange(first, last).unsqueeze(-1)
    hidden = ahead > 0
    return hidden if window is None else hidden | (ahead <= -window)


def _found(logits: Tensor, wanted: Tensor | None) -> int:
    return 0 if wanted is None else int((logits.argmax(-1) == wanted).sum())


def _energy(x: Tensor) -> float:
    return float(x.double().square().sum())
