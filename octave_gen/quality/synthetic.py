"""Synthetic samples: what is hard about the K of real models, one trait at a time.

N is standard normal noise, new for every token and dim; all values are rounded to fp16. One kv head serves ``group``
query heads, and sm_scale is head_size ** -0.5. The rotary dims are the first ones; RoPE turns dims i and i + rotary/2
of token t by the angle t * ROPE_BASE ** (-2 i / rotary).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import torch
from torch import Tensor

from octave_gen.errors import did_you_mean, wrong_request
from octave_gen.quality.sample import DataSet, Sample

ROPE_BASE: Final = 1e6


@dataclass(frozen=True)
class Shape:
    """Of a sample. OctaveError for rotary_dims that no head has."""

    head_size: int = 256
    rotary_dims: int = 64
    group: int = 6
    tokens: int = 256

    def __post_init__(self) -> None:
        if self.rotary_dims % 2 or not 2 <= self.rotary_dims <= self.head_size:
            problem = f"a head of {self.head_size} dims has no {self.rotary_dims} rotary dims"
            raise wrong_request(problem, hint="rotary dims are even, and no more than the head size")


@dataclass(frozen=True)
class Generator:
    """mimics: what of a real cache it stands for; formula: its q, k and v. make: of a source of randomness and a shape,
    the query [tokens, group, head], key and value [tokens, head], and target int64 [tokens] or None, as of a Sample."""

    name: str
    mimics: str
    formula: str
    make: Callable[[torch.Generator, Shape], tuple[Tensor, Tensor, Tensor, Tensor | None]]

    def sample(self, seed: int, shape: Shape) -> Sample:
        """The sample of that seed: the same on every call."""
        query, key, value, target = self.make(torch.Generator().manual_seed(seed), shape)
        return Sample(
            f"seed {seed}",
            query.to(torch.float16),
            key.unsqueeze(1).to(torch.float16),
            value.unsqueeze(1).to(torch.float16),
            sm_scale=shape.head_size**-0.5,
            target=target,
        )

    def data_set(self, seeds: int, shape: Shape) -> DataSet:
        """The samples of seeds 0 to ``seeds`` - 1."""
        return DataSet(self.name, (self.mimics, self.formula), [self.sample(seed, shape) for seed in range(seeds)])


def _normal(source: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=source)


def _plain(source: torch.Generator, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of N."""
    query = _normal(source, shape.tokens, shape.group, shape.head_size)
    return query, _normal(source, shape.tokens, shape.head_size), _normal(source, shape.tokens, shape.head_size)


def rope(x: Tensor, rotary_dims: int) -> Tensor:
    """x [tokens, ..., head] with its first rotary_dims turned by the token's position, in fp64; fp32."""
    half = rotary_dims // 2
    speed = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(x.shape[0], dtype=torch.float64).reshape(-1, *[1] * (x.dim() - 1)) * speed
    low, high, rest = (
        x.double()[..., dims] for dims in (slice(half), slice(half, rotary_dims), slice(rotary_dims, None))
    )
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([low * cos - high * sin, low * sin + high * cos, rest], dim=-1).float()


def _isotropic(source: torch.Generator, shape: Shape) -> tuple[Tensor, Tensor, Tensor, None]:
    return (*_plain(source, shape), None)


def _heavy_tailed(source: torch.Generator, shape: Shape) -> tuple[Tensor, Tensor, Tensor, None]:
    query, key, value = _plain(source, shape)

    def scales() -> Tensor:
        made = _normal(source, shape.head_size).exp()
        return made / made.square().mean().sqrt()

    return query, key * scales(), value * scales(), None


def _rotary_dominated(source: torch.Generator, shape: Shape) -> tuple[Tensor, Tensor, Tensor, None]:
    query, key, value = _plain(source, shape)
    scale = torch.full((shape.head_size,), 0.25)
    scale[: shape.rotary_dims] = 1.0
    mean = torch.zeros(shape.head_size)
    mean[: shape.rotary_dims] = _normal(source, shape.rotary_dims)
    query, key = query * scale + mean, key * scale + mean
    return rope(query, shape.rotary_dims), rope(key, shape.rotary_dims), value, None


def _constant_pairs(source: torch.Generator, shape: Shape) -> tuple[Tensor, Tensor, Tensor, None]:
    query, key, value = _plain(source, shape)
    half = shape.rotary_dims // 2
    slow = torch.arange(half - math.ceil(half / 4), half)
    dims = torch.cat([slow, slow + half])
    mean = torch.zeros(shape.head_size)
    mean[dims] = _normal(source, len(dims))
    mean *= math.sqrt(shape.head_size) / mean.norm()
    return rope(query, shape.rotary_dims), rope(key + mean, shape.rotary_dims), value, None


def _attention_sink(source: torch.Generator, shape: Shape) -> tuple[Tensor, Tensor, Tensor, None]:
    query, key, value = _plain(source, shape)
    direction = _normal(source, shape.head_size)
    direction *= math.sqrt(shape.head_size) / direction.norm()
    # the logit of the sink is log(tokens) above the others', whose mean is then as far below 0
    strength = math.sqrt(math.log(shape.tokens) / math.sqrt(shape.head_size))
    query = query + strength * direction
    key[0] = strength * direction + 0.1 * key[0]
    value[0] *= 0.02
    return query, key, value, None


NEEDLE_LIKENESS: Final = 0.99
NEEDLE_GAIN: Final = 4.0
DECOYS: Final = 3


def _needle(source: torch.Generator, shape: Shape) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    query, key, value = _plain(source, shape)
    first = shape.tokens // 2
    needles = shape.tokens // 16
    places = torch.randperm(first, generator=source)[: needles * (1 + DECOYS)].reshape(1 + DECOYS, needles)
    found = key[places[0]]
    for decoy in places[1:]:
        other = _normal(source, needles, shape.head_size)
        other -= (other * found).sum(-1, keepdim=True) / (found * found).sum(-1, keepdim=True) * found
        key[decoy] = NEEDLE_LIKENESS * found + math.sqrt(1 - NEEDLE_LIKENESS**2) * other
    target = torch.full((shape.tokens,), -1)
    target[first:] = places[0][torch.arange(shape.tokens - first) % needles]
    query[first:] = NEEDLE_GAIN * key[target[first:]].unsqueeze(1) + query[first:]
    return query, key, value, target


GENERATORS: Final = {
    generator.name: generator
    for generator in (
        Generator(
            "isotropic",
            "no structure at all, what rate and distortion are stated for",
            "q, k, v = N",
            _isotropic,
        ),
        Generator(
            "heavy_tailed",
            "channels of very different size in K and V, the same for all tokens",
            "q = N, k = c N, v = c' N, with c, c' = exp(N) for each dim, at an rms of 1",
            _heavy_tailed,
        ),
        Generator(
            "rotary_dominated",
            "heads that attend by position: most of the energy of Q and K is in the rotary dims",
            "q, k = RoPE(N + m) in the rotary dims with one m = N for all tokens, N / 4 in the others, v = N",
            _rotary_dominated,
        ),
        Generator(
            "constant_pairs",
            "slow rotary pairs that are all but constant over the tokens, with half of K's energy",
            "q = RoPE(N), k = RoPE(N + m), m = c N for all tokens in the slowest quarter of pairs and 0 elsewhere, "
            "|m|^2 = head size, v = N",
            _constant_pairs,
        ),
        Generator(
            "attention_sink",
            "a first token that takes about half of all attention and says nothing",
            "q = N + a u, k = N, v = N, but k_0 = a u + N / 10 and v_0 = N / 50; |u|^2 = head size, "
            "a^2 sqrt(head size) = log(tokens)",
            _attention_sink,
        ),
        Generator(
            "needle",
            "queries that look for one key among decoys much like it",
            f"k, v = N, but {DECOYS} decoys for each needle k_n, {NEEDLE_LIKENESS} k_n + sqrt(1 - {NEEDLE_LIKENESS}^2) "
            f"N', N' orthogonal to k_n; q = N in the first half, {NEEDLE_GAIN:.0f} k_n + N in the second",
            _needle,
        ),
    )
}


def chosen(names: Sequence[str]) -> list[Generator]:
    """The generators of these names or globs, in the order of ``GENERATORS``; all for none. OctaveError for a name that
    fits none."""
    known = tuple(GENERATORS)
    for name in names:
        if not any(fnmatchcase(one, name) for one in known):
            raise wrong_request(
                f"no synthetic data are called {name!r}{did_you_mean(name, known)}", hint=f"known: {', '.join(known)}"
            )
    return [GENERATORS[one] for one in known if not names or any(fnmatchcase(one, name) for name in names)]
