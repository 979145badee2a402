"""A codec whose slot is the bytes of K followed by the bytes of V, each coded on its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from octave_gen.errors import OctaveError, wrong_request
from octave_gen.formats.bytemap import Field

INPUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


class VectorCode(Protocol):
    """How the K or the V of one token and kv head becomes bytes."""

    @property
    def size(self) -> int:
        """Bytes of one vector, with its scales."""

    def fields(self) -> tuple[Field, ...]:
        """What each of these bytes is."""

    def encode(self, x: Tensor) -> Tensor:
        """fp32 [..., head_size] -> uint8 [..., size]."""

    def decode(self, packed: Tensor) -> Tensor:
        """uint8 [..., size] -> fp32 [..., head_size]."""


class PairCodec:
    """Implements `formats.codec.Codec`: [K of key.size bytes][V of value.size bytes], no padding."""

    def __init__(self, name: str, head_size: int, key: VectorCode, value: VectorCode) -> None:
        self.name = name
        self.head_size = head_size
        self.key = key
        self.value = value

    @property
    def slot_bytes(self) -> int:
        return self.key.size + self.value.size

    def byte_map(self) -> tuple[Field, ...]:
        """K's bytes, then V's; see `formats.codec.Codec.byte_map`."""
        keys = (replace(field, what=f"K {field.what}") for field in self.key.fields())
        values = (
            replace(field, what=f"V {field.what}", offset=self.key.size + field.offset) for field in self.value.fields()
        )
        return (*keys, *values)

    def encode(self, key: Tensor, value: Tensor) -> Tensor:
        """key, value: fp16, bf16 or fp32 [..., head_size] -> uint8 [..., slot_bytes]; OctaveError for others."""
        for role, x in (("key", key), ("value", value)):
            fits = x.dim() > 0 and x.shape[-1] == self.head_size and x.shape == key.shape
            if x.dtype not in INPUT_DTYPES or not fits:
                raise OctaveError(
                    f"{role} is {x.dtype} {list(x.shape)}, beside a key of {list(key.shape)}",
                    where=self.name,
                    hint=f"both must be fp16, bf16 or fp32 of one shape [..., {self.head_size}]",
                )
        return torch.cat(
            (self.key.encode(key.float().contiguous()), self.value.encode(value.float().contiguous())), dim=-1
        )

    def decode(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 [..., slot_bytes] -> K and V, fp32 [..., head_size] each; OctaveError for others."""
        if slots.dtype != torch.uint8 or slots.dim() == 0 or slots.shape[-1] != self.slot_bytes:
            raise OctaveError(
                f"slots are {slots.dtype} {list(slots.shape)}",
                where=self.name,
                hint=f"they must be uint8 [..., {self.slot_bytes}]",
            )
        return self.key.decode(slots[..., : self.key.size]), self.value.decode(slots[..., self.key.size :])


def check_head(name: str, head_size: int, fits: bool, needs: str) -> None:
    """OctaveError unless the format can hold the head; `needs` says what it asks of it and why."""
    if not fits or head_size < 1:
        raise wrong_request(f"{name} cannot hold head_size {head_size}: {needs}")


def is_power_of_two(head_size: int) -> bool:
    return head_size > 0 and head_size & (head_size - 1) == 0


def look_up(table: Tensor, codes: Tensor) -> Tensor:
    """Rows of a table by integer codes: [n, ...] and [...] -> the codes' shape, then a row's. Faster than indexing."""
    return table.index_select(0, codes.reshape(-1).int()).reshape(*codes.shape, *table.shape[1:])


def to_bytes(numbers: Tensor) -> Tensor:
    """One number per vector as its little-endian bytes: [...] -> uint8 [..., bytes of the dtype]."""
    return numbers.unsqueeze(-1).view(torch.uint8)


def from_bytes(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of dtype: uint8 [..., n * bytes of dtype] -> fp32 [..., n]."""
    # a copy of its own: a view of wider numbers must begin at a multiple of their size
    return packed.clone(memory_format=torch.contiguous_format).view(dtype).float()


def norm_and_direction(x: Tensor) -> tuple[Tensor, Tensor]:
    """fp32 [..., n] -> the Euclidean norms [...] and x divided by them; the direction of a zero vector is zero."""
    norm = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64).float()
    return norm, torch.where(norm > 0, 1 / norm.double(), 0).unsqueeze(-1).mul(x).float()
