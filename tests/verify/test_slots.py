"""slots: which differences from the reference's bytes are allowed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from octave_gen.formats.octave.codebook import LUT_MULT, thresholds
from octave_gen.formats.octave.codec import quantize
from octave_gen.formats.octave.layout import FMTS, SlotLayout
from octave_gen.formats.octave.packing import pack, unpack
from octave_gen.formats.octave.rotation import rotate_forward, rotate_inverse, sign_tensor
from octave_gen.verify.compare import Measured
from octave_gen.verify.slots import CODES, NEAR_THRESHOLD, SCALES, slots_near

HEAD = 128
SIGNS = sign_tensor(HEAD)


def vectors(seed: int) -> Tensor:
    return torch.randn(3, 2, HEAD, generator=torch.Generator().manual_seed(seed))


def compared(found: Tensor, wanted: Tensor, key: Tensor, value: Tensor, layout: SlotLayout) -> Measured:
    return slots_near(found, wanted, key, value, layout, SIGNS, SIGNS)


@pytest.mark.parametrize("fmt", FMTS)
def test_any_changed_bit_is_found(fmt: int) -> None:
    layout = SlotLayout.of(HEAD, 64, fmt)
    key, value = vectors(1), vectors(2)
    wanted = quantize(key, value, layout)
    assert compared(wanted, wanted, key, value, layout) == Measured(counts={CODES: 0, SCALES: 0})
    for byte in range(layout.slot_bytes):
        found = wanted.clone()
        found[1, 1, byte] ^= 0x10
        assert compared(found, wanted, key, value, layout).problems, byte


def near_threshold(share: float) -> tuple[Tensor, Tensor, SlotLayout, int]:
    """V vectors whose rotated dim 5 lies ``share`` of the allowed distance above a threshold: the dim's code too."""
    layout = SlotLayout.of(HEAD, 64, 3)
    limit = thresholds(3)[5]
    goal = (limit + share * NEAR_THRESHOLD * limit) / LUT_MULT[3]
    rotated = rotate_forward(vectors(4).double(), HEAD)
    for _ in range(60):
        rotated[..., 5] = goal * rotated.square().mean(-1).sqrt()
    return rotate_inverse(rotated, HEAD), vectors(3), layout, 5


@pytest.mark.parametrize(("share", "allowed"), [(0.5, True), (1.5, False)])
def test_a_code_may_cross_a_threshold_that_its_value_all_but_touches(share: float, allowed: bool) -> None:
    value, key, layout, dim = near_threshold(share)
    # the doubles' own slots: fp32 input would move the value by more than what is tested
    wanted = quantize(key, value.float(), layout)
    region = layout.v
    codes = unpack(wanted[..., region.offset : region.end], 3)
    upper = codes[0, 0, dim].clone()
    codes[0, 0, dim] = 5 if upper == 6 else 6
    found = wanted.clone()
    found[..., region.offset : region.end] = pack(codes, 3)
    measured = slots_near(found, wanted, key, value, layout, SIGNS, SIGNS)
    assert bool(measured.problems) != allowed
    assert measured.counts[CODES] == int(allowed)


def test_a_scale_may_be_the_next_fp16() -> None:
    layout = SlotLayout.of(HEAD, 64, 4)
    key, value = vectors(1), vectors(2)
    wanted = quantize(key, value, layout)
    for region in (layout.k_scales, layout.v_scale):
        for step, allowed in ((1, True), (-1, True), (2, False)):
            found = wanted.clone()
            scales = found[..., region.offset : region.offset + 2].contiguous().view(torch.int16)
            scales[2, 1] += step
            found[..., region.offset : region.offset + 2] = scales.view(torch.uint8)
            measured = compared(found, wanted, key, value, layout)
            assert bool(measured.problems) != allowed
            assert measured.counts[SCALES] == int(allowed)


def test_neither_a_sign_nor_infinity_is_next_to_a_scale() -> None:
    layout = SlotLayout.of(HEAD, 64, 4)
    key, value = vectors(1), vectors(2)
    wanted = quantize(key, value * 1e9, layout)
    region = layout.v_scale
    assert wanted[0, 0, region.offset : region.end].view(torch.float16) == 65504
    found = wanted.clone()
    found[0, 0, region.offset : region.end] = torch.tensor([torch.inf]).half().view(torch.uint8)
    assert compared(found, wanted, key, value, layout).problems
    zero = quantize(key, value * 0, layout)
    found = zero.clone()
    found[0, 0, region.offset : region.end] = torch.tensor([-0.0]).half().view(torch.uint8)
    assert compared(found, zero, key, value * 0, layout).problems
