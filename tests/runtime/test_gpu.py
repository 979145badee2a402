from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from octave_gen.errors import OctaveError
from octave_gen.formats.octave import DEFAULT_ENCODER
from octave_gen.runtime import gpu
from octave_gen.runtime.dispatch import Registry
from octave_gen.runtime.library import Library

Arguments = dict[str, Any]
STREAM = 0x5_0000_1000


@pytest.fixture
def library(make_library: Callable[..., Library], host_ops: Any) -> Library:
    made = make_library()
    host_ops.define(made.namespace)
    return made


def place(*libraries: Library, arch: str = "gfx942") -> gpu.Place:
    return gpu.Place(arch, STREAM, Registry(libraries))


def test_cache_store(library: Library, host_ops: Any, store_arguments: Arguments) -> None:
    gpu.cache_store(**store_arguments, encoder="plain", place=place(library))
    ((kernargs, symbol, grid, threads, stream),) = host_ops.calls
    assert symbol == "store_octave_k3v3_h128r64_plain_f16_portable_gfx942"
    assert (grid, threads, stream) == ([1, 2, 1], 256, STREAM)
    a = store_arguments
    pointers = [a[name].data_ptr() for name in ("key", "value", "cache", "slot_mapping", "k_signs", "v_signs")]
    strides = (256, 128, 256, 128, 2 * 16 * 112, 16 * 112, 112)
    assert kernargs == struct.pack("<7Q7q2i", *pointers, 0, *strides, 7, 16)


def test_the_center_and_the_encoder(
    make_library: Callable[..., Library], host_ops: Any, store_arguments: Arguments, rotate_arguments: Arguments
) -> None:
    made = make_library(encoders=("plain", "search"))
    host_ops.define(made.namespace)
    k_center, center = torch.ones(2, 128, dtype=torch.float16), torch.ones(3, 128, dtype=torch.float16)
    for encoder in (None, "plain", "search"):
        gpu.cache_store(**store_arguments, encoder=encoder, k_center=k_center, place=place(made))
    gpu.rotate(**rotate_arguments, center=center, place=place(made))
    *stores, rotate = host_ops.calls
    assert [call[1].split("_")[4] for call in stores] == [DEFAULT_ENCODER, "plain", "search"]
    assert all(call[0][48:56] == struct.pack("<Q", k_center.data_ptr()) for call in stores)
    assert rotate[0][16:24] == struct.pack("<Q", center.data_ptr())


def test_an_encoder_that_is_not_loaded(library: Library, host_ops: Any, store_arguments: Arguments) -> None:
    with pytest.raises(OctaveError) as raised:
        gpu.cache_store(**store_arguments, encoder="search", place=place(library))
    assert raised.value.what == (
        "no loaded library holds the kernel store on gfx942: octave_k3v3, head_size 128, rotary_dims 64, "
        "encoder search, fp16, portable tier\n  loaded with other encoder: plain; a call names it: encoder='plain'"
    )
    assert raised.value.hint == (
        "`octave-gen build --arch gfx942` builds store_octave_k3v3_h128r64_search_f16_portable_gfx942; "
        "then octave_gen.load('gfx942')"
    )
    assert not host_ops.calls


def test_rotate(library: Library, host_ops: Any, rotate_arguments: Arguments) -> None:
    rotate_arguments["x"] = rotate_arguments["x"].bfloat16()
    gpu.rotate(**rotate_arguments, place=place(library))
    ((kernargs, symbol, grid, threads, stream),) = host_ops.calls
    assert symbol == "rotate_h128_bf16_portable_gfx942"
    assert (grid, threads, stream) == ([2, 3, 1], 256, STREAM)
    assert kernargs[-12:] == struct.pack("<3i", 5, 1, 0)


@pytest.mark.parametrize(("query_group", "groups"), [(1, 6), (4, 2)])
def test_decode(query_group: int, groups: int, library: Library, host_ops: Any, decode_arguments: Arguments) -> None:
    decode_arguments["query_group"] = query_group
    gpu.decode(**decode_arguments, place=place(library))
    partials, merge = host_ops.calls
    assert partials[1] == f"decode_octave_k3v3_h128r64_g4_q{query_group}_f16_portable_gfx942"
    assert partials[2:] == ([groups, 2, 2], 256, STREAM)
    assert merge[1] == "reduce_h128_f16_portable_gfx942"
    assert merge[2:] == ([6, 8, 1], 512, STREAM)
    mid_o = decode_arguments["mid_o"].data_ptr()
    assert struct.unpack_from("<2Q", partials[0], 40) == (0, mid_o)  # no group_starts
    assert struct.unpack_from("<2Q", merge[0]) == (mid_o, decode_arguments["out"].data_ptr())


def test_decode_and_reduce_of_two_libraries(
    library: Library, make_library: Callable[..., Library], host_ops: Any, decode_arguments: Arguments
) -> None:
    users = make_library(gqa_groups=(8,))
    host_ops.define(users.namespace)
    for name in ("out", "query"):
        decode_arguments[name] = decode_arguments[name].repeat(1, 2, 1)
    decode_arguments["mid_o"] = decode_arguments["mid_o"].repeat(1, 2, 1, 1)
    gpu.decode(**decode_arguments, place=place(users, library))
    assert [call[1] for call in host_ops.calls] == [
        "decode_octave_k3v3_h128r64_g8_q4_f16_portable_gfx942",
        "reduce_h128_f16_portable_gfx942",
    ]


def test_nothing_is_launched_when_a_kernel_is_missing(
    library: Library, host_ops: Any, decode_arguments: Arguments
) -> None:
    for name in ("out", "query"):
        decode_arguments[name] = decode_arguments[name][:, :6]
    with pytest.raises(OctaveError, match=r"gqa_group 3[\s\S]*loaded with other gqa_group: 4"):
        gpu.decode(**decode_arguments, place=place(library))
    assert host_ops.calls == []


def test_matrix_tier(library: Library, host_ops: Any, decode_arguments: Arguments) -> None:
    decode_arguments["use_wmma"] = True
    gpu.decode(**decode_arguments, place=place(library))
    partials, merge = host_ops.calls
    # 8 workgroups, fewer than the chip has CUs
    assert partials[1] == "decode_octave_k3v3_h128r64_g4_q4_f16_mfma_gfx942_wide"
    assert partials[2:] == ([2, 2, 2], 512, STREAM)
    assert merge[1] == "reduce_h128_f16_portable_gfx942"


@pytest.mark.parametrize("use_wmma", [False, True])
@pytest.mark.parametrize(("tier", "kernel"), [("portable", ""), ("mfma", "_wide")])
def test_a_tier_by_name(
    library: Library, host_ops: Any, decode_arguments: Arguments, tier: str, kernel: str, use_wmma: bool
) -> None:
    gpu.decode(**decode_arguments | {"tier": tier, "use_wmma": use_wmma}, place=place(library))
    assert host_ops.calls[0][1] == f"decode_octave_k3v3_h128r64_g4_q4_f16_{tier}_gfx942{kernel}"


def test_prefill_of_a_tier_by_name(library: Library, host_ops: Any, prefill_arguments: Arguments) -> None:
    gpu.prefill(**prefill_arguments, tier="mfma", place=place(library))
    assert [call[1] for call in host_ops.calls] == [
        "prefill_prefix_octave_k3v3_h128r64_f16_mfma_gfx942",
        "prefill_chunk_h128_f16_mfma_gfx942",
    ]


def test_an_unknown_tier_launches_nothing(
    library: Library, host_ops: Any, decode_arguments: Arguments, prefill_arguments: Arguments
) -> None:
    with pytest.raises(OctaveError, match=r"gfx942 has no tier 'fast' of decode[\s\S]*tiers: portable, mfma"):
        gpu.decode(**decode_arguments, tier="fast", place=place(library))
    with pytest.raises(OctaveError, match=r"gfx942 has no tier 'fast' of prefill[\s\S]*tiers: mfma"):
        gpu.prefill(**prefill_arguments, tier="fast", place=place(library))
    assert host_ops.calls == []


def test_matrix_tier_is_not_replaced(library: Library, host_ops: Any, decode_arguments: Arguments) -> None:
    decode_arguments["use_wmma"] = True
    others = replace(library, variants=tuple(v for v in library.variants if v.key.tier == "portable"))
    with pytest.raises(OctaveError, match=r"no loaded library holds .* mfma tier[\s\S]*other tier: portable"):
        gpu.decode(**decode_arguments, place=place(others))
    assert host_ops.calls == []


def test_library_of_another_arch(library: Library, host_ops: Any, rotate_arguments: Arguments) -> None:
    with pytest.raises(OctaveError, match=r"rotate on gfx1100[\s\S]*other arch: gfx942[\s\S]*build --arch gfx1100"):
        gpu.rotate(**rotate_arguments, place=place(library, arch="gfx1100"))


@pytest.mark.parametrize(
    ("op", "change"),
    [
        ("cache_store", {}),
        ("rotate", {}),
        ("decode", {"use_wmma": False}),
        ("decode", {"use_wmma": True}),
        ("prefill", {}),
    ],
)
@pytest.mark.parametrize("arch", ["gfx906", "gfx90a", "gfx9999"])
def test_a_chip_without_kernels_says_what_works(
    arch: str, op: str, change: Arguments, library: Library, host_ops: Any, request: pytest.FixtureRequest
) -> None:
    arguments = request.getfixturevalue(f"{op.removeprefix('cache_')}_arguments") | change
    with pytest.raises(OctaveError) as caught:
        getattr(gpu, op)(**arguments, place=place(library, arch=arch))
    reason = "no arch that octave-gen knows" if arch == "gfx9999" else f"{arch} is not supported"
    assert reason in caught.value.what
    assert caught.value.hint == "pass CPU tensors, which the reference serves"
    assert host_ops.calls == []


def test_prefill(library: Library, host_ops: Any, prefill_arguments: Arguments) -> None:
    gpu.prefill(**prefill_arguments, place=place(library))
    prefix, chunk = host_ops.calls
    a = prefill_arguments
    assert prefix[1] == "prefill_prefix_octave_k3v3_h128r64_f16_mfma_gfx942"
    assert chunk[1] == "prefill_chunk_h128_f16_mfma_gfx942"
    assert prefix[2:] == (
        [1, 2, 6],
        256,
        STREAM,
    )  # 5 tokens of 4 heads in tiles of 128; 2 kv heads; 3 requests, 2 splits
    assert chunk[2:] == ([1, 2, 3], 256, STREAM)
    maps = [a[name].data_ptr() for name in ("cu_seqlens_q", "seq_lens")]
    workspace = a["workspace"].data_ptr()
    pointers = [*(a[name].data_ptr() for name in ("q", "cache", "block_table")), *maps, workspace]
    strides = (1024, 128, 2 * 16 * 112, 16 * 112, 112, 3, 8 * 2 * 130, 2 * 130, 130)
    assert prefix[0] == struct.pack("<6Q9q3if", *pointers, *strides, 4, 16, 2, 128**-0.5)
    pointers = [*(a[name].data_ptr() for name in ("q", "k", "v", "out")), workspace, *maps]
    strides = (1024, 128, 256, 128, 256, 128, 1024, 128, 8 * 2 * 130, 2 * 130, 130)
    assert chunk[0] == struct.pack("<7Q11q2if", *pointers, *strides, 4, 2, 128**-0.5)


def test_prefill_takes_a_workspace_of_its_own(library: Library, host_ops: Any, prefill_arguments: Arguments) -> None:
    given = prefill_arguments.pop("workspace")
    gpu.prefill(**prefill_arguments, place=place(library))
    prefix, chunk = host_ops.calls
    (written,), (read,) = struct.unpack_from("<Q", prefix[0], 40), struct.unpack_from("<Q", chunk[0], 32)
    assert written == read != given.data_ptr()
    assert prefix[0][96:120] == struct.pack("<3q", 8 * 2 * 130, 2 * 130, 130)


def test_prefill_without_a_kernel_launches_nothing(
    library: Library, host_ops: Any, prefill_arguments: Arguments
) -> None:
    without_prefill = replace(library, variants=[v for v in library.variants if not v.key.kind.startswith("prefill")])
    with pytest.raises(
        OctaveError, match=r"prefill_prefix on gfx942: octave_k3v3, head_size 128, rotary_dims 64, fp16"
    ):
        gpu.prefill(**prefill_arguments, place=place(without_prefill))
    only_prefix = replace(library, variants=[v for v in library.variants if v.key.kind != "prefill_chunk"])
    with pytest.raises(OctaveError, match="prefill_chunk on gfx942: head_size 128, fp16, mfma tier"):
        gpu.prefill(**prefill_arguments, place=place(only_prefix))
    assert host_ops.calls == []


def test_prefill_of_a_block_size_that_the_tier_cannot_read(
    library: Library, host_ops: Any, prefill_arguments: Arguments
) -> None:
    prefill_arguments["cache"] = prefill_arguments["cache"][:, :, :12]
    message = (
        "octave.prefill: block size 12 is no multiple of 16, as the mfma tier needs\n  hint: choose another block size"
    )
    with pytest.raises(OctaveError, match=message):
        gpu.prefill(**prefill_arguments, place=place(library))
    assert host_ops.calls == []


def test_nothing_to_prefill(library: Library, host_ops: Any, prefill_arguments: Arguments) -> None:
    here = place(library)
    gpu.prefill(**{**prefill_arguments, "max_query_len": 0}, place=here)
    empty = {name: prefill_arguments[name][:0] for name in ("out", "q", "k", "v")}
    gpu.prefill(**{**prefill_arguments, **empty}, place=here)
    none = {"cu_seqlens_q": prefill_arguments["cu_seqlens_q"][:1], "seq_lens": prefill_arguments["seq_lens"][:0]}
    gpu.prefill(**{**prefill_arguments, **none}, place=here)
    assert host_ops.calls == []


def test_nothing_to_do(
    library: Library,
    host_ops: Any,
    store_arguments: Arguments,
    rotate_arguments: Arguments,
    decode_arguments: Arguments,
) -> None:
    here = place(library)
    for name in ("key", "value", "slot_mapping"):
        store_arguments[name] = store_arguments[name][:0]
    gpu.cache_store(**store_arguments, encoder="plain", place=here)
    rotate_arguments["x"] = rotate_arguments["x"][:0]
    gpu.rotate(**rotate_arguments, place=here)
    for name in ("out", "query"):
        decode_arguments[name] = decode_arguments[name][:0]
    gpu.decode(**decode_arguments, place=here)
    assert host_ops.calls == []


def test_driver_error(library: Library, host_ops: Any, rotate_arguments: Arguments) -> None:
    host_ops.error = "no AMD GPU is visible"
    with pytest.raises(OctaveError, match="rotate_h128_f16_portable_gfx942: no AMD GPU is visible"):
        gpu.rotate(**rotate_arguments, place=place(library))


class Properties:
    gcnArchName = "gfx942:sramecc+:xnack-"  # noqa: N815


class Stream:
    cuda_stream = 77


def test_place_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "7.2")
    monkeypatch.setattr(torch.cuda, "get_device_properties", {1: Properties()}.get)
    monkeypatch.setattr(torch.cuda, "current_stream", {torch.device("cuda:1"): Stream()}.get)
    gpu.arch_of_device.cache_clear()
    found = gpu.place_of(torch.device("cuda:1"))
    gpu.arch_of_device.cache_clear()
    assert (found.arch, found.stream, found.device) == ("gfx942", 77, torch.device("cuda:1"))


def test_gpu_of_another_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    gpu.arch_of_device.cache_clear()
    with pytest.raises(OctaveError, match=r"cuda:0: the GPU kernels are for AMD GPUs[\s\S]*ROCm build"):
        gpu.arch_of_device(0)


def test_gpu_implementations_are_registered() -> None:
    for name in ("cache_store", "decode", "prefill", "rotate"):
        for key in ("CPU", "CUDA", "Meta"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(f"octave::{name}", key)


@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.version.hip is not None, reason="needs a GPU that is not AMD's"
)
def test_tensors_on_a_gpu_of_another_vendor(rotate_arguments: Arguments) -> None:
    on_gpu = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in rotate_arguments.items()}
    with pytest.raises(OctaveError, match="the GPU kernels are for AMD GPUs"):
        torch.ops.octave.rotate(**on_gpu)
    on_gpu["signs"] = rotate_arguments["signs"]
    with pytest.raises(OctaveError, match="different devices: x on cuda:0, signs on cpu"):
        torch.ops.octave.rotate(**on_gpu)
