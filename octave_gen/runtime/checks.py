"""The argument checks of the ops, once for CPU and GPU: what does not fit is an OctaveError, never a wrong result.

The kernels read dwords of the cache, consecutive elements of a head, and 1-D maps without a stride; hence the demands
on strides and alignment. Rows of key and value behind ``slot_mapping``, and entries of the query maps behind the
queries, are padding that nobody reads: engines pad their buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from octave_gen.errors import OctaveError, wrong_request
from octave_gen.formats import CACHE_DTYPES, CacheDtype
from octave_gen.formats.octave import OCTAVE, SlotLayout
from octave_gen.formats.octave.signs import WORD_DIMS
from octave_gen.kernels.base import MAX_GROUP
from octave_gen.kernels.splits import MAX_KV_SPLITS, PARTIAL_EXTRA

QUERY_DTYPES: dict[torch.dtype, str] = {torch.float16: "fp16", torch.bfloat16: "bf16"}
CACHE_ALIGNMENT = 4
"""Bytes: of the cache's address and of its strides."""

FAMILY = OCTAVE
"""The family that the ops serve: an op's ``fmt``, signs and rotations are those of this one."""

_DTYPES = {dtype.fmt: dtype for dtype in CACHE_DTYPES.values() if dtype.family == FAMILY.name}
_FP32_MAX = torch.finfo(torch.float32).max
_FLOATS = tuple(QUERY_DTYPES)
_INT32 = (torch.int32,)


def dtype_of_fmt(fmt: int) -> CacheDtype:
    """The cache dtype whose ``fmt`` this is; OctaveError naming all for any other number."""
    if fmt not in _DTYPES:
        known = ", ".join(f"{dtype.fmt} ({dtype.name})" for dtype in _DTYPES.values())
        raise wrong_request(f"fmt {fmt} is no cache format", hint=f"known: {known}")
    return _DTYPES[fmt]


@contextmanager
def named(op: str) -> Iterator[None]:
    """Errors that do not say where they come from name the op; for a ``with``, or to decorate a function."""
    try:
        yield
    except OctaveError as error:
        error.where = error.where or f"octave.{op}"
        raise


@lru_cache(maxsize=256)
def _layout(head_size: int, slot_bytes: int, fmt: int) -> SlotLayout:
    dtype_of_fmt(fmt)
    return FAMILY.layout_of_slot(head_size, slot_bytes, fmt)


@named("cache_store")
def check_cache_store(
    key: Tensor, value: Tensor, cache: Tensor, slot_mapping: Tensor, k_signs: Tensor, v_signs: Tensor, fmt: int
) -> SlotLayout:
    """The layout of the cache's slots; raises OctaveError naming every argument that does not fit."""
    problems = _tensor_problems(
        ("key", key, 3, _FLOATS),
        ("value", value, 3, _FLOATS),
        ("cache", cache, 4, (torch.uint8,)),
        ("slot_mapping", slot_mapping, 1, (torch.int64,)),
        ("k_signs", k_signs, 1, _INT32),
        ("v_signs", v_signs, 1, _INT32),
    )
    _fail("cache_store", problems)
    layout = _layout(key.shape[2], cache.shape[3], fmt)
    if value.dtype != key.dtype:
        problems.append(f"value is {value.dtype}, key {key.dtype}")
    if value.shape != key.shape:
        problems.append(f"value is {list(value.shape)}, key {list(key.shape)}")
    if key.shape[1] != cache.shape[1]:
        problems.append(f"key has {key.shape[1]} heads, the cache {cache.shape[1]}")
    if key.shape[0] < slot_mapping.shape[0]:
        problems.append(f"slot_mapping names {slot_mapping.shape[0]} slots for {key.shape[0]} tokens")
    problems += _cache_problems(cache)
    problems += _sign_problems(key.shape[2], k_signs=k_signs, v_signs=v_signs)
    problems += _dense_problems(key=key, value=value, slot_mapping=slot_mapping)
    _fail("cache_store", problems)
    return layout


def check_rotate(x: Tensor, signs: Tensor) -> None:
    """Raises OctaveError naming every argument that does not fit."""
    problems = _tensor_problems(("x", x, 3, _FLOATS), ("signs", signs, 1, _INT32))
    _fail("rotate", problems)
    head_size = x.shape[2]
    block_dims, most = FAMILY.block_dims, FAMILY.max_head_size
    if head_size % block_dims or not block_dims <= head_size <= most:
        problems.append(f"x has head_size {head_size}, no multiple of {block_dims} up to {most}")
    problems += _sign_problems(head_size, signs=signs)
    problems += _dense_problems(x=x)
    _fail("rotate", problems)


class DecodeArguments(NamedTuple):
    """The arguments of the decode op, in the order of its schema; `octave_gen.ops` says what they are."""

    out: Tensor
    query: Tensor
    cache: Tensor
    block_table: Tensor
    q_to_req: Tensor
    q_to_klen: Tensor
    mid_o: Tensor
    k_signs: Tensor
    v_signs: Tensor
    sm_scale: float
    num_kv_splits: int
    fmt: int
    query_group: int
    use_wmma: bool
    group_starts: Tensor | None = None


@named("decode")
def check_decode(arguments: DecodeArguments) -> SlotLayout:
    """The layout of the cache's slots; raises OctaveError naming every argument that does not fit."""
    out, query, cache, block_table, q_to_req, q_to_klen, mid_o, k_signs, v_signs = arguments[:9]
    sm_scale, num_kv_splits, fmt, query_group, _, group_starts = arguments[9:]
    starts = [] if group_starts is None else [("group_starts", group_starts, 1, _INT32)]
    problems = _tensor_problems(
        ("out", out, 3, _FLOATS),
        ("query", query, 3, _FLOATS),
        ("cache", cache, 4, (torch.uint8,)),
        ("block_table", block_table, 2, _INT32),
        ("q_to_req", q_to_req, 1, _INT32),
        ("q_to_klen", q_to_klen, 1, _INT32),
        ("mid_o", mid_o, 4, (torch.float32,)),
        ("k_signs", k_signs, 1, _INT32),
        ("v_signs", v_signs, 1, _INT32),
        *starts,
    )
    if not 1 <= num_kv_splits <= MAX_KV_SPLITS:
        problems.append(f"num_kv_splits is {num_kv_splits}, not 1 to {MAX_KV_SPLITS}")
    if not 1 <= query_group <= MAX_GROUP:
        problems.append(f"query_group is {query_group}, not 1 to {MAX_GROUP}")
    if not abs(sm_scale) <= _FP32_MAX:  # NaN compares as false
        problems.append(f"sm_scale is {sm_scale}, not a finite fp32 number")
    _fail("decode", problems)
    queries, q_heads, head_size = query.shape
    layout = _layout(head_size, cache.shape[3], fmt)
    if out.dtype != query.dtype:
        problems.append(f"out is {out.dtype}, query {query.dtype}")
    if out.shape != query.shape:
        problems.append(f"out is {list(out.shape)}, query {list(query.shape)}")
    if cache.shape[1] and (q_heads < cache.shape[1] or q_heads % cache.shape[1]):
        problems.append(f"{q_heads} query heads are no multiple of {cache.shape[1]} kv heads")
    for name, query_map in (("q_to_req", q_to_req), ("q_to_klen", q_to_klen)):
        if query_map.shape[0] < queries:
            problems.append(f"{name} has {query_map.shape[0]} entries for {queries} queries")
    workspace = (queries, q_heads, num_kv_splits, head_size + PARTIAL_EXTRA)
    if any(has < needs for has, needs in zip(mid_o.shape, workspace, strict=True)):
        problems.append(f"mid_o is {list(mid_o.shape)}, at least {list(workspace)} is needed (ops.workspace_shape)")
    problems += _cache_problems(cache)
    problems += _sign_problems(head_size, k_signs=k_signs, v_signs=v_signs)
    problems += _dense_problems(
        out=out, query=query, block_table=block_table, q_to_req=q_to_req, q_to_klen=q_to_klen, mid_o=mid_o
    )
    problems += _dense_problems(**{name: tensor for name, tensor, _, _ in starts})
    _fail("decode", problems)
    return layout


def _fail(op: str, problems: list[str]) -> None:
    if problems:
        raise wrong_request("\n  ".join(["these arguments do not fit:", *problems]), where=f"octave.{op}")


def _tensor_problems(*tensors: tuple[str, Tensor, int, tuple[torch.dtype, ...]]) -> list[str]:
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


def _cache_problems(cache: Tensor) -> list[str]:
    problems = []
    if cache.shape[1] < 1 or cache.shape[2] < 1:
        problems.append(f"cache is {list(cache.shape)}: it has no heads or no rows")
    if cache.stride(3) != 1:
        problems.append(f"the bytes of a cache slot are {cache.stride(3)} apart, not 1")
    # the stride of a dimension of one entry is never used, and torch gives it any value
    strides = [s for size, s in zip(cache.shape[:3], cache.stride()[:3], strict=True) if size > 1]
    if any(stride % CACHE_ALIGNMENT for stride in strides):
        problems.append(f"cache has strides {list(cache.stride())}, not multiples of {CACHE_ALIGNMENT} bytes")
    if cache.data_ptr() % CACHE_ALIGNMENT:
        problems.append(f"cache begins at an address that is no multiple of {CACHE_ALIGNMENT}")
    return problems


def _sign_problems(head_size: int, **signs: Tensor) -> list[str]:
    words = head_size // WORD_DIMS
    problems = [
        f"{name} has {tensor.shape[0]} words, head_size {head_size} needs {words}"
        for name, tensor in signs.items()
        if tensor.shape[0] != words
    ]
    return problems + _dense_problems(**signs)


def _dense_problems(**tensors: Tensor) -> list[str]:
    return [
        f"the last dimension of {name} has stride {tensor.stride(-1)}, not 1"
        for name, tensor in tensors.items()
        if tensor.stride(-1) != 1 and tensor.shape[-1] > 1
    ]
