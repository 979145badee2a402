from __future__ import annotations

import numpy as np
import pytest
import torch

from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.rotation import rotate_forward, sign_tensor
from octave_gen.reference.query import prepare_query, quantize_query, rotate_query, round_rotated

BLOCK, COMPACT = SlotLayout.of(256, 64, 3), SlotLayout.of(256, 64, 19)
LAYOUTS = [BLOCK, COMPACT, SlotLayout.of(192, 64, 4), SlotLayout.of(512, 128, 19)]


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_codes_and_scales_are_the_scalar_arithmetic(layout: SlotLayout, dtype: torch.dtype) -> None:
    query = gaussian(2, 3, layout.head_size).to(dtype)
    codes, scale = quantize_query(query, layout)
    assert codes.shape == query.shape
    assert scale.shape == (2, 3, layout.head_size // 64)
    rotated = rotate_forward(query.float(), layout.k_block_size).numpy().reshape(-1, 64)
    for q, block_codes, block_scale in zip(rotated, codes.reshape(-1, 64), scale.flatten().numpy(), strict=True):
        absmax = np.abs(q).max()
        assert block_scale == absmax / np.float32(127)
        inverse = np.float32(127) / absmax
        assert block_codes.tolist() == [int(np.rint(v * inverse)) for v in q]
        assert block_codes.abs().max() == 127


def test_codes_to_the_last_bit() -> None:
    # so many values that q / (a / 127) in place of q * (127 / a) gives other codes for some
    query = gaussian(20_000, 64)
    layout = SlotLayout.of(64, 64, 3)
    q = rotate_forward(query, 64).numpy()
    absmax = np.abs(q).max(axis=1, keepdims=True)
    codes, _ = quantize_query(query, layout)
    assert np.array_equal(codes.numpy(), np.rint(q * (np.float32(127) / absmax)))
    assert not np.array_equal(codes.numpy(), np.rint(q / (absmax / np.float32(127))))


def test_halves_round_to_even() -> None:
    # unit signs and a rotated query of chosen values: feed the inverse transform of them
    wanted = torch.zeros(64)
    wanted[:6] = torch.tensor([127.0, 0.5, 1.5, 2.5, -0.5, -3.5])
    layout = SlotLayout.of(64, 64, 3)
    no_signs = torch.zeros(2, dtype=torch.int32)
    query = rotate_forward(wanted[None, None], 64, no_signs)
    codes, scale = quantize_query(query, layout, no_signs)
    assert scale.item() == 1
    assert codes[0, 0, :6].tolist() == [127, 0, 2, 2, 0, -4]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_int8_form_is_near_the_exact_one(layout: SlotLayout) -> None:
    query = gaussian(5, 4, layout.head_size)
    exact = prepare_query(query, layout, "exact", torch.float64)
    int8 = prepare_query(query, layout, "int8", torch.float64)
    step = exact.reshape(5, 4, -1, 64).abs().amax(-1, keepdim=True) / 127
    error = (int8 - exact).reshape(5, 4, -1, 64).abs()
    assert torch.all(error <= step * (0.5 + 1e-4))
    assert not torch.equal(int8, exact)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_fp16_form_is_the_nearest_fp16_of_a_power_of_two_times_the_row(layout: SlotLayout) -> None:
    query = gaussian(5, 4, layout.head_size) * torch.logspace(-20, 20, 5)[:, None, None]
    values, scale = round_rotated(rotate_query(query, layout, torch.float32))
    rotated = rotate_forward(query, layout.k_block_size).numpy()
    largest = np.abs(values.numpy().astype(np.float64)).max(-1)
    assert ((largest >= 2**14) & (largest <= 2**15)).all()
    assert (np.frexp(scale.numpy())[0] == 0.5).all()
    assert np.array_equal(values.numpy(), (rotated / scale.numpy()).astype(np.float16))
    assert torch.equal(prepare_query(query, layout, "fp16", torch.float64), values.double() * scale.double())


def test_fp16_form_of_zero_vanishing_and_non_finite_rows() -> None:
    query = gaussian(4, 1, 256)
    query[0] = 0.0
    query[1] = 1e-31
    query[2, 0, 70] = torch.inf
    values, scale = round_rotated(rotate_query(query, BLOCK, torch.float32))
    assert not values[:3].any()
    assert scale.flatten()[:2].tolist() == [0.0, 0.0]
    assert scale[2].isnan().all()
    assert scale[3] > 0
    assert values[3].any()


def test_block_k_and_compact_rotate_differently() -> None:
    query = gaussian(2, 3, 256)
    assert torch.equal(rotate_query(query, BLOCK, torch.float32), rotate_forward(query, 64))
    assert torch.equal(rotate_query(query, COMPACT, torch.float32), rotate_forward(query, 256))
    other = torch.arange(8, dtype=torch.int32)
    assert torch.equal(rotate_query(query, BLOCK, torch.float32, other), rotate_forward(query, 64, other))
    assert torch.equal(rotate_query(query, BLOCK, torch.float32, sign_tensor(256)), rotate_forward(query, 64))


@pytest.mark.parametrize("tiny", [0.0, 1e-38, 1e-31])
def test_zero_and_vanishing_blocks(tiny: float) -> None:
    query = gaussian(1, 1, 256).bfloat16()
    query[..., :64] = tiny
    codes, scale = quantize_query(query, BLOCK)
    assert not codes[..., :64].any()
    assert scale[0, 0, 0] == 0
    assert (scale[0, 0, 1:] > 0).all()
    assert codes[..., 64:].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("layout", [BLOCK, COMPACT], ids=str)
def test_non_finite_values_mark_their_blocks_alone(layout: SlotLayout, bad: float) -> None:
    query = gaussian(2, 2, 256).half()
    before, before_scale = quantize_query(query, layout)
    query[1, 0, 70] = bad
    codes, scale = quantize_query(query, layout)
    hit = torch.zeros(2, 2, 4, dtype=torch.bool)
    hit[1, 0] = True if layout.compact else torch.tensor([False, True, False, False])
    assert torch.equal(scale.isnan(), hit)
    assert not codes.reshape(2, 2, 4, 64)[hit].any()
    assert torch.equal(codes.reshape(2, 2, 4, 64)[~hit], before.reshape(2, 2, 4, 64)[~hit])
    assert torch.equal(scale[~hit], before_scale[~hit])
    assert prepare_query(query, layout, "int8", torch.float32).isnan().any(-1).nonzero().tolist() == [[1, 0]]


def test_the_largest_fp16_query_stays_finite() -> None:
    query = torch.full((1, 1, 256), 65504.0).half()
    for layout in (BLOCK, COMPACT):
        codes, scale = quantize_query(query, layout)
        assert torch.isfinite(scale).all()
        assert int(codes.abs().max()) == 127
