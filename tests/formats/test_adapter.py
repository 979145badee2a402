"""The Octave dtypes as codecs: quality in the model's own space."""

from __future__ import annotations

import pytest
import torch
from unrotated import dequantize_unrotated

from octave_gen.formats import CACHE_DTYPES, cache_dtype
from octave_gen.formats.codecs import make
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codebook import LUT
from octave_gen.formats.octave.codec import encode_block, quantize
from octave_gen.formats.octave.encoders import ENCODERS, PLAIN
from octave_gen.formats.octave.rotation import rotate_forward


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", CACHE_DTYPES)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("head", "rotary"), [(128, 64), (256, 64), (256, 256)])
def test_slots_are_those_of_the_quantizer(name: str, encoder: str, head: int, rotary: int) -> None:
    key, value = gaussian(6, head, seed=1), gaussian(6, head, seed=2)
    layout = SlotLayout.of(head, rotary, cache_dtype(name).fmt)
    codec = make(name if encoder == PLAIN else f"{name}+{encoder}", head, rotary)
    slots = codec.encode(key, value)
    assert torch.equal(slots, quantize(key, value, layout, encoder=encoder))
    for one, other in zip(codec.decode(slots), dequantize_unrotated(slots, layout), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "k_error", "v_error"),
    [
        ("octave_k3v3_compact", 0.188, 0.188),
        ("octave_k3v4_compact", 0.188, 0.097),
        ("octave_k4v3_compact", 0.097, 0.188),
        ("octave_k3v3", 0.166, 0.188),
        ("octave_k3v4", 0.166, 0.097),
    ],
)
def test_relative_errors_as_published(name: str, k_error: float, v_error: float) -> None:
    key, value = gaussian(4096, 256, seed=1), gaussian(4096, 256, seed=2)
    codec = make(name, 256, 64)
    for decoded, x, expected in zip(
        codec.decode(codec.encode(key, value)), (key, value), (k_error, v_error), strict=True
    ):
        assert ((decoded - x).norm() / x.norm()).item() == pytest.approx(expected, abs=7e-4)


def test_a_full_rotary_head_is_4_bit_throughout() -> None:
    key, value = gaussian(2048, 256, seed=1), gaussian(2048, 256, seed=2)
    codec = make("octave_k3v4", 256, 256)
    k, _ = codec.decode(codec.encode(key, value))
    assert codec.slot_bytes == 272
    assert ((k - key).square().sum() / key.square().sum()).item() == pytest.approx(0.00898, rel=0.02)


def test_slope_of_the_scale_rule_and_of_least_squares() -> None:
    """<x, x_hat> / |x|**2 at head 256 and 3 bits: the rule keeps scores, least squares would shrink them."""
    key, value = gaussian(4096, 256, seed=1), gaussian(4096, 256, seed=2)
    codec = make("octave_k3v3_compact", 256, 64)
    k, v = codec.decode(codec.encode(key, value))
    for x, decoded in ((key, k), (value, v)):
        slopes = (x * decoded).sum(-1) / x.square().sum(-1)
        assert slopes.mean().item() == pytest.approx(1, abs=1e-4)
        assert (slopes - 1).abs().max().item() < 0.001
    rotated = rotate_forward(key, 256)
    codes, _ = encode_block(rotated, 3, PLAIN)
    levels = torch.tensor(LUT[3], dtype=torch.float32)[codes.long()]
    least_squares = (rotated * levels).sum(-1) ** 2 / levels.square().sum(-1) / rotated.square().sum(-1)
    assert least_squares.mean().item() == pytest.approx(0.966, abs=0.002)
