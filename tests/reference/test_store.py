from __future__ import annotations

import pytest
import torch

from octave_gen.errors import OctaveError
from octave_gen.formats.octave import ENCODERS, SlotLayout
from octave_gen.formats.octave.codec import quantize
from octave_gen.reference.store import cache_store

LAYOUTS = [SlotLayout.of(256, 64, 3), SlotLayout.of(256, 64, 4), SlotLayout.of(128, 64, 19)]
JUNK = 0xA5


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("block_size", [1, 16, 784, 1568])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_slots_land_where_the_mapping_says(layout: SlotLayout, block_size: int, dtype: torch.dtype) -> None:
    key, value = gaussian(5, 2, layout.head_size).to(dtype), gaussian(5, 2, layout.head_size, seed=1).to(dtype)
    cache = torch.full((3, 2, block_size, layout.slot_bytes), JUNK, dtype=torch.uint8)
    total = 3 * block_size
    mapping = torch.tensor([total - 1, -1, 0, total // 2, -100])
    cache_store(key, value, cache, mapping, layout)
    slots = quantize(key, value, layout)
    flat = cache.transpose(1, 2).reshape(total, 2, layout.slot_bytes)
    for token in (0, 2, 3):
        assert torch.equal(flat[mapping[token]], slots[token])
        flat[mapping[token]] = JUNK
    assert (flat == JUNK).all()


def test_any_strides_of_the_cache() -> None:
    layout = LAYOUTS[0]
    key, value = gaussian(4, 3, 256), gaussian(4, 3, 256, seed=1)
    mapping = torch.tensor([7, 0, 33, 18])
    plain = torch.zeros(3, 3, 16, layout.slot_bytes, dtype=torch.uint8)
    cache_store(key, value, plain, mapping, layout)
    tokens_first = torch.zeros(3, 16, 3, layout.slot_bytes, dtype=torch.uint8).transpose(1, 2)
    room = torch.full((5, 6, 20, layout.slot_bytes + 8), JUNK, dtype=torch.uint8)
    inside = room[1:4, ::2, 2:18, 8:]
    inside.zero_()
    for cache in (tokens_first, inside):
        cache_store(key, value, cache, mapping, layout)
        assert torch.equal(cache, plain)
    inside.fill_(JUNK)
    assert (room == JUNK).all()


def test_all_skipped_and_no_tokens_write_nothing() -> None:
    layout = LAYOUTS[0]
    cache = torch.full((2, 1, 16, layout.slot_bytes), JUNK, dtype=torch.uint8)
    cache_store(gaussian(3, 1, 256), gaussian(3, 1, 256), cache, torch.full((3,), -1), layout)
    cache_store(gaussian(0, 1, 256), gaussian(0, 1, 256), cache, torch.zeros(0, dtype=torch.int64), layout)
    assert (cache == JUNK).all()


def test_non_finite_tokens_leave_their_neighbours_alone() -> None:
    layout = LAYOUTS[1]
    key, value = gaussian(4, 2, 256).half(), gaussian(4, 2, 256, seed=1).half()
    mapping = torch.arange(4)
    clean, dirty = (torch.zeros(1, 2, 16, layout.slot_bytes, dtype=torch.uint8) for _ in range(2))
    cache_store(key, value, clean, mapping, layout)
    key[2, 1], value[2, 1] = float("nan"), float("inf")
    cache_store(key, value, dirty, mapping, layout)
    assert not dirty[0, 1, 2].any()
    dirty[0, 1, 2] = clean[0, 1, 2]
    assert torch.equal(dirty, clean)


def test_a_skipped_token_may_hold_anything() -> None:
    layout = LAYOUTS[2]
    key = torch.full((1, 1, 128), float("nan"))
    cache = torch.full((1, 1, 16, layout.slot_bytes), JUNK, dtype=torch.uint8)
    cache_store(key, key, cache, torch.tensor([-1]), layout)
    assert (cache == JUNK).all()


def test_other_signs() -> None:
    layout = LAYOUTS[0]
    key, value = gaussian(1, 1, 256), gaussian(1, 1, 256, seed=1)
    k_signs, v_signs = torch.arange(8, dtype=torch.int32), torch.arange(8, 16, dtype=torch.int32)
    cache = torch.zeros(1, 1, 1, layout.slot_bytes, dtype=torch.uint8)
    cache_store(key, value, cache, torch.zeros(1, dtype=torch.int64), layout, k_signs, v_signs)
    assert torch.equal(cache[0, :, 0], quantize(key, value, layout, k_signs, v_signs)[0])


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_center_and_an_encoder(encoder: str) -> None:
    """A skipped token leaves the heads' centers with their heads."""
    layout = LAYOUTS[1]
    key, value = gaussian(3, 2, 256), gaussian(3, 2, 256, seed=1)
    center = 3 * gaussian(2, 256, seed=2)
    cache = torch.zeros(1, 2, 16, layout.slot_bytes, dtype=torch.uint8)
    cache_store(key, value, cache, torch.tensor([7, -1, 2]), layout, encoder=encoder, k_center=center)
    slots = quantize(key, value, layout, encoder=encoder, k_center=center)
    assert torch.equal(cache[0, :, 7], slots[0])
    assert torch.equal(cache[0, :, 2], slots[2])


def test_a_wrong_center_or_encoder_changes_no_byte() -> None:
    layout = LAYOUTS[0]
    key = gaussian(1, 1, 256)
    cache = torch.full((1, 1, 16, layout.slot_bytes), JUNK, dtype=torch.uint8)
    with pytest.raises(OctaveError, match="the center is"):
        cache_store(key, key, cache, torch.zeros(1, dtype=torch.int64), layout, k_center=torch.zeros(2, 256))
    with pytest.raises(OctaveError, match="there is no encoder 'fast'"):
        cache_store(key, key, cache, torch.zeros(1, dtype=torch.int64), layout, encoder="fast")
    assert (cache == JUNK).all()


@pytest.mark.parametrize(
    ("key_shape", "slot", "extra", "word"),
    [
        ((1, 1, 256), 32, 0, "slot 32"),
        ((1, 2, 256), 0, 0, "key"),
        ((1, 1, 128), 0, 0, "key"),
        ((2, 1, 256), 0, 0, "key"),
        ((1, 1, 256), 0, 1, "cache"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_byte_changes(
    key_shape: tuple[int, ...], slot: int, extra: int, word: str
) -> None:
    layout = LAYOUTS[0]
    cache = torch.full((2, 1, 16, layout.slot_bytes + extra), JUNK, dtype=torch.uint8)
    with pytest.raises(OctaveError, match=word):
        cache_store(torch.zeros(key_shape), torch.zeros(key_shape), cache, torch.tensor([slot]), layout)
    assert (cache == JUNK).all()
