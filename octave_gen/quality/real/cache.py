"""What stands in for a model's cache: recorded, or put through a codec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from octave_gen.formats.codec import Codec

Part = Literal["kv", "k", "v"]


@dataclass
class Recorder:
    """Keeps what enters each layer: query [q_heads, tokens, head], key and value [kv_heads, tokens, head]."""

    layers: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.layers[layer] = (query, key, value)
        return key, value


@dataclass(frozen=True)
class Quantized:
    """Every token's K and V as its slot holds them, for all queries, the token's own among them.

    centres: by layer, fp32 [kv_heads, head], subtracted from K before it is encoded and added again behind it.
    part: what is taken from the slots; the rest of K and V stays exact.
    """

    codec: Codec
    centres: Mapping[int, Tensor] | None = None
    part: Part = "kv"

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        centre = self.centres[layer].unsqueeze(1) if self.centres is not None else None
        held = key if centre is None else key - centre
        k_hat, v_hat = self.codec.decode(self.codec.encode(held, value))
        if centre is not None:
            k_hat = k_hat + centre
        return (k_hat if "k" in self.part else key), (v_hat if "v" in self.part else value)


@dataclass(frozen=True)
class Setting:
    """What is measured: a codec by name, for K, V or both; centre: the largest position that its centres are for."""

    codec: str
    centre: int | None = None
    part: Part = "kv"

    @property
    def label(self) -> str:
        """Such as ``octave_k3v4``, ``octave_k3v4.centre4095`` or ``octave_k3v4.k``."""
        centre = "" if self.centre is None else f".centre{self.centre}"
        return self.codec + centre + ("" if self.part == "kv" else f".{self.part}")
