"""The ops on GPU tensors: checks, the kernel that serves the call, its launch on the current stream.

Nothing here waits for the device, or allocates on it but the workspace that prefill is not given. A kernel's code
object is loaded at its first launch, which a graph capture does not allow: launch each kernel once before capturing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from octave_gen.arch import PORTABLE, parse_target_id
from octave_gen.errors import OctaveError
from octave_gen.kernels.splits import workspace_shape
from octave_gen.runtime import launch
from octave_gen.runtime.checks import (
    QUERY_DTYPES,
    DecodeArguments,
    PrefillArguments,
    check_cache_store,
    check_decode,
    check_prefill,
    check_rotate,
    dtype_of_fmt,
    encoder_of,
)
from octave_gen.runtime.dispatch import REGISTRY, Registry, check_block_size, decode_tier, prefill_tier
from octave_gen.runtime.library import VariantKey


@dataclass(frozen=True)
class Place:
    """Where launches go: a chip, a raw hipStream_t, and the libraries to choose from.

    The ops make it of their tensors' device; given explicitly, it lets CPU tensors go through the launch path.
    """

    arch: str
    stream: int
    registry: Registry = REGISTRY
    device: torch.device | None = None

    def current(self) -> AbstractContextManager[object]:
        """Makes the device the current one, as HIP's launches ask for."""
        return nullcontext() if self.device is None else torch.cuda.device(self.device)


@cache
def arch_of_device(index: int) -> str:
    """The arch of GPU ``index``; OctaveError when it is no AMD GPU."""
    if torch.version.hip is None:
        raise OctaveError(
            f"the GPU kernels are for AMD GPUs, and this torch ({torch.__version__}) is built for another vendor's",
            where=f"cuda:{index}",
            hint="install torch's ROCm build, or pass CPU tensors for the reference",
        )
    return parse_target_id(torch.cuda.get_device_properties(index).gcnArchName).arch


def place_of(device: torch.device) -> Place:
    """The device's arch and its current stream."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return Place(arch_of_device(index), torch.cuda.current_stream(device).cuda_stream, device=device)


def cache_store(
    key: Tensor,
    value: Tensor,
    cache: Tensor,
    slot_mapping: Tensor,
    k_signs: Tensor,
    v_signs: Tensor,
    fmt: int,
    encoder: str | None = None,
    k_center: Tensor | None = None,
    *,
    place: Place | None = None,
) -> None:
    layout = check_cache_store(key, value, cache, slot_mapping, k_signs, v_signs, fmt, k_center)
    encoder = encoder_of(encoder)
    place = place or place_of(key.device)
    library, variant = place.registry.find(
        VariantKey(
            arch=place.arch,
            kind="store",
            tier=PORTABLE,
            query_dtype=QUERY_DTYPES[key.dtype],
            head_size=layout.head_size,
            cache_dtype=dtype_of_fmt(fmt).name,
            slot_bytes=layout.slot_bytes,
            encoder=encoder,
        )
    )
    made = launch.store_launch(variant, key, value, cache, slot_mapping, k_signs, v_signs, k_center)
    with place.current():
        launch.submit(library, made, place.stream)


def rotate(
    x: Tensor,
    signs: Tensor,
    k_layout: bool,
    inverse: bool,
    center: Tensor | None = None,
    *,
    place: Place | None = None,
) -> None:
    check_rotate(x, signs, inverse, center)
    place = place or place_of(x.device)
    library, variant = place.registry.find(
        VariantKey(
            arch=place.arch, kind="rotate", tier=PORTABLE, query_dtype=QUERY_DTYPES[x.dtype], head_size=x.shape[2]
        )
    )
    made = launch.rotate_launch(variant, x, signs, k_layout, inverse, center)
    with place.current():
        launch.submit(library, made, place.stream)


def decode(*arguments: Any, place: Place | None = None, **by_name: Any) -> None:
    """decode, then reduce, on one stream; both kernels are found before the first is launched.

    Takes the fields of `DecodeArguments`.
    """
    a = DecodeArguments(*arguments, **by_name)
    layout = check_decode(a)
    place = place or place_of(a.query.device)
    dtype = QUERY_DTYPES[a.query.dtype]
    tier = decode_tier(place.arch, a.use_wmma, a.tier)
    check_block_size("decode", tier, a.cache.shape[2], by_name=a.tier is not None)
    decode_library, decode_variant = place.registry.find(
        VariantKey(
            arch=place.arch,
            kind="decode",
            tier=tier,
            query_dtype=dtype,
            head_size=layout.head_size,
            cache_dtype=dtype_of_fmt(a.fmt).name,
            slot_bytes=layout.slot_bytes,
            gqa_group=a.query.shape[1] // a.cache.shape[1],
            query_group=a.query_group,
        )
    )
    reduce_library, reduce_variant = place.registry.find(
        VariantKey(arch=place.arch, kind="reduce", tier=PORTABLE, query_dtype=dtype, head_size=layout.head_size)
    )
    partials = launch.decode_launch(
        decode_variant,
        a.query,
        a.cache,
        a.block_table,
        a.q_to_req,
        a.q_to_klen,
        a.mid_o,
        a.k_signs,
        a.sm_scale,
        a.num_kv_splits,
        a.group_starts,
    )
    merge = launch.reduce_launch(reduce_variant, a.mid_o, a.out, a.v_signs, a.num_kv_splits)
    with place.current():
        launch.submit(decode_library, partials, place.stream)
        launch.submit(reduce_library, merge, place.stream)


def prefill(*arguments: Any, place: Place | None = None, **by_name: Any) -> None:
    """The prefixes' kernel, then the chunks', on one stream; both are found before the first is launched.

    Takes the fields of `PrefillArguments`. Without a workspace it takes one from torch's allocator, which has it back
    when the call returns: what uses that memory next on this stream comes after the kernels.
    """
    a = PrefillArguments(*arguments, **by_name)
    layout = check_prefill(a)
    if 0 in (a.q.shape[0], a.seq_lens.shape[0], a.max_query_len):
        return
    place = place or place_of(a.q.device)
    tier = prefill_tier(place.arch, a.tier)
    check_block_size("prefill_prefix", tier, a.cache.shape[2], by_name=a.tier is not None)
    chunk_key = VariantKey(
        arch=place.arch,
        kind="prefill_chunk",
        tier=tier,
        query_dtype=QUERY_DTYPES[a.q.dtype],
        head_size=layout.head_size,
    )
    prefix_key = replace(
        chunk_key, kind="prefill_prefix", cache_dtype=dtype_of_fmt(a.fmt).name, slot_bytes=layout.slot_bytes
    )
    prefix_library, prefix_variant = place.registry.find(prefix_key)
    chunk_library, chunk_variant = place.registry.find(chunk_key)
    maps, splits = (a.cu_seqlens_q, a.seq_lens), a.num_kv_splits
    with place.current():
        partials = a.workspace
        if partials is None:
            shape = workspace_shape(a.q.shape[0], a.q.shape[1], splits, layout.head_size)
            partials = torch.empty(shape, dtype=torch.float32, device=a.q.device)
        prefix = launch.prefill_prefix_launch(
            prefix_variant, a.q, a.cache, a.block_table, *maps, partials, a.max_query_len, a.sm_scale, splits
        )
        chunk = launch.prefill_chunk_launch(
            chunk_variant, a.q, a.k, a.v, a.out, partials, *maps, a.max_query_len, a.sm_scale, splits
        )
        launch.submit(prefix_library, prefix, place.stream)
        launch.submit(chunk_library, chunk, place.stream)
