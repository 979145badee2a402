"""Centring of K: one subtraction in fp32 before the signs, of each head its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave import ENCODERS, SlotLayout
from octave_gen.formats.octave.codec import dequantize, quantize
from octave_gen.formats.octave.rotation import centered, rotate_forward

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
LAYOUTS = [SlotLayout.of(256, 64, 3), SlotLayout.of(128, 64, 4), SlotLayout.of(128, 64, 19)]


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_difference_is_rounded_once_to_fp32(dtype: torch.dtype) -> None:
    x, center = (100 * gaussian(5, 3, 64)).to(dtype), (gaussian(3, 64, seed=1) / 7).to(dtype)
    exact = x.double() - center.double()
    found = centered(x, center)
    assert found.dtype == torch.float32
    assert torch.equal(found, exact.float())
    if dtype != torch.float32:
        assert not torch.equal(found, (x - center).float())


def test_what_is_left_of_edges() -> None:
    half = torch.tensor([65504.0, 2.0**-24, -0.0, 65504.0], dtype=torch.float16)
    center = torch.tensor([-65504.0, 2.0**-24, 0.0, 65504.0], dtype=torch.float16)
    assert centered(half[None], center[None]).tolist() == [[131008.0, 0.0, 0.0, 0.0]]
    wide = torch.tensor([3e38, 1.0], dtype=torch.bfloat16)
    assert centered(wide[None], -wide[None])[0, 0] == torch.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_center_is_the_value_in_fp32(dtype: torch.dtype) -> None:
    x = gaussian(2, 2, 64).to(dtype)
    assert torch.equal(centered(x, None), x.float())
    assert torch.equal(centered(x, torch.zeros(2, 64, dtype=dtype)), x.float())


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_slots_are_those_of_the_difference(layout: SlotLayout, encoder: str) -> None:
    """Of any number of leading dims; V is as it was."""
    key, value = gaussian(2, 5, 3, layout.head_size).half(), gaussian(2, 5, 3, layout.head_size, seed=1).half()
    center = (4 * gaussian(3, layout.head_size, seed=2)).half()
    found = quantize(key, value, layout, encoder=encoder, k_center=center)
    assert torch.equal(found, quantize(key.float() - center.float(), value.float(), layout, encoder=encoder))
    plain = quantize(key, value, layout, encoder=encoder)
    assert torch.equal(found[..., layout.v.offset : layout.v.end], plain[..., layout.v.offset : layout.v.end])
    assert not torch.equal(found, plain)


def test_a_shared_part_costs_nothing_once_it_is_the_center() -> None:
    layout = LAYOUTS[0]
    noise, center = gaussian(50, 2, 256), 8 * gaussian(2, 256, seed=1)
    key = noise + center
    exact = rotate_forward(noise, 64)

    def error(k_center: Tensor | None, shift: Tensor | float) -> float:
        stored, _ = dequantize(quantize(key, key, layout, k_center=k_center), layout)
        return float((stored - rotate_forward(noise + shift, 64)).norm() / exact.norm())

    assert error(center, 0.0) < 0.2
    assert error(None, center) > 0.8


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_center_that_is_not_finite_spoils_k_of_its_head_alone(value: float, layout: SlotLayout) -> None:
    key = gaussian(6, 3, layout.head_size).half()
    center = gaussian(3, layout.head_size, seed=1).half()
    clean = quantize(key, key, layout, k_center=center)
    center[1, 70] = value
    found = quantize(key, key, layout, k_center=center)
    assert torch.equal(found[:, ::2], clean[:, ::2])
    scales = found[:, 1, layout.k_scales.offset : layout.k_scales.end].contiguous().view(torch.float16)
    hit = 70 // layout.k_block_size
    assert not scales[:, hit].any()
    scales_before = clean[:, 1, layout.k_scales.offset : layout.k_scales.end].contiguous().view(torch.float16)
    for block in set(range(layout.k_blocks)) - {hit}:
        assert torch.equal(scales[:, block], scales_before[:, block])
    v = slice(layout.v.offset, layout.v.end)
    assert torch.equal(found[..., v], clean[..., v])


@pytest.mark.parametrize(
    "center",
    [
        torch.zeros(1, 256),
        torch.zeros(3, 256),
        torch.zeros(2, 128),
        torch.zeros(256),
        torch.zeros(1, 2, 256),
        torch.zeros(2, 256, dtype=torch.float64),
        torch.zeros(2, 256, dtype=torch.int32),
    ],
    ids=str,
)
def test_another_shape_or_dtype_is_refused(center: Tensor) -> None:
    key = torch.zeros(4, 2, 256)
    with pytest.raises(OctaveError, match="the center is torch") as caught:
        quantize(key, key, LAYOUTS[0], k_center=center)
    assert "[2, 256]" in str(caught.value.hint)
