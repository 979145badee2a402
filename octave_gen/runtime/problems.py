"""What can be wrong with the arguments of an op, in words; `checks` says which op demands what."""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.errors import wrong_request
from octave_gen.formats.octave.signs import WORD_DIMS
from octave_gen.kernels.splits import MAX_KV_SPLITS, PARTIAL_EXTRA

CACHE_ALIGNMENT = 4
"""Bytes: of the cache's address and of its strides."""
ROW_ALIGNMENT = 16
"""Bytes: of the vectors that the matrix tiers load and store whole."""
_FP32_MAX = torch.finfo(torch.float32).max


def fail(op: str, problems: list[str]) -> None:
    if problems:
        raise wrong_request("\n  ".join(["these arguments do not fit:", *problems]), where=f"octave.{op}")


def tensor_problems(*tensors: tuple[str, Tensor, int, tuple[torch.dtype, ...]]) -> list[str]:
    """Wrong dtypes and ranks, and tensors on different devices."""
    problems = []
    for name, tensor, dims, dtypes in tensors:
        if tensor.dtype not in dtypes:
            problems.append(f"{name} is {tensor.dtype}, not {' or '.join(str(dtype) for dtype in dtypes)}")
        if tensor.dim() != dims:
            problems.append(f"{name} has {tensor.dim()} dimensions, not {dims}")
    device = tensors[0][1].device
    if any(tensor.device != device for _, tensor, _, _ in tensors):
        places = ", ".join(f"{name} on {tensor.device}" for name, tensor, _, _ in tensors)
        problems.append(f"the tensors are on different devices: {places}")
    return problems


def cache_problems(cache: Tensor) -> list[str]:
    problems = []
    if cache.shape[1] < 1 or cache.shape[2] < 1:
        problems.append(f"cache is {list(cache.shape)}: it has no heads or no rows")
    if cache.stride(3) != 1:
        problems.append(f"the bytes of a cache slot are {cache.stride(3)} apart, not 1")
    if any(stride % CACHE_ALIGNMENT for stride in _used_strides(cache)):
        problems.append(f"cache has strides {list(cache.stride())}, not multiples of {CACHE_ALIGNMENT} bytes")
    if cache.data_ptr() % CACHE_ALIGNMENT:
        problems.append(f"cache begins at an address that is no multiple of {CACHE_ALIGNMENT}")
    return problems


def sign_problems(head_size: int, **signs: Tensor) -> list[str]:
    words = head_size // WORD_DIMS
    problems = [
        f"{name} has {tensor.shape[0]} words, head_size {head_size} needs {words}"
        for name, tensor in signs.items()
        if tensor.shape[0] != words
    ]
    return problems + dense_problems(**signs)


def center_problems(of: str, vectors: Tensor, **centers: Tensor | None) -> list[str]:
    """``vectors`` [tokens, heads, head], the argument ``of``; a center is one vector for each head, without gaps."""
    problems = []
    for name, center in centers.items():
        if center is None:
            continue
        if center.dtype != vectors.dtype:
            problems.append(f"{name} is {center.dtype}, {of} {vectors.dtype}")
        if center.shape != vectors.shape[1:]:
            problems.append(f"{name} is {list(center.shape)}, not {list(vectors.shape[1:])} (heads and head of {of})")
        elif not center.is_contiguous():
            problems.append(f"{name} has strides {list(center.stride())}, not dense ones")
    return problems


def dense_problems(**tensors: Tensor) -> list[str]:
    return [
        f"the last dimension of {name} has stride {tensor.stride(-1)}, not 1"
        for name, tensor in tensors.items()
        if tensor.stride(-1) != 1 and tensor.shape[-1] > 1
    ]


def row_problems(**tensors: Tensor) -> list[str]:
    """Vectors [..., head] that are not dense, or whose addresses are not all aligned."""
    problems = dense_problems(**tensors)
    for name, tensor in tensors.items():
        elements = ROW_ALIGNMENT // tensor.element_size()
        if any(stride % elements for stride in _used_strides(tensor)):
            problems.append(f"{name} has strides {list(tensor.stride())}, not multiples of {elements} elements")
        if tensor.data_ptr() % ROW_ALIGNMENT:
            problems.append(f"{name} begins at an address that is no multiple of {ROW_ALIGNMENT}")
    return problems


def output_problems(**tensors: Tensor) -> list[str]:
    """Tensors that are written, of whose entries some share their memory."""
    return [
        f"{name} has strides {list(tensor.stride())}: entries share their memory"
        for name, tensor in tensors.items()
        if 0 in _used_strides(tensor)
    ]


def head_problems(q_heads: int, cache: Tensor) -> list[str]:
    kv_heads = cache.shape[1]
    if kv_heads and (q_heads < kv_heads or q_heads % kv_heads):
        return [f"{q_heads} query heads are no multiple of {kv_heads} kv heads"]
    return []


def number_problems(sm_scale: float, num_kv_splits: int) -> list[str]:
    problems = []
    if not 1 <= num_kv_splits <= MAX_KV_SPLITS:
        problems.append(f"num_kv_splits is {num_kv_splits}, not 1 to {MAX_KV_SPLITS}")
    if not abs(sm_scale) <= _FP32_MAX:  # NaN compares as false
        problems.append(f"sm_scale is {sm_scale}, not a finite fp32 number")
    return problems


def workspace_problems(sizes: tuple[int, int, int, int], **workspace: Tensor) -> list[str]:
    """``sizes``: query tokens, query heads, KV splits, head size."""
    needed = (*sizes[:3], sizes[3] + PARTIAL_EXTRA)
    return [
        f"{name} is {list(tensor.shape)}, at least {list(needed)} is needed (ops.workspace_shape)"
        for name, tensor in workspace.items()
        if any(has < needs for has, needs in zip(tensor.shape, needed, strict=True))
    ]


def _used_strides(tensor: Tensor) -> list[int]:
    """Of the leading dims; that of a dim of one entry is never used, and torch gives it any value."""
    return [stride for size, stride in zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True) if size > 1]
