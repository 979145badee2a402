"""Rotary position embedding as calibration needs it: undone on sample keys, and what of a constant it leaves constant.

A rotary pair of dims (a, b) is the complex number z = a + ib; the embedding of position p multiplies pair j by
exp(i * inv_freq[j] * p). All in fp64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import torch
from torch import Tensor

from octave_gen.errors import OctaveError

PairLayout = Literal["half", "interleaved"]
PAIR_LAYOUTS: Final[tuple[str, ...]] = get_args(PairLayout)


@dataclass(frozen=True)
class Rotary:
    """Which dims the embedding turns, and how fast: the first 2 * len(inv_freq) dims of a head.

    Args:
        inv_freq: radians per position of each pair, 0 to pi; empty for a head without RoPE.
        layout: "half" pairs dims i and i + len(inv_freq) (Hugging Face, GPT-NeoX); "interleaved" 2i and 2i + 1 (GPT-J).
    """

    inv_freq: tuple[float, ...]
    layout: PairLayout = "half"

    def __post_init__(self) -> None:
        if self.layout not in PAIR_LAYOUTS:
            raise OctaveError(f"no rotary layout {self.layout!r}", hint=f"one of {', '.join(PAIR_LAYOUTS)}")
        wrong = [x for x in self.inv_freq if not 0.0 <= x <= math.pi]
        if wrong:
            raise OctaveError(f"inv_freq has {wrong[0]}", hint="radians per position, each from 0 to pi")

    @classmethod
    def of_base(cls, rotary_dims: int, base: float, layout: PairLayout = "half") -> Rotary:
        """The usual frequencies: pair j turns base ** (-2j / rotary_dims) radians per position."""
        if rotary_dims < 0 or rotary_dims % 2:
            raise OctaveError(f"rotary_dims is {rotary_dims}", hint="an even number: dims are turned in pairs")
        if not (math.isfinite(base) and base >= 1):
            raise OctaveError(f"the rotary base is {base}", hint="the model's rope_theta, such as 10000.0")
        return cls(tuple(base ** (-2 * j / rotary_dims) for j in range(rotary_dims // 2)), layout)

    @property
    def rotary_dims(self) -> int:
        return 2 * len(self.inv_freq)

    def undo(self, key: Tensor, positions: Tensor) -> Tensor:
        """Keys as they were before the embedding: fp64 [tokens, heads, head] and int64 [tokens] -> the same shape."""
        angle = positions.double().unsqueeze(-1) * torch.tensor(self.inv_freq, dtype=torch.float64)
        return self.turn(key, torch.polar(torch.ones_like(angle), -angle).unsqueeze(1))

    def turn(self, x: Tensor, factor: Tensor) -> Tensor:
        """Pair j of x times factor[..., j]: fp64 [..., head], complex128 broadcasting to [..., pairs] -> [..., head].

        Dims that the embedding leaves alone come back as they are.
        """
        a, b = self._halves(x)
        z = torch.complex(a, b) * factor
        return self._joined(z.real, z.imag, x)

    def energy(self, squares: Tensor) -> Tensor:
        """Sums what belongs together: fp64 [..., head] -> [..., head], both dims of a pair get their sum."""
        a, b = self._halves(squares)
        return self._joined(a + b, a + b, squares)

    def kept_phase(self, max_position: int) -> Tensor:
        """What to multiply a pair's constant with before it is subtracted: complex128 [pairs].

        At position p a pair has its constant c turned to c exp(i t p), and c |exp(i t p) - w| of it is left when c w is
        subtracted. Over p = 0 ... max_position, exp(i t p) is an arc of half angle x = t max_position / 2. The w that
        leaves least at the worst position is the middle of the smallest circle around that arc: cos(x) exp(ix), which
        leaves sin(x) at the ends; from half a circle on, x >= pi / 2, it is 0. So no position is worse off, ever. The
        mean of the arc, sin(x) / x long, would leave a little less on average, but up to 1.26 times the whole constant
        at the first position and the last.
        """
        x = torch.tensor(self.inv_freq, dtype=torch.float64) * max_position / 2
        return torch.where(x < math.pi / 2, torch.polar(torch.cos(x).clamp(min=0.0), x), 0.0)

    def _halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the second dim of each pair: [..., head] -> two [..., pairs]."""
        turned = x[..., : self.rotary_dims]
        if self.layout == "interleaved":
            return turned[..., 0::2], turned[..., 1::2]
        return turned[..., : len(self.inv_freq)], turned[..., len(self.inv_freq) :]

    def _joined(self, a: Tensor, b: Tensor, x: Tensor) -> Tensor:
        """Undoes `_halves`; the dims behind the pairs are those of x."""
        turned = torch.stack((a, b), -1).flatten(-2) if self.layout == "interleaved" else torch.cat((a, b), -1)
        return torch.cat((turned, x[..., self.rotary_dims :]), dim=-1)
