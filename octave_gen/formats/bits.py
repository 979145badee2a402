"""Codes as one contiguous little-endian stream of bits: code j of `width` bits starts at bit width * j."""

from __future__ import annotations

import torch
from torch import Tensor


def packed_bytes(count: int, width: int) -> int:
    """Bytes of a stream of `count` codes; the last byte is filled with zeros."""
    return -(-count * width // 8)


def pack(codes: Tensor, width: int) -> Tensor:
    """Integer codes [..., n] below 2**width, width up to 15 -> uint8 [..., packed_bytes(n, width)]."""
    shifts = torch.arange(width, dtype=torch.int16)
    stream = (codes.to(torch.int16).unsqueeze(-1) >> shifts & 1).to(torch.uint8).flatten(-2)
    stream = torch.nn.functional.pad(stream, (0, -stream.shape[-1] % 8))
    octets = stream.reshape(*stream.shape[:-1], stream.shape[-1] // 8, 8)
    packed = octets[..., 0]
    for bit in range(1, 8):
        packed = packed | octets[..., bit] << bit
    return packed.contiguous()


def unpack(packed: Tensor, count: int, width: int) -> Tensor:
    """uint8 [..., packed_bytes(count, width)] -> int16 codes [..., count]."""
    stream = (packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8) & 1).flatten(-2)[..., : count * width]
    fields = stream.reshape(*packed.shape[:-1], count, width)
    codes = fields[..., 0].to(torch.int16)
    for bit in range(1, width):
        codes = codes | fields[..., bit].to(torch.int16) << bit
    return codes
