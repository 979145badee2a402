"""Kernel kinds: launch geometry, constants of tiers and what a tier refuses."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from octave_gen.arch import ARCHS, Arch
from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS, kind_of
from octave_gen.kernels.base import SCALARS, Extent, Geometry, KernelKind, Shape, Wide

EVERY = [pytest.param(kind, id=name) for name, kind in KINDS.items()]
PORTABLE = [pytest.param(KINDS[name], id=name) for name in ("store", "rotate", "decode", "reduce")]
CHIPS = [pytest.param(chip, id=name) for name, chip in ARCHS.items()]


def shape(gqa_group: int = 6, query_group: int = 4, head_size: int = 256) -> Shape:
    return Shape(
        family="octave",
        head_size=head_size,
        scalar="f16",
        cache_dtype="octave_k3v3",
        rotary_dims=64,
        gqa_group=gqa_group,
        query_group=query_group,
    )


@pytest.mark.parametrize(
    ("grid", "workgroups"),
    [
        ((Extent("tokens"),), (9, 1, 1)),
        ((Extent("tokens", 4), Extent("heads")), (3, 2, 1)),
        ((Extent("heads"), Extent("tokens", 9), Extent("tokens", 8)), (2, 1, 2)),
        ((Extent("none"), Extent("heads", 4)), (0, 1, 1)),
    ],
)
def test_grids_round_up(grid: tuple[Extent, ...], workgroups: tuple[int, int, int]) -> None:
    assert Geometry(64, grid).workgroups({"tokens": 9, "heads": 2, "none": 0}) == workgroups


def test_small_launches_may_have_a_kernel_of_their_own() -> None:
    dense = Geometry(256, (Extent("tokens"),))
    both = replace(dense, wide=Wide(512, 304))
    assert dense.kernels == {"": dense}
    assert both.kernels == {"": dense, "_wide": Geometry(512, dense.grid)}
    assert [both.kernel_for(workgroups) for workgroups in (1, 304, 305)] == ["_wide", "_wide", ""]
    assert dense.kernel_for(1) == ""


def test_decode_on_mfma_has_one_for_launches_of_a_workgroup_for_each_cu() -> None:
    for name, tier, wide in (("gfx942", "mfma", Wide(512, 304)), ("gfx1100", "wmma", None)):
        chip = ARCHS[name]
        assert KINDS["decode"].tier(tier).geometry(shape(), chip).wide == wide
        assert KINDS["decode"].tier("portable").geometry(shape(), chip).wide is None
    # A WGP takes the workgroups of two CUs.
    assert (ARCHS["gfx942"].workgroup_places, ARCHS["gfx1100"].workgroup_places) == (304, 48)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("chip", CHIPS)
def test_workgroups_are_whole_waves(kind: KernelKind, chip: Arch) -> None:
    for tier in kind.tiers:
        for geometry in tier.geometry(shape(), chip).kernels.values():
            assert geometry.threads % chip.wave_size == 0
            assert chip.wave_size <= geometry.threads <= 1024
            assert len(geometry.grid) <= 3


@pytest.mark.parametrize(
    ("kind", "counts", "gfx942", "gfx1100"),
    [
        ("store", {"tokens": 17, "kv_heads": 2}, (256, (2, 2, 1)), (128, (3, 2, 1))),
        ("rotate", {"tokens": 8, "heads": 12}, (256, (2, 12, 1)), (128, (2, 12, 1))),
        ("decode", {"queries": 9, "kv_heads": 2, "kv_splits": 32}, (256, (3, 2, 32)), (256, (3, 2, 32))),
        ("reduce", {"queries": 9, "heads": 13}, (512, (9, 13, 1)), (256, (9, 13, 1))),
    ],
)
def test_launches_of_the_portable_tier(
    kind: str,
    counts: dict[str, int],
    gfx942: tuple[int, tuple[int, int, int]],
    gfx1100: tuple[int, tuple[int, int, int]],
) -> None:
    tier = KINDS[kind].tier("portable")
    for name, expected in (("gfx942", gfx942), ("gfx1100", gfx1100)):
        geometry = tier.geometry(shape(), ARCHS[name])
        assert (geometry.threads, geometry.workgroups(counts)) == expected


@pytest.mark.parametrize("kind", EVERY)
def test_kinds_depend_on_fields_of_a_shape_and_have_an_op(kind: KernelKind) -> None:
    optional = {field.name for field in fields(Shape)} - {"family", "head_size", "scalar"}
    assert set(kind.fields) <= optional
    assert kind.op in ("cache_store", "decode", "prefill", "rotate")
    assert kind.purpose
    assert kind.tiers


def test_kinds_in_the_order_of_listings() -> None:
    assert list(KINDS) == ["store", "rotate", "decode", "reduce", "prefill_prefix", "prefill_chunk"]
    assert all(kind.name == name for name, kind in KINDS.items())
    assert SCALARS == {"fp16": "f16", "bf16": "bf16"}


def test_the_tiers_on_a_chip_are_those_it_offers() -> None:
    kind, chip = KINDS["decode"], ARCHS["gfx942"]
    matrix, other = (replace(kind.tiers[0], name=name) for name in ("matrix", "other"))
    more = replace(kind, tiers=(*kind.tiers, matrix, other))
    offered = more.tiers_on(replace(chip, tiers=("other", "portable")))
    assert [tier.name for tier in offered] == ["portable", "other"]
    assert more.tiers_on(replace(chip, tiers=())) == ()


def test_a_tier_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(OctaveError, match=r"decode has no tier 'scalar'\n  hint: it has portable, mfma, wmma"):
        KINDS["decode"].tier("scalar")


@pytest.mark.parametrize(("rows", "dims"), [((1, 1), 4), ((8, 4), 4), ((16, 2), 4), ((11, 3), 2), ((16, 4), 2)])
def test_decode_holds_fewer_dims_per_lane_for_many_rows(rows: tuple[int, int], dims: int) -> None:
    constants = KINDS["decode"].tier("portable").constants(shape(*rows), ARCHS["gfx942"])
    assert constants["value_dims_per_lane"] == dims
    assert (constants["gqa_group"], constants["query_group"]) == rows


def test_mfma_shares_a_query_group_out_in_the_largest_equal_parts_of_up_to_32_rows() -> None:
    tier, chip = KINDS["decode"].tier("mfma"), ARCHS["gfx942"]
    for gqa_group in range(1, 17):
        for query_group in range(1, 17):
            held = [n for n in range(1, query_group + 1) if query_group % n == 0 and n * gqa_group <= 32]
            of = shape(gqa_group, query_group)
            assert tier.geometry(of, chip).grid[0] == Extent("queries", max(held))
            constants = tier.constants(of, chip)
            assert (constants["queries"], constants["query_group"]) == (max(held), query_group)


@pytest.mark.parametrize("chip", CHIPS)
def test_decode_refuses_more_than_64_rows(chip: Arch) -> None:
    refuse = KINDS["decode"].tier("portable").refuse
    for gqa_group in range(1, 17):
        for query_group in range(1, 17):
            rows = gqa_group * query_group
            reason = f"the portable tier holds gqa_group × query_group up to 64, not {rows}" if rows > 64 else None
            assert refuse(shape(gqa_group, query_group), chip) == reason


@pytest.mark.parametrize("kind", PORTABLE)
def test_portable_is_the_first_tier(kind: KernelKind) -> None:
    assert kind.tiers[0].name == "portable"


@pytest.mark.parametrize("kind", PORTABLE)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_portable_tier_holds_heads_that_are_powers_of_two(kind: KernelKind, chip: Arch) -> None:
    refuse = kind.tier("portable").refuse
    for head_size in range(64, 513, 64):
        held = head_size in (64, 128, 256, 512)
        reason = None if held else f"the portable tier holds head_size 64, 128, 256 and 512, not {head_size}"
        assert refuse(shape(head_size=head_size), chip) == reason


def test_the_kind_that_begins_a_name() -> None:
    assert kind_of("store_octave_k3v3_h256r64_plain_f16_portable_gfx942") == "store"
    assert kind_of("storage_h256") is None
    assert kind_of("reduce") is None
    assert kind_of("prefill_chunk_h256_f16_mfma_gfx942") == "prefill_chunk"
    assert kind_of("prefill_h256_f16_mfma_gfx942") is None
