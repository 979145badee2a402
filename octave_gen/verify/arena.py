"""Tensors with memory of their own: guarded on both sides, and as far apart inside as a test wants.

Memory is reserved, not taken: only pages that are written cost anything, so a tensor whose last element lies beyond
4 GiB is as cheap as a dense one.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

GUARD = 1 << 32
"""Bytes before and behind a tensor that belong to nothing else: a 32-bit offset that went astray ends there."""
FAR = 9 << 29
"""Bytes that a far dimension spans at least: beyond 4 GiB, and small enough for a GPU with 24 GB."""
_ALIGNMENT = 64
_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # named by newer Pythons only


def allocate(
    shape: Sequence[int], dtype: torch.dtype, *, strides: Sequence[int] | None = None, fill: int = 0
) -> Tensor:
    """A tensor of ``shape`` and ``strides`` (elements; None: dense) whose bytes are ``fill`` (0 to 255)."""
    item = torch.empty((), dtype=dtype).element_size()
    if strides is None:
        strides = dense_strides(shape)
    extent = item * (1 + sum(stride * (size - 1) for stride, size in zip(strides, shape, strict=True) if size))
    room = -(-(2 * GUARD + extent) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)  # keeps the mapping
    made = whole.view(dtype).as_strided(tuple(shape), tuple(strides), GUARD // item)
    if fill and made.numel():
        made.copy_(torch.full((item,), fill, dtype=torch.uint8).view(dtype).expand(made.shape))
    return made


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def far_strides(shape: Sequence[int], item: int, inner: Sequence[int], dims: int) -> list[int]:
    """``inner``, the strides of a dense tensor, with the first dim (``dims`` 2: the first two) spread over ``FAR``.

    With two dims the first reaches beyond 2**31 bytes for itself, and both together beyond 2**32.
    """
    strides = list(inner)
    both = dims == 2 and shape[1] > 1
    apart = (FAR * 5 // 9 if both else FAR) // max(1, shape[0] - 1)
    strides[0] = max(strides[0], (apart // _ALIGNMENT + 1) * _ALIGNMENT // item)
    if both:
        strides[1] = strides[0] * shape[0]
    return strides
