from __future__ import annotations

import itertools

import pytest

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.layout import FMTS, SlotLayout, geometry_problem, is_compact, whole_block_dims

HEADS = range(64, 513, 64)
K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4 = 3, 4, 19, 20, 51

# (head, rotary): slot bytes of compact, k3v3, k3v4 as the public implementation serves them
PUBLIC_SLOT_BYTES = {
    (64, 64): (52, 64, 72),
    (128, 64): (100, 112, 128),
    (192, 64): (None, 160, 184),
    (256, 64): (196, 216, 248),
    (256, 128): (196, 224, 256),
    (512, 128): (388, 424, 488),
}
ALL_LAYOUTS = [
    SlotLayout.of(head, rotary, fmt)
    for head in HEADS
    for rotary in range(64, head + 1, 64)
    for fmt in FMTS
    if geometry_problem(head, rotary, is_compact(fmt)) is None
]


@pytest.mark.parametrize("shape", PUBLIC_SLOT_BYTES)
def test_slot_bytes_of_the_public_table(shape: tuple[int, int]) -> None:
    for fmt, expected in zip((COMPACT, K3V3, K3V4), PUBLIC_SLOT_BYTES[shape], strict=True):
        if expected is None:
            with pytest.raises(OctaveError, match="power of two"):
                SlotLayout.of(*shape, fmt)
        else:
            assert SlotLayout.of(*shape, fmt).slot_bytes == expected


@pytest.mark.parametrize(
    ("fmt", "offsets"),
    [
        (K3V4, (32, 104, 232, 248)),
        (K3V3, (32, 104, 200, 216)),
        (COMPACT, (0, 96, 192, 196)),
        (COMPACT_V4, (0, 96, 224, 228)),
        (COMPACT_K4, (128, 128, 224, 228)),
    ],
)
def test_offsets_of_256_64(fmt: int, offsets: tuple[int, ...]) -> None:
    layout = SlotLayout.of(256, 64, fmt)
    assert (layout.k_planes.offset, layout.v.offset, layout.k_scales.offset, layout.slot_bytes) == offsets


@pytest.mark.parametrize("fmt", [COMPACT_V4, COMPACT_K4])
@pytest.mark.parametrize(("head", "slot_bytes"), [(64, 60), (128, 116), (256, 228), (512, 452)])
def test_compact_slots_with_one_side_of_4_bits_have_no_public_counterpart(head: int, slot_bytes: int, fmt: int) -> None:
    layout = SlotLayout.of(head, 64, fmt)
    assert layout.slot_bytes == slot_bytes == head * 3 // 8 + head // 2 + 2 * 2
    assert SlotLayout.of(head, 64, COMPACT).slot_bytes < slot_bytes < SlotLayout.of(head, 64, K3V4).slot_bytes


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=str)
def test_regions_tile_the_slot(layout: SlotLayout) -> None:
    regions = (layout.k_nibbles, layout.k_planes, layout.v, layout.k_scales, layout.v_scale, layout.pad)
    assert regions[0].offset == 0
    assert all(a.end == b.offset for a, b in itertools.pairwise(regions))
    assert regions[-1].end == layout.slot_bytes
    assert all(r.size * 8 == r.dims * r.bits for r in regions[:-1])
    assert layout.slot_bytes % layout.slot_align == 0
    assert layout.pad.size < layout.slot_align
    assert layout.k_nibbles.dims + layout.k_planes.dims == layout.v.dims == layout.head_size
    assert layout.k_blocks * layout.k_block_size == layout.head_size
    assert layout.k_scales.dims == layout.k_blocks
    # what kernels load as dwords starts on dwords; fp16 scales on even bytes
    for offset in (layout.k_planes.offset, layout.k_planes.high_plane, layout.v.offset, layout.v.high_plane):
        assert offset % 4 == 0
    assert layout.k_scales.offset % 4 == 0


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=str)
def test_slot_bytes_give_the_layout_back(layout: SlotLayout) -> None:
    assert SlotLayout.from_slot_bytes(layout.head_size, layout.slot_bytes, layout.fmt) == layout


@pytest.mark.parametrize("fmt", [K3V3, K3V4])
@pytest.mark.parametrize("head", HEADS)
def test_slot_sizes_are_never_ambiguous(head: int, fmt: int) -> None:
    sizes = [SlotLayout.of(head, rotary, fmt).slot_bytes for rotary in range(64, head + 1, 64)]
    assert sizes == list(range(sizes[0], sizes[0] + 8 * len(sizes), 8))


def test_impossible_slot_size_names_the_possible_ones() -> None:
    with pytest.raises(OctaveError) as caught:
        SlotLayout.from_slot_bytes(256, 217, K3V3)
    assert "217" in caught.value.what
    assert caught.value.hint == "possible: 216 (rotary 64), 224 (rotary 128), 232 (rotary 192), 240 (rotary 256)"
    with pytest.raises(OctaveError) as caught:
        SlotLayout.from_slot_bytes(256, 216, COMPACT)
    assert caught.value.hint == "possible: 196"


@pytest.mark.parametrize("fmt", [0, 2, 5, 12, 16, 18, 21, -12, 36])
def test_unknown_fmt(fmt: int) -> None:
    with pytest.raises(OctaveError, match="fmt"):
        SlotLayout.from_slot_bytes(256, 216, fmt)


@pytest.mark.parametrize(("head", "rotary"), [(96, 64), (256, 0), (256, 96), (256, 320), (0, 0), (640, 64), (-64, -64)])
@pytest.mark.parametrize("fmt", FMTS)
def test_impossible_shapes(head: int, rotary: int, fmt: int) -> None:
    with pytest.raises(OctaveError, match="multiple of 64"):
        SlotLayout.of(head, rotary, fmt)


def test_direct_construction_is_checked_too() -> None:
    with pytest.raises(OctaveError, match="multiple of 64"):
        SlotLayout(256, 0, False, 3, 3)
    with pytest.raises(OctaveError, match="all dims alike"):
        SlotLayout(256, 64, True, 3, 3)
    for k_bits, v_bits in ((3, 5), (5, 3), (3, 19)):
        with pytest.raises(OctaveError, match="3 or 4 bits"):
            SlotLayout(256, 0, True, k_bits, v_bits)
    with pytest.raises(OctaveError, match="fmt 35"):
        SlotLayout(256, 64, False, 4, 3)


@pytest.mark.parametrize("fmt", [COMPACT, COMPACT_V4, COMPACT_K4])
def test_compact_slots_do_not_depend_on_rotary_dims(fmt: int) -> None:
    assert SlotLayout.of(256, 64, fmt) == SlotLayout.of(256, 128, fmt)
    assert SlotLayout.of(256, 64, fmt).rotary_dims == 0


@pytest.mark.parametrize(
    ("head", "dims"), [(64, 64), (128, 128), (192, 64), (256, 256), (320, 64), (384, 64), (512, 512)]
)
def test_whole_head_rotation_falls_back_to_blocks(head: int, dims: int) -> None:
    assert whole_block_dims(head) == dims
    assert SlotLayout.of(head, 64, K3V3).v_block_size == dims


def test_template_constants_of_256_64_k3v4() -> None:
    assert list(SlotLayout.of(256, 64, K3V4).template_constants().items()) == [
        ("head_size", 256),
        ("compact", 0),
        ("fmt", 4),
        ("k_nibble_dims", 64),
        ("v_bits", 4),
        ("k_block_size", 64),
        ("k_blocks", 4),
        ("v_block_size", 256),
        ("k_nibble_offset", 0),
        ("k_plane_offset", 32),
        ("k_high_plane", 80),
        ("v_offset", 104),
        ("v_high_plane", 232),
        ("k_scale_offset", 232),
        ("v_scale_offset", 240),
        ("pad_offset", 242),
        ("slot_bytes", 248),
        ("slot_align", 8),
    ]


def test_c_constants_are_the_template_constants() -> None:
    for layout in (SlotLayout.of(256, 64, K3V3), SlotLayout.of(128, 64, COMPACT)):
        lines = layout.c_constants().splitlines()
        assert [int(line.split(" = ")[1].rstrip(";")) for line in lines] == list(layout.template_constants().values())
        assert all(line.startswith("static constexpr int k") for line in lines)
    assert "static constexpr int kSlotBytes = 216;\n" in SlotLayout.of(256, 64, K3V3).c_constants()


def test_three_bit_planes_meet() -> None:
    layout = SlotLayout.of(256, 64, K3V3)
    assert layout.k_planes.high_plane == 32 + 192 // 4
    assert layout.v.high_plane == 104 + 256 // 4
    assert layout.v.end - layout.v.high_plane == 256 // 8
