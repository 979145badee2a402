"""The launches that kernels are counted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch

from octave_gen.kernels import KINDS, decode_mfma
from octave_gen.plan import Variant
from octave_gen.profile.workload import METHODS
from octave_gen.verify.subject import Subject

GetSubject = Callable[[str], Subject]

STORE = "store_octave_{}_h256r64_f16_portable_gfx942"
DECODE = "decode_octave_{}_h256r64_g6_{}_f16_portable_gfx942"
ROTATE = "rotate_h256_f16_portable_gfx942"
REDUCE = "reduce_h256_f16_portable_gfx942"


def test_every_kind_has_a_method() -> None:
    assert list(METHODS) == list(KINDS)


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
    assert set(short.tensors) == pointers - {"group_starts"}, "only group_starts may be null"
    assert short.launch.symbol == name


def test_lengths_hold_whole_tiles(variants: Mapping[str, Variant]) -> None:
    tiles = {
        variant.tier.constants(variant.shape, variant.arch)["tile_tokens"]
        for variant in variants.values()
        if (variant.kind.name, variant.tier.name) == ("decode", "portable")
    }
    assert tiles
    for tile in tiles | {decode_mfma.TILE * decode_mfma.WAVES}:
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
