from __future__ import annotations

import pytest
import torch
from torch import Tensor

from octave_gen.quality.real.cache import Part, Quantized, Recorder, Setting


class Coarse:
    """K to multiples of 4, V to multiples of 2; remembers the K it was given."""

    name, head_size, slot_bytes = "coarse", 4, 8

    def encode(self, key: Tensor, value: Tensor) -> Tensor:
        self.encoded = key.clone()
        return torch.cat(((key / 4).round(), (value / 2).round()), dim=-1).to(torch.uint8)

    def decode(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        return slots[..., :4].float() * 4, slots[..., 4:].float() * 2


KEY = torch.arange(24.0).reshape(2, 3, 4)  # kv heads, tokens, head
VALUE = KEY + 1
QUERY = torch.zeros(4, 3, 4)


@pytest.mark.parametrize("part", ["kv", "k", "v"])
def test_only_the_part_asked_for_comes_out_of_slots(part: Part) -> None:
    key, value = Quantized(Coarse(), None, part)(0, QUERY, KEY, VALUE)
    assert torch.equal(key, (KEY / 4).round() * 4 if "k" in part else KEY)
    assert torch.equal(value, (VALUE / 2).round() * 2 if "v" in part else VALUE)


def test_the_centre_of_the_layer_is_taken_off_and_added_again() -> None:
    centre = torch.tensor([[1.0, 1.0, 1.0, 1.0], [3.0, 2.0, 1.0, 0.0]])
    codec = Coarse()
    key, value = Quantized(codec, {7: centre, 8: centre + 100})(7, QUERY, KEY + 3, VALUE)
    held = KEY + 3 - centre[:, None]
    assert torch.equal(codec.encoded, held)
    assert torch.equal(key, (held / 4).round() * 4 + centre[:, None])
    assert torch.equal(value, (VALUE / 2).round() * 2)


def test_a_recorder_changes_nothing() -> None:
    record = Recorder()
    key, value = record(3, QUERY, KEY, VALUE)
    assert key is KEY
    assert value is VALUE
    assert record.layers == {3: (QUERY, KEY, VALUE)}


def test_labels_are_all_different() -> None:
    found = {Setting("x", centre, part).label for centre in (None, 7, 70) for part in ("kv", "k", "v")}
    assert len(found) == 9
    assert {"x", "x.k", "x.centre7", "x.centre7.v"} <= found
