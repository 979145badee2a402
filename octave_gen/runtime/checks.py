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

from octave_gen.errors import OctaveError, did_you_mean, wrong_request
from octave_gen.formats import CACHE_DTYPES, CacheDtype
from octave_gen.formats.octave import OCTAVE, SlotLayout
from octave_gen.kernels import base
from octave_gen.kernels.base import MAX_GROUP
from octave_gen.runtime.problems import (
    cache_problems,
    center_problems,
    dense_problems,
    fail,
    head_problems,
    number_problems,
    output_problems,
    row_problems,
    sign_problems,
    tensor_problems,
    workspace_problems,
)

QUERY_DTYPES: dict[torch.dtype, str] = {getattr(torch, dtype.torch): dtype.spec for dtype in base.QUERY_DTYPES}
FAMILY = OCTAVE
"""The family that the ops serve: an op's ``fmt``, signs and rotations are those of this one."""

_DTYPES = {dtype.fmt: dtype for dtype in CACHE_DTYPES.values() if dtype.family == FAMILY.name}
_FLOATS = tuple(QUERY_DTYPES)
_INT32 = (torch.int32,)


def dtype_of_fmt(fmt: int) -> CacheDtype:
    """The cache dtype whose ``fmt`` this is; OctaveError naming all for any other number."""
    if fmt not in _DTYPES:
        known = ", ".join(f"{dtype.fmt} ({dtype.name})" for dtype in _DTYPES.values())
        raise wrong_request(f"fmt {fmt} is no cache format", hint=f"known: {known}")
    return _DTYPES[fmt]


def encoder_of(name: str | None) -> str:
    """The encoder of that name, the family's default for None; OctaveError naming all for any other."""
    known = FAMILY.encoders
    if name is None:
        return FAMILY.default_encoder
    if name not in known:
        near = did_you_mean(name, known)
        raise wrong_request(
            f"there is no encoder {name!r}{near}", where="octave.cache_store", hint=f"encoders: {', '.join(known)}"
        )
    return name


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
    key: Tensor,
    value: Tensor,
    cache: Tensor,
    slot_mapping: Tensor,
    k_signs: Tensor,
    v_signs: Tensor,
    fmt: int,
    k_center: Tensor | None = None,
) -> SlotLayout:
    """The layout of the cache's slots; raises OctaveError naming every argument that does not fit."""
    problems = tensor_problems(
        ("key", key, 3, _FLOATS),
        ("value", value, 3, _FLOATS),
        ("cache", cache, 4, (torch.uint8,)),
        ("slot_mapping", slot_mapping, 1, (torch.int64,)),
        ("k_signs", k_signs, 1, _INT32),
        ("v_signs", v_signs, 1, _INT32),
        *([("k_center", k_center, 2, _FLOATS)] if k_center is not None else []),
    )
    fail("cache_store", problems)
    layout = _layout(key.shape[2], cache.shape[3], fmt)
    if value.dtype != key.dtype:
        problems.append(f"value is {value.dtype}, key {key.dtype}")
    if value.shape != key.shape:
        problems.append(f"value is {list(value.shape)}, key {list(key.shape)}")
    if key.shape[1] != cache.shape[1]:
        problems.append(f"key has {key.shape[1]} heads, the cache {cache.shape[1]}")
    if key.shape[0] < slot_mapping.shape[0]:
        problems.append(f"slot_mapping names {slot_mapping.shape[0]} slots for {key.shape[0]} tokens")
    problems += cache_problems(cache)
    problems += sign_problems(key.shape[2], k_signs=k_signs, v_signs=v_signs)
    problems += dense_problems(key=key, value=value, slot_mapping=slot_mapping)
    problems += center_problems("key", key, k_center=k_center)
    problems += output_problems(cache=cache)
    fail("cache_store", problems)
    return layout


def check_rotate(x: Tensor, signs: Tensor, inverse: bool, center: Tensor | None = None) -> None:
    """Raises OctaveError naming every argument that does not fit."""
    problems = tensor_problems(
        ("x", x, 3, _FLOATS),
        ("signs", signs, 1, _INT32),
        *([("center", center, 2, _FLOATS)] if center is not None else []),
    )
    fail("rotate", problems)
    head_size = x.shape[2]
    block_dims, most = FAMILY.block_dims, FAMILY.max_head_size
    if head_size % block_dims or not block_dims <= head_size <= most:
        problems.append(f"x has head_size {head_size}, no multiple of {block_dims} up to {most}")
    problems += sign_problems(head_size, signs=signs)
    problems += dense_problems(x=x)
    problems += center_problems("x", x, center=center)
    if inverse and center is not None:
        problems.append("center is subtracted before the rotation: inverse takes none")
    problems += output_problems(x=x)
    fail("rotate", problems)


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
    tier: str | None = None


@named("decode")
def check_decode(arguments: DecodeArguments) -> SlotLayout:
    """The layout of the cache's slots; raises OctaveError naming every argument that does not fit."""
    out, query, cache, block_table, q_to_req, q_to_klen, mid_o, k_signs, v_signs = arguments[:9]
    sm_scale, num_kv_splits, fmt, query_group, _, group_starts, _ = arguments[9:]
    starts = [] if group_starts is None else [("group_starts", group_starts, 1, _INT32)]
    problems = tensor_problems(
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
    problems += number_problems(sm_scale, num_kv_splits)
    if not 1 <= query_group <= MAX_GROUP:
        problems.append(f"query_group is {query_group}, not 1 to {MAX_GROUP}")
    fail("decode", problems)
    queries, q_heads, head_size = query.shape
    layout = _layout(head_size, cache.shape[3], fmt)
    if out.dtype != query.dtype:
        problems.append(f"out is {out.dtype}, query {query.dtype}")
    if out.shape != query.shape:
        problems.append(f"out is {list(out.shape)}, query {list(query.shape)}")
    problems += head_problems(q_heads, cache)
    for name, query_map in (("q_to_req", q_to_req), ("q_to_klen", q_to_klen)):
        if query_map.shape[0] < queries:
            problems.append(f"{name} has {query_map.shape[0]} entries for {queries} queries")
    problems += workspace_problems((queries, q_heads, num_kv_splits, head_size), mid_o=mid_o)
    problems += cache_problems(cache)
    problems += sign_problems(head_size, k_signs=k_signs, v_signs=v_signs)
    problems += dense_problems(
        out=out, query=query, block_table=block_table, q_to_req=q_to_req, q_to_klen=q_to_klen, mid_o=mid_o
    )
    problems += dense_problems(**{name: tensor for name, tensor, _, _ in starts})
    problems += output_problems(out=out, mid_o=mid_o)
    fail("decode", problems)
    return layout


class PrefillArguments(NamedTuple):
    """The arguments of the prefill op, in the order of its schema; `octave_gen.ops` says what they are."""

    out: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    cache: Tensor
    block_table: Tensor
    cu_seqlens_q: Tensor
    seq_lens: Tensor
    max_query_len: int
    sm_scale: float
    fmt: int
    workspace: Tensor | None = None
    num_kv_splits: int = 1
    tier: str | None = None


@named("prefill")
def check_prefill(arguments: PrefillArguments) -> SlotLayout:
    """The layout of the cache's slots; raises OctaveError naming every argument that does not fit."""
    out, q, k, v, cache, block_table, cu_seqlens_q, seq_lens = arguments[:8]
    max_query_len, sm_scale, fmt, workspace, num_kv_splits, _ = arguments[8:]
    problems = tensor_problems(
        ("out", out, 3, _FLOATS),
        ("q", q, 3, _FLOATS),
        ("k", k, 3, _FLOATS),
        ("v", v, 3, _FLOATS),
        ("cache", cache, 4, (torch.uint8,)),
        ("block_table", block_table, 2, _INT32),
        ("cu_seqlens_q", cu_seqlens_q, 1, _INT32),
        ("seq_lens", seq_lens, 1, _INT32),
        *([("workspace", workspace, 4, (torch.float32,))] if workspace is not None else []),
    )
    problems += number_problems(sm_scale, num_kv_splits)
    if max_query_len < 0:
        problems.append(f"max_query_len is {max_query_len}, not 0 or more")
    fail("prefill", problems)
    tokens, q_heads, head_size = q.shape
    layout = _layout(head_size, cache.shape[3], fmt)
    for name, x in (("out", out), ("k", k), ("v", v)):
        if x.dtype != q.dtype:
            problems.append(f"{name} is {x.dtype}, q {q.dtype}")
    if out.shape != q.shape:
        problems.append(f"out is {list(out.shape)}, q {list(q.shape)}")
    expected = [tokens, cache.shape[1], head_size]
    problems += [
        f"{name} is {list(x.shape)}, beside q and the cache it must be {expected}"
        for name, x in (("k", k), ("v", v))
        if list(x.shape) != expected
    ]
    requests = seq_lens.shape[0]
    if cu_seqlens_q.shape[0] != requests + 1:
        problems.append(f"cu_seqlens_q has {cu_seqlens_q.shape[0]} entries, {requests} requests need {requests + 1}")
    if block_table.shape[0] < requests:
        problems.append(f"block_table has {block_table.shape[0]} rows for {requests} requests")
    problems += head_problems(q_heads, cache)
    problems += cache_problems(cache)
    problems += row_problems(out=out, q=q, k=k, v=v)
    problems += output_problems(out=out)
    problems += dense_problems(block_table=block_table, cu_seqlens_q=cu_seqlens_q, seq_lens=seq_lens)
    if workspace is not None:
        problems += workspace_problems((tokens, q_heads, num_kv_splits, head_size), workspace=workspace)
        problems += dense_problems(workspace=workspace)
        problems += output_problems(workspace=workspace)
    fail("prefill", problems)
    return layout
