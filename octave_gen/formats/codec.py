"""What every cache format offers in PyTorch, with kernels or without: slots of K and V, and K and V of slots."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from octave_gen.formats.bytemap import Field


class Codec(Protocol):
    """A cache format for one shape of head.

    Both directions work on the model's own K and V, after RoPE: a format that rotates does so inside.
    """

    @property
    def name(self) -> str:
        """As tables show it, such as ``octave_k3v4`` or ``turboquant_3bit_nc``."""

    @property
    def head_size(self) -> int: ...

    @property
    def slot_bytes(self) -> int:
        """Bytes of one token and kv head, with all scales and padding."""

    def byte_map(self) -> tuple[Field, ...]:
        """What each byte of a slot is; together exactly slot_bytes."""

    def encode(self, key: Tensor, value: Tensor) -> Tensor:
        """key, value: fp16, bf16 or fp32 [..., head_size] -> uint8 [..., slot_bytes]."""

    def decode(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 [..., slot_bytes] -> K and V, fp32 [..., head_size] each."""
