"""Kernel arguments: the kernarg segment's table and its packing agree with each other and with the convention."""

from __future__ import annotations

import struct

import pytest

from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import F32, I32, I64, POINTER_KIND, Argument, Tier, kernarg_table, pack_arguments, pointer

TIERS = [pytest.param(tier, id=f"{kind.name}-{tier.name}") for kind in KINDS.values() for tier in kind.tiers]

MIXED = (
    Argument("count", I32),
    Argument("data", pointer("float*")),
    Argument("scale", F32),
    Argument("stride", I64),
    Argument("last", I32),
)


def test_each_argument_is_aligned_to_its_size() -> None:
    table = [(entry.name, entry.offset, entry.size, entry.value_kind) for entry in kernarg_table(MIXED)]
    assert table == [
        ("count", 0, 4, "by_value"),
        ("data", 8, 8, "global_buffer"),
        ("scale", 16, 4, "by_value"),
        ("stride", 24, 8, "by_value"),
        ("last", 32, 4, "by_value"),
    ]


def test_packing_writes_zeros_between_and_nothing_behind() -> None:
    values = {"last": -2, "scale": 0.5, "stride": -3, "data": 0xFFFF_8000_0000_0010, "count": 7}
    packed = pack_arguments(MIXED, values)
    assert packed.hex() == ("0700000000000000100000000080ffff0000003f00000000fdfffffffffffffffeffffff")


def test_no_arguments_make_an_empty_segment() -> None:
    assert kernarg_table(()) == ()
    assert pack_arguments((), {}) == b""


@pytest.mark.parametrize(
    ("change", "wrong"),
    [({"last": None}, "last"), ({"more": 1}, "more"), ({"last": None, "more": 1, "count": None}, "count, last, more")],
)
def test_missing_and_unknown_arguments_are_named(change: dict[str, int | None], wrong: str) -> None:
    values = {**{argument.name: 1 for argument in MIXED}, **change}
    with pytest.raises(OctaveError, match=f"kernel arguments do not match: {wrong}$"):
        pack_arguments(MIXED, {name: value for name, value in values.items() if value is not None})


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_packs_each_value_where_its_table_says(tier: Tier) -> None:
    values: dict[str, int | float] = {
        argument.name: index + 0.5 if argument.type is F32 else index + 1
        for index, argument in enumerate(tier.arguments)
    }
    packed = pack_arguments(tier.arguments, values)
    table = kernarg_table(tier.arguments)
    covered = bytearray(len(packed))
    for argument, entry in zip(tier.arguments, table, strict=True):
        (value,) = struct.unpack_from("<" + argument.type.pack, packed, entry.offset)
        assert value == values[entry.name]
        assert entry.offset % entry.size == 0
        assert not any(covered[entry.offset : entry.offset + entry.size]), "arguments overlap"
        covered[entry.offset : entry.offset + entry.size] = bytes([1]) * entry.size
    assert len(packed) == table[-1].offset + table[-1].size


@pytest.mark.parametrize("tier", TIERS)
def test_arguments_are_named_once_and_typed_by_the_convention(tier: Tier) -> None:
    names = [argument.name for argument in tier.arguments]
    assert len(set(names)) == len(names)
    for argument in tier.arguments:
        assert struct.calcsize("<" + argument.type.pack) == argument.type.size
        assert (argument.type.value_kind == POINTER_KIND) == argument.type.c_type.endswith("*")
        if argument.name.endswith("_stride"):
            assert argument.type is I64, "cache pages lie beyond 2**31 bytes"


@pytest.mark.parametrize("tier", TIERS)
def test_pointers_come_first_then_64_bits_then_32(tier: Tier) -> None:
    """So that a segment has no holes."""
    sizes = [argument.type.size for argument in tier.arguments]
    assert sizes == sorted(sizes, reverse=True)
    assert len(pack_arguments(tier.arguments, {argument.name: 0 for argument in tier.arguments})) == sum(sizes)


def test_decode_and_reduce_agree_on_the_workspace() -> None:
    def shared(kind: str) -> dict[str, str]:
        arguments = KINDS[kind].tier("portable").arguments
        return {a.name: a.type.c_type for a in arguments if a.name.startswith("mid_") and a.name != "mid_o"}

    assert shared("decode") == shared("reduce")
    assert len(shared("decode")) == 3
