"""Samples of attention: the queries, keys and values of one layer, as the model's attention sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from octave_gen.errors import wrong_request

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class Sample:
    """One layer of a model on one text, or one seed of a synthetic generator; causal attention over all its tokens.

    query: [tokens, q_heads, head]; key, value: [tokens, kv_heads, head]; fp16, bf16 or fp32, after RoPE and QK-norm.
    Query head i reads kv head i // (q_heads / kv_heads). window: how many tokens, its own included, a query sees; None:
    all up to its own. layer: of the model, by which centres are found. target: int64 [tokens], the key that a query
    looks for, or -1 for a query that looks for none.

    OctaveError, where=name, for shapes that do not fit and for values that no error can be measured on.
    """

    name: str
    query: Tensor
    key: Tensor
    value: Tensor
    sm_scale: float
    window: int | None = None
    layer: int | None = None
    target: Tensor | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            hint = "q is [tokens, q heads, head size], k and v are [tokens, kv heads, head size]; q heads a multiple"
            raise wrong_request(problem, where=self.name, hint=f"{hint} of kv heads; fp16, bf16 or fp32, all finite")

    @property
    def head_size(self) -> int:
        return int(self.key.shape[-1])

    @property
    def kv_heads(self) -> int:
        return int(self.key.shape[1])

    @property
    def tokens(self) -> int:
        return int(self.key.shape[0])

    def _problem(self) -> str | None:
        named = {"q": self.query, "k": self.key, "v": self.value}
        for name, tensor in named.items():
            if tensor.dtype not in DTYPES:
                return f"{name} is {str(tensor.dtype).removeprefix('torch.')}"
            if tensor.dim() != 3 or 0 in tensor.shape:
                return f"{name} has the shape {list(tensor.shape)}"
        if self.value.shape != self.key.shape:
            return f"v has the shape {list(self.value.shape)}, beside a k of {list(self.key.shape)}"
        (tokens, q_heads, head_size), kv_heads = self.query.shape, self.kv_heads
        if (tokens, head_size) != (self.tokens, self.head_size) or q_heads % kv_heads:
            return f"q has the shape {list(self.query.shape)}, beside a k of {list(self.key.shape)}"
        for name, tensor in named.items():
            if not torch.isfinite(tensor).all():
                return f"{name} holds NaN or infinite values"
            if name != "q" and not tensor.any():
                return f"all of {name} is zero, so it has no relative error"
        return None


@dataclass(frozen=True)
class DataSet:
    """Samples of one kind, over which results are averaged. notes: lines that say what they are."""

    name: str
    notes: tuple[str, ...]
    samples: Sequence[Sample]
    """Not empty, of one head size."""

    @property
    def head_size(self) -> int:
        return self.samples[0].head_size
