from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from octave_gen.errors import OctaveError
from octave_gen.kernels.base import kernarg_table
from octave_gen.runtime import launch
from octave_gen.runtime.library import Library, LoadedVariant


@dataclass
class Memory:
    """A tensor that exists nowhere: what an interpreter passes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return self.strides


KEY = Memory(0x1000, (9, 2, 128), (300, 140, 1))
VALUE = Memory(0x2000, (9, 2, 128), (320, 150, 1))
CACHE = Memory(0x7F00_0000_0000, (5, 2, 16, 112), (1 << 33, 2048, 128, 1))
SLOTS = Memory(0x3000, (7,), (1,))
K_SIGNS, V_SIGNS = Memory(0x4000, (4,), (1,)), Memory(0x5000, (4,), (1,))
QUERY = Memory(0x6000, (11, 8, 128), (1100, 130, 1))
OUT = Memory(0x7000, (11, 8, 128), (1200, 160, 1))
TABLE = Memory(0x8000, (3, 6), (10, 1))
Q_TO_REQ, Q_TO_KLEN = Memory(0x9000, (12,), (1,)), Memory(0xA000, (12,), (1,))
MID_O = Memory(0xB000, (12, 8, 32, 132), (40000, 5000, 140, 1))
GROUP_STARTS = Memory(0xC000, (7,), (1,))
CENTER = Memory(0xD000, (2, 128), (128, 1))


def variant_of(
    library: Library, kind: str, dtype: str = "fp16", query_group: int | None = None, tier: str = "portable"
) -> LoadedVariant:
    (found,) = [
        variant
        for variant in library.variants
        if (variant.key.kind, variant.key.query_dtype, variant.key.query_group, variant.key.tier)
        == (kind, dtype, query_group, tier)
    ]
    return found


@pytest.mark.parametrize(("arch", "threads"), [("gfx942", 256), ("gfx1100", 128)])
def test_store(arch: str, threads: int, make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(arch), "store", "bf16")
    made = launch.store_launch(variant, KEY, VALUE, CACHE, SLOTS, K_SIGNS, V_SIGNS)
    assert made.symbol == f"store_octave_k3v3_h128r64_plain_bf16_portable_{arch}"
    assert (made.grid, made.threads) == ((1, 2, 1), threads)  # 7 slots of a workgroup's 8 or more
    pointers = (0x1000, 0x2000, 0x7F00_0000_0000, 0x3000, 0x4000, 0x5000)
    strides = (300, 140, 320, 150, 1 << 33, 2048, 128)
    assert made.kernargs == struct.pack("<7Q7q2i", *pointers, 0, *strides, 7, 16)
    centered = launch.store_launch(variant, KEY, VALUE, CACHE, SLOTS, K_SIGNS, V_SIGNS, CENTER)
    assert centered.kernargs == struct.pack("<7Q7q2i", *pointers, 0xD000, *strides, 7, 16)


def test_rotate(make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(), "rotate")
    made = launch.rotate_launch(variant, KEY, K_SIGNS, k_layout=True, inverse=False)
    assert made == launch.Launch(
        symbol="rotate_h128_f16_portable_gfx942",
        grid=(3, 2, 1),
        threads=256,
        kernargs=struct.pack("<3Q2q3i", 0x1000, 0x4000, 0, 300, 140, 9, 1, 0),
    )
    inverse = launch.rotate_launch(variant, KEY, K_SIGNS, k_layout=False, inverse=True)
    assert inverse.kernargs[-12:] == struct.pack("<3i", 9, 0, 1)
    centered = launch.rotate_launch(variant, KEY, K_SIGNS, k_layout=True, inverse=False, center=CENTER)
    assert centered.kernargs[16:24] == struct.pack("<Q", 0xD000)


@pytest.mark.parametrize(("query_group", "groups"), [(1, 11), (4, 3)])
def test_decode(query_group: int, groups: int, make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library("gfx1100"), "decode", query_group=query_group)
    made = launch.decode_launch(variant, QUERY, CACHE, TABLE, Q_TO_REQ, Q_TO_KLEN, MID_O, K_SIGNS, 0.125, 32)
    assert made.symbol == f"decode_octave_k3v3_h128r64_g4_q{query_group}_f16_portable_gfx1100"
    assert (made.grid, made.threads) == ((groups, 2, 32), 256)
    pointers = (0x6000, 0x7F00_0000_0000, 0x8000, 0x9000, 0xA000, 0, 0xB000, 0x4000)
    strides = (1100, 130, 1 << 33, 2048, 128, 10, 40000, 5000, 140)
    assert made.kernargs == struct.pack("<8Q9q5if", *pointers, *strides, 11, groups, 3, 16, 32, 0.125)


@pytest.mark.parametrize("query_group", [1, 4])
def test_decode_of_groups_that_start_anywhere(query_group: int, make_library: Callable[..., Library]) -> None:
    """As many workgroups as groups, however many queries there are; nothing else of the launch is another."""
    variant = variant_of(make_library("gfx1100"), "decode", query_group=query_group)
    arguments = (variant, QUERY, CACHE, TABLE, Q_TO_REQ, Q_TO_KLEN, MID_O, K_SIGNS, 0.125, 32)
    made, without = launch.decode_launch(*arguments, GROUP_STARTS), launch.decode_launch(*arguments)
    assert made.grid == (7, 2, 32)
    kernargs = bytearray(without.kernargs)
    struct.pack_into("<Q", kernargs, 5 * 8, 0xC000)
    struct.pack_into("<2i", kernargs, 17 * 8, 11, 7)
    assert made.kernargs == kernargs


def test_workgroups_share_a_group_whose_rows_are_too_many_for_one(make_library: Callable[..., Library]) -> None:
    """Group 16 with 4 queries is 64 rows, of which a workgroup of the mfma tier holds 32."""
    variant = variant_of(make_library(gqa_groups=(16,)), "decode", query_group=4, tier="mfma")
    query = replace(QUERY, shape=(11, 32, 128))
    arguments = (variant, query, CACHE, TABLE, Q_TO_REQ, Q_TO_KLEN, MID_O, K_SIGNS, 0.125, 32)
    assert launch.decode_launch(*arguments).grid == (3 * 2, 2, 32)
    assert launch.decode_launch(*arguments, GROUP_STARTS).grid == (7 * 2, 2, 32)


def test_a_launch_of_few_workgroups_takes_the_kernel_with_more_waves(make_library: Callable[..., Library]) -> None:
    """11 queries and 2 kv heads: 22 workgroups for each split, on 304 CUs."""
    variant = variant_of(make_library(gqa_groups=(4,)), "decode", query_group=1, tier="mfma")

    def made(splits: int) -> launch.Launch:
        return launch.decode_launch(variant, QUERY, CACHE, TABLE, Q_TO_REQ, Q_TO_KLEN, MID_O, K_SIGNS, 0.125, splits)

    few, many = made(13), made(14)
    assert (few.symbol, few.threads, few.grid) == (f"{variant.symbol}_wide", 512, (11, 2, 13))
    assert (many.symbol, many.threads, many.grid) == (variant.symbol, 256, (11, 2, 14))
    assert [one.symbol for one in variant.kernels] == [many.symbol, few.symbol]


def test_each_kernel_of_a_variant_can_be_launched_alone(make_library: Callable[..., Library]) -> None:
    dense, wide = variant_of(make_library(gqa_groups=(4,)), "decode", query_group=1, tier="mfma").kernels
    arguments = (QUERY, CACHE, TABLE, Q_TO_REQ, Q_TO_KLEN, MID_O, K_SIGNS, 0.125)
    for splits in (1, 32):
        made = [launch.decode_launch(one, *arguments, splits) for one in (dense, wide)]
        assert [(one.symbol, one.threads) for one in made] == [(dense.symbol, 256), (wide.symbol, 512)]


def test_reduce(make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(), "reduce")
    made = launch.reduce_launch(variant, MID_O, OUT, V_SIGNS, 32)
    assert made == launch.Launch(
        symbol="reduce_h128_f16_portable_gfx942",
        grid=(11, 8, 1),
        threads=512,
        kernargs=struct.pack("<3Q5qi", 0xB000, 0x7000, 0x5000, 40000, 5000, 140, 1200, 160, 32),
    )


Q, OUT_Q = Memory(0x6000, (11, 12, 128), (1600, 136, 1)), Memory(0x7000, (11, 12, 128), (1664, 144, 1))
CHUNK_K, CHUNK_V = Memory(0x1000, (11, 2, 128), (304, 144, 1)), Memory(0x2000, (11, 2, 128), (320, 152, 1))
BOUNDS, LENGTHS = Memory(0x9000, (4,), (1,)), Memory(0xA000, (3,), (1,))


@pytest.mark.parametrize(("max_query_len", "tiles"), [(0, 0), (1, 1), (21, 1), (22, 2), (300, 15)])
def test_prefill_prefix(max_query_len: int, tiles: int, make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(), "prefill_prefix", "bf16", tier="mfma")
    made = launch.prefill_prefix_launch(
        variant, Q, CACHE, TABLE, BOUNDS, LENGTHS, MID_O, max_query_len, sm_scale=0.125, num_kv_splits=32
    )
    assert made.symbol == "prefill_prefix_octave_k3v3_h128r64_bf16_mfma_gfx942"
    assert (made.grid, made.threads) == ((tiles, 2, 96), 256)  # rows of 6 heads a token in tiles of 128
    pointers = (0x6000, 0x7F00_0000_0000, 0x8000, 0x9000, 0xA000, 0xB000)
    strides = (1600, 136, 1 << 33, 2048, 128, 10, 40000, 5000, 140)
    assert made.kernargs == struct.pack("<6Q9q3if", *pointers, *strides, 6, 16, 32, 0.125)


def test_prefill_chunk(make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(), "prefill_chunk", tier="mfma")
    made = launch.prefill_chunk_launch(
        variant, Q, CHUNK_K, CHUNK_V, OUT_Q, MID_O, BOUNDS, LENGTHS, 22, sm_scale=0.125, num_kv_splits=32
    )
    pointers = (0x6000, 0x1000, 0x2000, 0x7000, 0xB000, 0x9000, 0xA000)
    strides = (1600, 136, 304, 144, 320, 152, 1664, 144, 40000, 5000, 140)
    assert made == launch.Launch(
        symbol="prefill_chunk_h128_f16_mfma_gfx942",
        grid=(2, 2, 3),
        threads=256,
        kernargs=struct.pack("<7Q11q2if", *pointers, *strides, 6, 32, 0.125),
    )


def test_more_splits_of_requests_than_a_grid_counts(make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(), "prefill_prefix", tier="mfma")
    many = Memory(0xA000, (64,), (1,))
    with pytest.raises(OctaveError, match=r"cannot be launched .query_rows 6, kv_heads 2, request_splits 65536"):
        launch.prefill_prefix_launch(variant, Q, CACHE, TABLE, BOUNDS, many, MID_O, 1, 0.125, 1024)


def test_kernargs_end_where_the_table_ends(make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(), "decode", query_group=4)
    made = launch.decode_launch(variant, QUERY, CACHE, TABLE, Q_TO_REQ, Q_TO_KLEN, MID_O, K_SIGNS, 0.125, 32)
    last = kernarg_table(variant.arguments)[-1]
    assert len(made.kernargs) == last.offset + last.size


def test_torch_tensors_serve_too(make_library: Callable[..., Library]) -> None:
    x, signs = torch.zeros(3, 2, 128, dtype=torch.float16), torch.zeros(4, dtype=torch.int32)
    made = launch.rotate_launch(variant_of(make_library(), "rotate"), x, signs, True, True)
    assert made.kernargs == struct.pack("<3Q2q3i", x.data_ptr(), signs.data_ptr(), 0, 256, 128, 3, 1, 1)


@pytest.mark.parametrize(
    ("tokens", "heads"),
    [(1 << 26, 2), (4, 65536)],  # 2**24 workgroups of 256 threads; one more head than y counts
)
def test_grid_that_no_packet_holds(tokens: int, heads: int, make_library: Callable[..., Library]) -> None:
    variant = variant_of(make_library(), "rotate")
    with pytest.raises(OctaveError, match=f"cannot be launched .tokens {tokens}, heads {heads}"):
        launch.rotate_launch(variant, Memory(0, (tokens, heads, 128), (128, 128, 1)), K_SIGNS, True, False)
    fitting = Memory(0, (tokens - 4 if heads == 2 else tokens, min(heads, 65535), 128), (128, 128, 1))
    launch.rotate_launch(variant, fitting, K_SIGNS, True, False)


def test_argument_that_does_not_fit(make_library: Callable[..., Library]) -> None:
    cache = replace(CACHE, shape=(5, 2, 1 << 31, 112))
    with pytest.raises(OctaveError, match="block_size: 2147483648 does not fit"):
        launch.store_launch(variant_of(make_library(), "store"), KEY, VALUE, cache, SLOTS, K_SIGNS, V_SIGNS)


def test_submit(make_library: Callable[..., Library], host_ops: Any) -> None:
    library = make_library()
    host_ops.define(library.namespace)
    launch.submit(library, launch.Launch("name", (2, 3, 4), 256, b"\x01\x02\xff"), 0x7FFF_0000_1234)
    assert host_ops.calls == [(b"\x01\x02\xff", "name", [2, 3, 4], 256, 0x7FFF_0000_1234)]


@pytest.mark.parametrize("grid", [(0, 2, 1), (2, 0, 1), (2, 2, 0)])
def test_empty_grid_is_not_launched(grid: tuple[int, int, int], make_library: Any, host_ops: Any) -> None:
    library = make_library()
    host_ops.define(library.namespace)
    launch.submit(library, launch.Launch("name", grid, 256, b"\x01"), 0)
    assert host_ops.calls == []


@pytest.mark.parametrize(
    ("error", "what", "hint"),
    [("no HIP runtime\n  hint: install ROCm", "no HIP runtime", "install ROCm"), ("out of luck", "out of luck", None)],
)
def test_driver_error(error: str, what: str, hint: str | None, make_library: Any, host_ops: Any) -> None:
    library = make_library()
    host_ops.define(library.namespace)
    host_ops.error = error
    with pytest.raises(OctaveError) as raised:
        launch.submit(library, launch.Launch("store_x", (1, 1, 1), 256, b"\x01"), 0)
    assert (raised.value.what, raised.value.where, raised.value.hint) == (what, "store_x", hint)
