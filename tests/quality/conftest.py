"""Codecs whose errors are known, and small samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from octave_gen.quality.sample import Sample


@dataclass(frozen=True)
class Scaled:
    """Slots of fp32; K and V come back times a factor, so a factor of 1 is a perfect codec."""

    name: str = "scaled"
    k_factor: float = 1.0
    v_factor: float = 1.0
    head_size: int = 16
    slot_bytes: int = 128

    def encode(self, key: Tensor, value: Tensor) -> Tensor:
        return torch.cat([key.float(), value.float()], dim=-1).contiguous().view(torch.uint8)

    def decode(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        both = slots.view(torch.float32)
        half = both.shape[-1] // 2
        return both[..., :half] * self.k_factor, both[..., half:] * self.v_factor


@dataclass(frozen=True)
class Rounded:
    """K and V rounded to multiples of 1 / 2."""

    name: str = "rounded"
    head_size: int = 16
    slot_bytes: int = 32

    def encode(self, key: Tensor, value: Tensor) -> Tensor:
        return torch.cat([key.float(), value.float()], dim=-1).mul(2).round().add(128).to(torch.uint8)

    def decode(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        both = (slots.float() - 128) / 2
        half = both.shape[-1] // 2
        return both[..., :half], both[..., half:]


def _sample(name: str = "layer 0", seed: int = 0, **changes: Any) -> Sample:
    source = torch.Generator().manual_seed(seed)
    tokens, q_heads, kv_heads, head = (changes.pop(key, n) for key, n in SHAPE.items())
    values: dict[str, Any] = {
        "query": torch.randn(tokens, q_heads, head, generator=source).half(),
        "key": torch.randn(tokens, kv_heads, head, generator=source).half(),
        "value": torch.randn(tokens, kv_heads, head, generator=source).half(),
        "sm_scale": head**-0.5,
        **changes,
    }
    return Sample(name, **values)


SHAPE = {"tokens": 20, "q_heads": 4, "kv_heads": 2, "head": 16}


@pytest.fixture
def make_sample() -> Callable[..., Sample]:
    """``make_sample(name, seed, tokens=…, q_heads=…, kv_heads=…, head=…, window=…, …)``: Gaussian fp16 values."""
    return _sample


@pytest.fixture
def scaled() -> type[Scaled]:
    return Scaled


@pytest.fixture
def rounded() -> Rounded:
    return Rounded()
