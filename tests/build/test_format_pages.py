"""The drawings of docs/formats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from octave_gen.build import format_pages
from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.codecs import CODECS
from octave_gen.formats.octave import SlotLayout

INDEX, PAGE = "docs/formats.md", "docs/formats/octave.md"
ROOT = Path(__file__).parents[2]


def test_every_format_has_its_map_on_one_page_under_its_name() -> None:
    found = {}
    for path, blocks in format_pages.pages().items():
        for name in blocks:
            if name.startswith("map-"):
                found[name.removeprefix("map-")] = path
                heading = f"\n### {name.removeprefix('map-')}\n"
                assert (ROOT / path).read_text(encoding="utf-8").count(heading) == 1
    assert set(found) == {name.partition("+")[0] for name in CODECS}
    assert {name for name, path in found.items() if path == PAGE} == set(CACHE_DTYPES)


def test_the_index_lists_every_format_by_its_bytes() -> None:
    lines = format_pages.pages()[INDEX]["formats"]().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert sorted(re.findall(r"\[(\w+)\]", "".join(row[0] for row in rows))) == sorted(
        {name.partition("+")[0] for name in CODECS}
    )
    sizes = [int(row[1]) for row in rows]
    assert sizes == sorted(sizes)
    for name, page, anchor in (re.findall(r"\[(\w+)\]\((.*)#(.*)\)", row[0])[0] for row in rows):
        assert name == anchor
        assert f"map-{name}" in format_pages.pages()[f"docs/{page}"]
    (int8,) = [row for row in rows if "[int8]" in row[0]]
    assert int8[1:] == ["520", "8.125", "264", "8.25", ""]


@pytest.mark.parametrize("name", CACHE_DTYPES)
def test_a_map_names_slot_and_rate_of_both_heads(name: str) -> None:
    drawn = format_pages.pages()[PAGE][f"map-{name}"]()
    for head, rotary in format_pages.DRAWN:
        size = SlotLayout.of(head, rotary, CACHE_DTYPES[name].fmt).slot_bytes
        assert f"head {head}, rotary {rotary}: {size} bytes, {4 * size / head:.5g} bits per value\n" in drawn


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
