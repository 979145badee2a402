"""Byte maps: that drawings show every byte once, and that the maps say which bytes do what."""

from __future__ import annotations

import pytest
import torch

from octave_gen.formats.bitmap import draw as draw_bits
from octave_gen.formats.bitmap import places
from octave_gen.formats.bytemap import Field, draw
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codec import dequantize, quantize
from octave_gen.formats.octave.layout import FMTS
from octave_gen.formats.octave.packing import pack, unpack

LAYOUTS = [SlotLayout.of(head, rotary, fmt) for head, rotary in ((64, 64), (128, 64), (256, 128)) for fmt in FMTS]


def test_a_drawing() -> None:
    fields = [Field("K codes", 0, 66, 4), Field("V pair", 66, 1, 8, count=2, stride=3), Field("none", 66, 0, 3)]
    fields += [Field("V codes", 67, 2, 4), Field("zero", 70, 1)]
    assert draw(fields, 71) == (
        "      0               16              32              48\n"
        f"   0  {'A' * 64}\n"
        "  64  AABCCB.\n"
        "\n"
        "    bytes             size  bits  what\n"
        "A   0-65                66     4  K codes\n"
        "B   66, +3, …        2 x 1     8  V pair\n"
        "C   67-68                2     4  V codes\n"
        ".   70                   1        zero\n"
    )


@pytest.mark.parametrize(
    "fields",
    [
        [Field("K", 0, 4, 4)],
        [Field("K", 0, 4, 4), Field("V", 3, 5, 4)],
        [Field("K", 0, 4, 4), Field("V", 5, 3, 4)],
        [Field("K", 0, 4, 4), Field("V", 4, 5, 4)],
    ],
)
def test_fields_that_are_not_the_slot(fields: list[Field]) -> None:
    with pytest.raises(ValueError, match="field"):
        draw(fields, 8)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_bytes_of_a_field_do_what_it_says(layout: SlotLayout) -> None:
    g = torch.Generator().manual_seed(0)
    key, value = torch.randn(2, 3, layout.head_size, generator=g)
    slots = quantize(key, value, layout)
    k, v = dequantize(slots, layout)
    draw(layout.byte_map(), layout.slot_bytes)
    for field in layout.byte_map():
        for offset in field.offsets:
            changed = slots.clone()
            changed[:, offset] ^= 0x11  # a bit of every code, and one of a scale's fraction
            other_k, other_v = dequantize(changed, layout)
            assert torch.equal(other_k, k) == (field.what[0] != "K"), (field, offset)
            assert torch.equal(other_v, v) == (field.what[0] != "V"), (field, offset)


@pytest.mark.parametrize("bits", [3, 4])
def test_places_are_where_codes_go(bits: int) -> None:
    codes = torch.randint(2**bits, (64,), generator=torch.Generator().manual_seed(bits)).to(torch.uint8)
    packed = [
        sum((int(codes[dim]) >> bit & 1) << at for at, (dim, bit) in enumerate(byte))
        for byte in places(lambda x: pack(x, bits), 64, bits)
    ]
    assert unpack(torch.tensor(packed, dtype=torch.uint8), bits).tolist() == codes.tolist()


def test_a_drawing_of_bits() -> None:
    drawn = draw_bits(lambda codes: pack(codes, 3), 32, 3, word_bytes=4).split("\n\n")
    assert len(drawn) == 3
    assert drawn[0].splitlines()[-1].split() == ["bits", "1-0", "0:1-0", "1:1-0", "2:1-0", "3:1-0"]
    assert drawn[2].splitlines()[1].split() == ["bit", "7", "28:2", "29:2", "30:2", "31:2"]


def test_packing_that_loses_bits_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="one to one"):
        places(lambda codes: pack(codes & 7, 4), 8, 4)
