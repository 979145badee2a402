"""The vector to subtract from K, from sample keys: the part of them that does not change over tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from octave_gen.centring.rotary import Rotary
from octave_gen.errors import OctaveError

BLOCK_TOKENS = 64  # tokens whose mean counts as one observation, because neighbours resemble each other
MIN_BLOCKS = 8  # fewer say nothing of how far their means scatter


@dataclass(frozen=True)
class Center:
    """What calibration found for one layer: k_center, fp32 [kv_heads, head_size], and what it rests on."""

    k_center: Tensor
    rotary: Rotary
    max_position: int
    tokens: int

    @property
    def head_size(self) -> int:
        return self.k_center.shape[-1]


class Calibration:
    """Gathers sample keys of one layer, in as many parts as they come in. Sums are fp64, on the CPU.

    The estimate, for each dim without RoPE and each rotary pair:

    1. c = the mean over tokens of the key with its rotation undone.
    2. v = the variance of that mean, by the method of batch means: the variance of the means of 64 consecutive tokens,
       divided by their number. Text is correlated over tokens, so the tokens' own variance would promise too much.
    3. c is multiplied by max(0, 1 - v / |c|**2), the estimate of |c|**2 / (|c|**2 + v), which leaves the least
       expected energy behind (Wiener). A mean that is no larger than its error is dropped.
    4. A pair is multiplied by `Rotary.kept_phase`, which leaves least at the worst of positions 0 ... max_position.
    """

    def __init__(self, kv_heads: int, head_size: int, rotary: Rotary) -> None:
        """rotary: of the keys as they will be added; ``Rotary(())`` for a layer without RoPE."""
        if kv_heads < 1 or head_size < 1 or rotary.rotary_dims > head_size:
            raise OctaveError(f"{kv_heads} kv heads of {head_size} dims, {rotary.rotary_dims} of them rotary")
        self.rotary = rotary
        self.tokens = 0
        self._largest_position = 0
        self._blocks = 0
        self._block_sum = torch.zeros(kv_heads, head_size, dtype=torch.float64)
        self._block_squares = torch.zeros_like(self._block_sum)
        self._open = torch.zeros(0, kv_heads, head_size, dtype=torch.float64)

    def add(self, key: Tensor, positions: Tensor) -> None:
        """Adds keys after RoPE (and QK norm), as the cache would hold them: [tokens, kv_heads, head_size] of any float
        dtype; positions: integers [tokens]. OctaveError, with nothing added, for what does not fit or is not finite."""
        self._check(key, positions)
        if not len(positions):
            return
        plain = self.rotary.undo(key.detach().to("cpu", torch.float64), positions.detach().to("cpu"))
        tokens = torch.cat((self._open, plain))
        whole = len(tokens) // BLOCK_TOKENS
        means = tokens[: whole * BLOCK_TOKENS].reshape(whole, BLOCK_TOKENS, *tokens.shape[1:]).mean(1)
        self._block_sum += means.sum(0)
        self._block_squares += means.square().sum(0)
        self._blocks += whole
        self._open = tokens[whole * BLOCK_TOKENS :].clone()
        self.tokens += len(positions)
        self._largest_position = max(self._largest_position, int(positions.max()))

    def center(self, max_position: int | None = None) -> Center:
        """The result for keys at positions 0 ... max_position; the largest one added when None.

        OctaveError for fewer than 512 tokens, and for a max_position below one that was added.
        """
        if self._blocks < MIN_BLOCKS:
            needed = MIN_BLOCKS * BLOCK_TOKENS
            raise OctaveError(f"calibrated on {self.tokens} tokens", hint=f"at least {needed}; some thousands are good")
        last = self._largest_position if max_position is None else max_position
        if last < self._largest_position:
            raise OctaveError(
                f"max_position is {last}, and the sample has a key at {self._largest_position}",
                hint="give the largest position that the model will serve",
            )
        mean, variance = self.estimate()
        energy = self.rotary.energy(mean.square())
        kept = (1 - variance / energy.clamp(min=1e-300)).clamp(min=0.0)
        k_center = self.rotary.turn(mean * kept, self.rotary.kept_phase(last)).float()
        return Center(k_center, self.rotary, last, self.tokens)

    def estimate(self) -> tuple[Tensor, Tensor]:
        """Steps 1 and 2: the mean key before RoPE and the variance of it, fp64 [kv_heads, head_size] each.

        Both dims of a pair have the variance of the pair.
        """
        mean = (self._block_sum * BLOCK_TOKENS + self._open.sum(0)) / self.tokens
        of_blocks = self._block_sum / self._blocks
        scatter = (self._block_squares - self._blocks * of_blocks.square()).clamp(min=0.0)
        return mean, self.rotary.energy(scatter / (self._blocks * (self._blocks - 1)))

    def _check(self, key: Tensor, positions: Tensor) -> None:
        wanted = [len(positions) if positions.dim() == 1 else -1, *self._block_sum.shape]
        if list(key.shape) != wanted or not key.is_floating_point():
            kv_heads, head_size = self._block_sum.shape
            raise OctaveError(
                f"key is {key.dtype} {list(key.shape)}, positions are {list(positions.shape)}",
                hint=f"a float tensor [tokens, {kv_heads}, {head_size}], and a position for each token",
            )
        if positions.is_floating_point() or positions.dtype == torch.bool or bool((positions < 0).any()):
            raise OctaveError("positions are not integers from 0 on", hint="those that RoPE was given")
        finite = torch.isfinite(key).flatten(1).all(1)
        if not bool(finite.all()):
            token = int((~finite).nonzero()[0])
            raise OctaveError(f"the key of token {token} is not finite", hint="leave such tokens out")
