"""The drawings of docs/formats."""

from __future__ import annotations

import pytest

from octave_gen.build import format_pages
from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.octave import SlotLayout

PAGE = "docs/formats/octave.md"


def test_every_cache_dtype_has_its_map() -> None:
    blocks = format_pages.pages()[PAGE]
    assert {name.removeprefix("map-") for name in blocks if name.startswith("map-")} == set(CACHE_DTYPES)


@pytest.mark.parametrize("name", CACHE_DTYPES)
def test_a_map_names_slot_and_rate_of_both_heads(name: str) -> None:
    drawn = format_pages.pages()[PAGE][f"map-{name}"]()
    for head, rotary in format_pages.DRAWN:
        size = SlotLayout.of(head, rotary, CACHE_DTYPES[name].fmt).slot_bytes
        assert f"head {head}, rotary {rotary}: {size} bytes, {4 * size / head:.4g} bits per value\n" in drawn


def test_slot_bytes_and_shapes_that_no_slot_holds() -> None:
    rows = [line.strip("| \n").split(" | ") for line in format_pages.pages()[PAGE]["octave-slots"]().splitlines()]
    by_name = {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows}
    assert by_name["octave_k3v4"]["(256, 64)"] == "248"
    assert by_name["octave_k3v3_compact"]["(192, 64)"] == "–"
    assert by_name["octave_k3v3_compact"]["fmt"] == "19"


def test_the_codebooks_are_drawn_from_the_threshold_at_zero_on() -> None:
    drawn = format_pages.pages()[PAGE]["octave-codebooks"]().splitlines()
    assert "  int8                14      45      79     127" in drawn
    assert "  from                 0    29.5      62     103" in drawn


def test_a_dword_of_four_bit_codes_has_dims_0_to_3_in_its_low_nibbles() -> None:
    drawn = format_pages.pages()[PAGE]["octave-packing-4"]().splitlines()
    assert [line.split() for line in drawn[2:4]] == [
        ["bits", "7-4", "4", "5", "6", "7"],
        ["bits", "3-0", "0", "1", "2", "3"],
    ]
