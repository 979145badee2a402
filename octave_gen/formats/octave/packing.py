"""Octave codes to bytes and back, vectorised: uint8 codes [..., n] <-> uint8 bytes [..., n * bits / 8].

4 bits: one little-endian u32 per 8 dims; byte j holds dim j in its low and dim j+4 in its high nibble. 3 bits: first
a 2-bit plane for all n dims, one u32 per 16 dims, dim 4i+b in byte b at bits 2i and 2i+1; then a 1-bit plane, one u32
per 32 dims, dim 4i+b in byte b at bit i; code = low + 4 * high. n is a multiple of 32.

So every width spreads 4 neighbouring dims over the 4 bytes of a dword at one shift, ready as selector of v_perm_b32.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pack(codes: Tensor, bits: int) -> Tensor:
    """uint8 codes [..., n] of 3 or 4 bits -> uint8 [..., n * bits / 8]."""
    if bits == 4:
        return _spread(codes, 4)
    return torch.cat((_spread(codes & 3, 2), _spread(codes >> 2, 1)), dim=-1)


def unpack(packed: Tensor, bits: int) -> Tensor:
    """uint8 [..., n * bits / 8] -> uint8 codes [..., n] of 3 or 4 bits."""
    if bits == 4:
        return _collect(packed, 4)
    low_bytes = packed.shape[-1] * 2 // 3
    return _collect(packed[..., :low_bytes], 2) | _collect(packed[..., low_bytes:], 1) << 2


def _spread(fields: Tensor, width: int) -> Tensor:
    """Fields of `width` bits, 8 / width to a byte: field 4i+b of each dword goes to byte b, bit width * i."""
    per_byte = 8 // width
    grouped = fields.reshape(*fields.shape[:-1], fields.shape[-1] // (4 * per_byte), per_byte, 4)
    packed = grouped[..., 0, :]
    for i in range(1, per_byte):
        packed = packed | grouped[..., i, :] << (width * i)
    return packed.reshape(*fields.shape[:-1], fields.shape[-1] // per_byte)


def _collect(packed: Tensor, width: int) -> Tensor:
    per_byte = 8 // width
    dwords = packed.reshape(*packed.shape[:-1], packed.shape[-1] // 4, 1, 4)
    shifts = torch.arange(0, 8, width, dtype=torch.uint8).reshape(per_byte, 1)
    return (dwords >> shifts & (1 << width) - 1).reshape(*packed.shape[:-1], packed.shape[-1] * per_byte)
