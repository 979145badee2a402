"""From tensors to launches: symbol, grid and packed kernel arguments, without a GPU; then the op that submits them.

The functions that make a :class:`Launch` need of a tensor only what :class:`TensorLike` names, so an interpreter of
code objects can be driven by them too. They trust their arguments: `checks` comes first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from octave_gen.errors import OctaveError
from octave_gen.kernels.base import MAX_GRID_YZ, pack_arguments
from octave_gen.runtime.library import Library, LoadedVariant

MAX_GRID_THREADS = 2**32 - 1
"""Threads of a grid's x dimension that the AQL dispatch packet can count."""


class TensorLike(Protocol):
    """A tensor as launches see it; ``stride()`` in elements."""

    @property
    def shape(self) -> Sequence[int]: ...

    def data_ptr(self) -> int: ...

    def stride(self) -> Sequence[int]: ...


@dataclass(frozen=True)
class Launch:
    """One kernel launch. grid: workgroups; threads: of a workgroup, in x; kernargs: the packed kernarg segment."""

    symbol: str
    grid: tuple[int, int, int]
    threads: int
    kernargs: bytes


def store_launch(
    variant: LoadedVariant,
    key: TensorLike,
    value: TensorLike,
    cache: TensorLike,
    slot_mapping: TensorLike,
    k_signs: TensorLike,
    v_signs: TensorLike,
    k_center: TensorLike | None = None,
) -> Launch:
    """cache_store of the first ``len(slot_mapping)`` tokens of key and value."""
    tokens = slot_mapping.shape[0]
    return _launch(
        variant,
        {"tokens": tokens, "kv_heads": cache.shape[1]},
        {
            **_pointers(key=key, value=value, cache=cache, slot_mapping=slot_mapping, k_signs=k_signs, v_signs=v_signs),
            **_strides(key, "key_token_stride", "key_head_stride"),
            **_strides(value, "value_token_stride", "value_head_stride"),
            **_strides(cache, "cache_block_stride", "cache_head_stride", "cache_row_stride"),
            "num_tokens": tokens,
            "block_size": cache.shape[2],
            "k_center": _address(k_center),
        },
    )


def rotate_launch(
    variant: LoadedVariant,
    x: TensorLike,
    signs: TensorLike,
    k_layout: bool,
    inverse: bool,
    center: TensorLike | None = None,
) -> Launch:
    """rotate of x [tokens, heads, head_size] in place."""
    return _launch(
        variant,
        {"tokens": x.shape[0], "heads": x.shape[1]},
        {
            **_pointers(x=x, signs=signs),
            **_strides(x, "token_stride", "head_stride"),
            "num_tokens": x.shape[0],
            "k_layout": int(k_layout),
            "inverse": int(inverse),
            "center": _address(center),
        },
    )


def decode_launch(
    variant: LoadedVariant,
    query: TensorLike,
    cache: TensorLike,
    block_table: TensorLike,
    q_to_req: TensorLike,
    q_to_klen: TensorLike,
    mid_o: TensorLike,
    k_signs: TensorLike,
    sm_scale: float,
    num_kv_splits: int,
    group_starts: TensorLike | None = None,
) -> Launch:
    """The first half of the decode op: the partials of every KV split into mid_o."""
    queries, query_group = query.shape[0], variant.key.query_group
    assert query_group is not None
    groups = -(-queries // query_group) if group_starts is None else group_starts.shape[0]
    return _launch(
        variant,
        {"queries": groups * query_group, "kv_heads": cache.shape[1], "kv_splits": num_kv_splits},
        {
            **_pointers(
                query=query,
                cache=cache,
                block_table=block_table,
                q_to_req=q_to_req,
                q_to_klen=q_to_klen,
                mid_o=mid_o,
                k_signs=k_signs,
            ),
            **_strides(query, "query_token_stride", "query_head_stride"),
            **_strides(cache, "cache_block_stride", "cache_head_stride", "cache_row_stride"),
            **_strides(block_table, "block_table_stride"),
            **_strides(mid_o, "mid_token_stride", "mid_head_stride", "mid_split_stride"),
            "group_starts": _address(group_starts),
            "num_queries": queries,
            "num_groups": groups,
            "num_requests": block_table.shape[0],
            "block_size": cache.shape[2],
            "num_kv_splits": num_kv_splits,
            "sm_scale": sm_scale,
        },
    )


def reduce_launch(
    variant: LoadedVariant, mid_o: TensorLike, out: TensorLike, v_signs: TensorLike, num_kv_splits: int
) -> Launch:
    """The second half of the decode op: mid_o's partials merged into out."""
    return _launch(
        variant,
        {"queries": out.shape[0], "heads": out.shape[1]},
        {
            **_pointers(mid_o=mid_o, out=out, v_signs=v_signs),
            **_strides(mid_o, "mid_token_stride", "mid_head_stride", "mid_split_stride"),
            **_strides(out, "out_token_stride", "out_head_stride"),
            "num_kv_splits": num_kv_splits,
        },
    )


def prefill_prefix_launch(
    variant: LoadedVariant,
    q: TensorLike,
    cache: TensorLike,
    block_table: TensorLike,
    cu_seqlens_q: TensorLike,
    seq_lens: TensorLike,
    partials: TensorLike,
    max_query_len: int,
    sm_scale: float,
    num_kv_splits: int,
) -> Launch:
    """The first half of the prefill op: what every KV split of the packed prefixes gives, into partials."""
    group = q.shape[1] // cache.shape[1]
    return _launch(
        variant,
        {
            "query_rows": max_query_len * group,
            "kv_heads": cache.shape[1],
            "request_splits": seq_lens.shape[0] * num_kv_splits,
        },
        {
            **_pointers(
                q=q,
                cache=cache,
                block_table=block_table,
                cu_seqlens_q=cu_seqlens_q,
                seq_lens=seq_lens,
                partials=partials,
            ),
            **_strides(q, "q_token_stride", "q_head_stride"),
            **_strides(cache, "cache_block_stride", "cache_head_stride", "cache_row_stride"),
            **_strides(block_table, "block_table_stride"),
            **_strides(partials, "partial_token_stride", "partial_head_stride", "partial_split_stride"),
            "gqa_group": group,
            "block_size": cache.shape[2],
            "num_kv_splits": num_kv_splits,
            "sm_scale": sm_scale,
        },
    )


def prefill_chunk_launch(
    variant: LoadedVariant,
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    out: TensorLike,
    partials: TensorLike,
    cu_seqlens_q: TensorLike,
    seq_lens: TensorLike,
    max_query_len: int,
    sm_scale: float,
    num_kv_splits: int,
) -> Launch:
    """The second half of the prefill op: the chunks' attention to themselves, merged with partials, into out."""
    group = q.shape[1] // k.shape[1]
    return _launch(
        variant,
        {"query_rows": max_query_len * group, "kv_heads": k.shape[1], "requests": seq_lens.shape[0]},
        {
            **_pointers(q=q, k=k, v=v, out=out, partials=partials, cu_seqlens_q=cu_seqlens_q, seq_lens=seq_lens),
            **_strides(q, "q_token_stride", "q_head_stride"),
            **_strides(k, "k_token_stride", "k_head_stride"),
            **_strides(v, "v_token_stride", "v_head_stride"),
            **_strides(out, "out_token_stride", "out_head_stride"),
            **_strides(partials, "partial_token_stride", "partial_head_stride", "partial_split_stride"),
            "gqa_group": group,
            "num_kv_splits": num_kv_splits,
            "sm_scale": sm_scale,
        },
    )


def submit(library: Library, launch: Launch, stream: int) -> None:
    """Launches on ``stream`` (a raw hipStream_t) of the current device; a grid without workgroups does nothing.

    Raises OctaveError when there is no HIP runtime, no GPU, one of another arch, or when the launch fails.
    """
    if 0 in launch.grid:
        return
    kernargs = torch.frombuffer(bytearray(launch.kernargs), dtype=torch.uint8)
    operator = getattr(torch.ops, library.namespace).launch
    try:
        operator(kernargs, launch.symbol, list(launch.grid), launch.threads, stream)
    except RuntimeError as error:
        what, _, hint = str(error).partition("\n  hint: ")
        raise OctaveError(what, where=launch.symbol, hint=hint or None) from error


def _launch(variant: LoadedVariant, counts: Mapping[str, int], values: Mapping[str, int | float]) -> Launch:
    grid = variant.geometry.workgroups(counts)
    kernel = variant.geometry.kernel_for(math.prod(grid))
    threads = variant.geometry.kernels[kernel].threads
    if grid[0] * threads > MAX_GRID_THREADS or max(grid[1:]) > MAX_GRID_YZ:
        sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise OctaveError(
            f"a grid of {grid} workgroups cannot be launched ({sizes})",
            where=variant.name,
            hint=f"at most {MAX_GRID_YZ} in the second and third dimension: take fewer KV splits, or a smaller batch",
        )
    return Launch(variant.symbol + kernel, grid, threads, pack_arguments(variant.arguments, values))


def _pointers(**tensors: TensorLike) -> dict[str, int]:
    return {name: tensor.data_ptr() for name, tensor in tensors.items()}


def _address(tensor: TensorLike | None) -> int:
    """Of an argument that may be left out: null."""
    return 0 if tensor is None else tensor.data_ptr()


def _strides(tensor: TensorLike, *names: str) -> dict[str, int]:
    """The strides of the leading dims, one for each name."""
    return dict(zip(names, tensor.stride(), strict=False))
