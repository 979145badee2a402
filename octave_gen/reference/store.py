"""Writes keys and values into a paged cache as Octave slots: what every store kernel is compared with, byte by byte."""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.codec import quantize
from octave_gen.formats.octave.encoders import PLAIN
from octave_gen.formats.octave.layout import SlotLayout


def cache_store(
    key: Tensor,
    value: Tensor,
    cache: Tensor,
    slot_mapping: Tensor,
    layout: SlotLayout,
    k_signs: Tensor | None = None,
    v_signs: Tensor | None = None,
    encoder: str = PLAIN,
    k_center: Tensor | None = None,
) -> None:
    """Quantizes token i of key and value into slot slot_mapping[i]; changes `cache` in place, and only those slots.

    key, value: fp16, bf16 or fp32 [T, kv_heads, head]; cache: uint8 [blocks, kv_heads, block_size, slot], any
    strides; slot_mapping: int64 [T]; slot s is row s % block_size of block s // block_size, a negative one skips its
    token. Two tokens must not share a slot. encoder, k_center: as `quantize` takes them. OctaveError, with nothing
    written, for arguments that do not fit or a slot beyond the cache.
    """
    if cache.dim() != 4 or cache.dtype != torch.uint8 or cache.shape[-1] != layout.slot_bytes:
        raise OctaveError(
            f"cache is {cache.dtype} {list(cache.shape)}, expected uint8 [blocks, kv heads, rows, {layout.slot_bytes}]"
        )
    if list(key.shape) != [slot_mapping.shape[0], cache.shape[1], layout.head_size]:
        raise OctaveError(
            f"key is {list(key.shape)}, expected [{slot_mapping.shape[0]}, {cache.shape[1]}, {layout.head_size}]"
        )
    block_size = cache.shape[2]
    kept = (slot_mapping >= 0).nonzero().flatten()
    slots = slot_mapping[kept].long()
    if len(slots) and int(slots.max()) >= cache.shape[0] * block_size:
        raise OctaveError(f"slot {int(slots.max())} is beyond the cache's {cache.shape[0] * block_size} slots")
    cache[slots // block_size, :, slots % block_size] = quantize(
        key[kept], value[kept], layout, k_signs, v_signs, encoder, k_center
    )
