"""Synthetic keys with RoPE at any position, and what a quantized cache makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from octave_gen.centring import Rotary
from octave_gen.formats.octave.codec import dequantize, quantize
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.formats.octave.rotation import rotate_forward


@dataclass(frozen=True)
class Model:
    """One kv head: keys constant + N(0, 1), queries N(0, 1) with a constant of their own, both turned by RoPE."""

    rotary: Rotary
    constant: Tensor  # fp64 [head]

    @property
    def head(self) -> int:
        return len(self.constant)

    def keys(self, positions: Tensor, seed: int) -> Tensor:
        """fp32 [tokens, 1, head]."""
        return self._turned(self.constant, positions, seed).unsqueeze(1)

    def queries(self, positions: Tensor, seed: int) -> Tensor:
        """fp32 [tokens, head]; a third of K's constant, so that the constant part also reaches the scores."""
        return self._turned(self.constant / 3, positions, seed)

    def _turned(self, constant: Tensor, positions: Tensor, seed: int) -> Tensor:
        noise = torch.randn(len(positions), self.head, generator=torch.Generator().manual_seed(seed))
        angle = positions.double().unsqueeze(-1) * torch.tensor(self.rotary.inv_freq, dtype=torch.float64)
        turn = torch.polar(torch.ones_like(angle), angle)
        return self.rotary.turn(constant + noise.double(), turn).float()


@dataclass(frozen=True)
class Errors:
    """Of each token the squared error and energy of K, fp64 [tokens]; of each query the mean squared error of its
    scores and the KL divergence of its weights, fp64 [queries]."""

    k_error: Tensor
    k_energy: Tensor
    score: Tensor
    kl: Tensor

    @property
    def relative_k(self) -> float:
        return float((self.k_error.sum() / self.k_energy.sum()).sqrt())


def errors(
    model: Model, fmt: int, k_center: Tensor | None, start: int, tokens: int = 512, queries: int = 128
) -> Errors:
    """Of keys at positions start ... start + tokens - 1, for queries right behind them. k_center: [1, head] or None."""
    layout = SlotLayout.of(model.head, max(64, model.rotary.rotary_dims), fmt)
    key = model.keys(start + torch.arange(tokens), seed=start + 1)[:, 0]
    query = model.queries(start + tokens + torch.arange(queries), seed=start + 2).double()
    mu = torch.zeros(1, model.head) if k_center is None else k_center
    rotated, _ = dequantize(quantize(key - mu, key, layout), layout, torch.float64)
    exact = rotate_forward(key.double() - mu.double(), layout.k_block_size)
    error = rotated - exact
    scale = model.head**-0.5
    turned = rotate_forward(query, layout.k_block_size)
    off = turned @ error.T * scale
    p = torch.log_softmax(query @ key.double().T * scale, -1)
    q = torch.log_softmax(turned @ rotated.T * scale, -1)
    return Errors(
        error.square().sum(-1),
        key.double().square().sum(-1),
        (off - off.mean(-1, keepdim=True)).square().mean(-1),
        (p.exp() * (p - q)).sum(-1),
    )


def excess(worse: Tensor, than: Tensor) -> float:
    """The mean of worse - than in its standard errors: above 3 it is no accident."""
    difference = (worse - than).double()
    deviation = float(difference.std()) / math.sqrt(len(difference))
    return float(difference.mean()) / max(deviation, 1e-300)
