"""The launches that kernels are counted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import prefill_stand_in
import pytest
import torch

from octave_gen.arch import ARCHS
from octave_gen.kernels import KINDS, decode_matrix
from octave_gen.kernels.base import Geometry, Shape, kernarg_table
from octave_gen.plan import Variant
from octave_gen.profile.workload import CENTERED, METHODS
from octave_gen.runtime.library import LoadedVariant, VariantKey
from octave_gen.spec.fields import WORK
from octave_gen.verify.subject import Subject

GetSubject = Callable[[str], Subject]

STORE = "store_octave_{}_h256r64_plain_f16_portable_gfx942"
DECODE = "decode_octave_{}_h256r64_g6_{}_f16_portable_gfx942"
ROTATE = "rotate_h256_f16_portable_gfx942"
REDUCE = "reduce_h256_f16_portable_gfx942"


def test_every_kind_has_a_method() -> None:
    assert list(METHODS) == list(WORK) == list(KINDS)


@pytest.fixture
def prefill(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Subject]:
    """A subject of one of prefill's kinds, head 256, whose row tile has the given rows."""

    def make(kind: str, rows: int = 128) -> Subject:
        prefill_stand_in.register(monkeypatch)
        tier = KINDS[kind].tiers[0]
        grid = tier.geometry(Shape("octave", 256, "f16"), ARCHS["gfx942"]).grid
        cached = {"cache_dtype": "octave_k3v3", "slot_bytes": 216} if kind == "prefill_prefix" else {}
        key = VariantKey("gfx942", kind, "mfma", "fp16", 256, **cached)
        geometry = Geometry(256, (replace(grid[0], per_workgroup=rows), *grid[1:]))
        return Subject(LoadedVariant(kind, kind, key, tier.arguments, geometry))

    return make


@pytest.mark.parametrize(("rows", "workgroups", "units"), [(128, 1, 1), (64, 2, 1), (96, 4, 3), (256, 1, 2)])
def test_prefixes_are_counted_for_whole_row_tiles(
    rows: int, workgroups: int, units: int, prefill: Callable[..., Subject]
) -> None:
    one = prefill("prefill_prefix", rows)
    method = METHODS["prefill_prefix"]
    short, long = (method.workload(one, length) for length in method.lengths)
    assert short.launch.grid == long.launch.grid == (workgroups, 1, 1)
    assert [short.work, long.work] == [192 * units, 384 * units]
    queries = len(short.tensors["q"])
    assert queries == rows * workgroups == 128 * units
    assert long.tensors["seq_lens"].tolist() == [384 + queries]
    assert long.tensors["cu_seqlens_q"].tolist() == [0, queries]
    assert long.tensors["cache"].shape == (24, 1, 16, 216)
    assert method.least_bytes(one) == 216
    pointers = {a.name for a in one.variant.arguments if a.type.value_kind == "global_buffer"}
    assert set(long.tensors) == pointers


@pytest.mark.parametrize("rows", [64, 128])
def test_chunks_of_two_lengths_have_the_same_rows_and_diagonal(rows: int, prefill: Callable[..., Subject]) -> None:
    one = prefill("prefill_chunk", rows)
    method = METHODS["prefill_chunk"]
    short, long = (method.workload(one, length) for length in method.lengths)
    assert short.launch.grid == (128 // rows, 1, 2)
    assert long.launch.grid == (256 // rows, 1, 1)
    seen = [sum(n * (n + 1) // 2 for n in w.tensors["seq_lens"].tolist()) for w in (short, long)]
    assert long.work - short.work == (seen[1] - seen[0]) // 128 == 128
    assert short.tensors["cu_seqlens_q"].tolist() == [0, 128, 256]
    assert long.tensors["cu_seqlens_q"].tolist() == [0, 256]
    assert method.least_bytes(one) == 512 + 512
    pointers = {a.name for a in one.variant.arguments if a.type.value_kind == "global_buffer"}
    assert set(long.tensors) == pointers


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (DECODE.format("k3v4", "q1"), 248),
        (DECODE.format("k3v3", "q4"), 216),
        (DECODE.format("k3v3_compact", "q1"), 196),
        (STORE.format("k3v4"), 512 + 512 + 248),
        (ROTATE, 512 + 512),
        (REDUCE, 4 * 258),
    ],
)
def test_least_bytes(name: str, expected: int, subject: GetSubject) -> None:
    """A slot; K, V and a slot; a vector in and out; a partial of 256 outputs, maximum and sum in fp32."""
    one = subject(name)
    assert METHODS[one.kind].least_bytes(one) == expected


@pytest.mark.parametrize("name", [STORE.format("k3v3"), ROTATE, DECODE.format("k3v3", "q4"), REDUCE])
def test_a_longer_launch_has_more_of_the_same_work(name: str, subject: GetSubject) -> None:
    one = subject(name)
    short, long = (METHODS[one.kind].workload(one, length) for length in METHODS[one.kind].lengths)
    assert (short.work, long.work) == METHODS[one.kind].lengths
    assert set(short.tensors) == set(long.tensors)
    pointers = {a.name for a in one.variant.arguments if a.type.value_kind == "global_buffer"}
    assert set(short.tensors) == pointers - {"group_starts", "k_center", "center"}, "no others may be null"
    assert short.launch.symbol == name


@pytest.mark.parametrize(("name", "center"), [(STORE.format("k3v3"), "k_center"), (ROTATE, "center")])
def test_the_same_launch_with_a_center(name: str, center: str, subject: GetSubject) -> None:
    one = subject(name)
    method = METHODS[one.kind]
    centered, plain = (make(one, method.lengths[0]) for make in (CENTERED[one.kind], method.workload))
    assert set(centered.tensors) - set(plain.tensors) == {center}
    assert centered.tensors[center].shape == (1, 256)
    address = centered.tensors[center].data_ptr()
    offset = next(entry.offset for entry in kernarg_table(one.variant.arguments) if entry.name == center)
    assert int.from_bytes(centered.launch.kernargs[offset : offset + 8], "little") == address
    assert (centered.work, centered.launch.grid) == (plain.work, plain.launch.grid)


def test_lengths_hold_whole_tiles(variants: Mapping[str, Variant]) -> None:
    tiles = {
        variant.tier.constants(variant.shape, variant.arch)["tile_tokens"]
        for variant in variants.values()
        if (variant.kind.name, variant.tier.name) == ("decode", "portable")
    }
    assert tiles
    for tile in tiles | {decode_matrix.TILE * decode_matrix.WAVES}:
        assert [length % tile for length in METHODS["decode"].lengths] == [0, 0]
    for kind in ("store", "rotate"):
        assert [length % 4 for length in METHODS[kind].lengths] == [0, 0]
    assert [length % (8 * 64) for length in METHODS["reduce"].lengths] == [0, 0]


def test_a_launch_is_one_kv_head_one_query_group_and_one_split(subject: GetSubject) -> None:
    workload = METHODS["decode"].workload(subject(DECODE.format("k3v3", "q4")), 192)
    assert workload.launch.grid == (1, 1, 1)
    assert workload.tensors["q_to_klen"].tolist() == [189, 190, 191, 192]
    assert workload.tensors["q_to_req"].tolist() == [0, 0, 0, 0]
    assert workload.tensors["query"].shape == (4, 6, 256)
    assert workload.tensors["cache"].shape == (12, 1, 16, 216)


def test_the_inputs_are_finite_and_the_same_each_time(subject: GetSubject) -> None:
    one = subject(DECODE.format("k3v3", "q1"))
    first, second = (METHODS["decode"].workload(one, 64).tensors for _ in range(2))
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name])
        assert tensor.dtype == torch.uint8 or torch.isfinite(tensor.double()).all()
    assert first["cache"].any()
