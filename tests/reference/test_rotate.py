from __future__ import annotations

import pytest
import torch

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.rotation import rotate_forward, rotate_inverse
from octave_gen.reference.rotate import rotate

DTYPES = [torch.float16, torch.bfloat16, torch.float32]


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("head", "block", "dims"), [(256, True, 64), (256, False, 256), (192, True, 64), (192, False, 64)]
)
def test_fp32_inside_and_one_rounding(head: int, block: bool, dims: int, inverse: bool, dtype: torch.dtype) -> None:
    x = gaussian(3, 2, head).to(dtype)
    turn = rotate_inverse if inverse else rotate_forward
    expected = turn(x.float(), dims).to(dtype)
    rotate(x, block, inverse)
    assert x.dtype == dtype
    assert torch.equal(x, expected)


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.float32, 1e-6)])
def test_forward_then_inverse(block: bool, dtype: torch.dtype, tolerance: float) -> None:
    x = gaussian(5, 3, 256).to(dtype)
    turned = x.clone()
    rotate(turned, block, inverse=False)
    assert not torch.allclose(turned.float(), x.float(), atol=0.5)
    assert torch.allclose(turned.float().norm(dim=-1), x.float().norm(dim=-1), rtol=tolerance)
    rotate(turned, block, inverse=True)
    assert torch.allclose(turned.float(), x.float(), rtol=0, atol=5 * tolerance)


def test_scores_do_not_change() -> None:
    q, k = gaussian(4, 1, 256), gaussian(6, 1, 256, seed=1)
    scores = q[:, 0] @ k[:, 0].T
    rotate(q, True, False)
    rotate(k, True, False)
    assert torch.allclose(q[:, 0] @ k[:, 0].T, scores, rtol=0, atol=2e-4)


def test_strided_in_place_and_neighbours() -> None:
    room = gaussian(4, 3, 128).repeat(1, 1, 2)
    before = room.clone()
    view = room[1:3, ::2, :128]
    rotate(view, False, False)
    assert torch.equal(room[1:3, ::2, :128], rotate_forward(before[1:3, ::2, :128], 128))
    room[1:3, ::2, :128] = before[1:3, ::2, :128]
    assert torch.equal(room, before)


@pytest.mark.parametrize(("block", "hit"), [(True, slice(64, 128)), (False, slice(0, 256))])
def test_a_nan_spoils_its_own_block_alone(block: bool, hit: slice) -> None:
    x = gaussian(3, 2, 256)
    clean = x.clone()
    rotate(clean, block, False)
    x[1, 1, 70] = float("nan")
    rotate(x, block, False)
    assert x[1, 1, hit].isnan().all()
    x[1, 1, hit] = clean[1, 1, hit]
    assert torch.equal(x, clean)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("block", "dims"), [(True, 64), (False, 256)])
def test_a_center_is_subtracted_in_fp32_before(block: bool, dims: int, dtype: torch.dtype) -> None:
    x, center = gaussian(3, 2, 256).to(dtype), (5 * gaussian(2, 256, seed=1)).to(dtype)
    expected = rotate_forward(x.float() - center.float(), dims).to(dtype)
    rotate(x, block, False, center=center)
    assert torch.equal(x, expected)


def test_a_center_that_is_not_finite_stays_in_its_head() -> None:
    x, center = gaussian(4, 3, 256), gaussian(3, 256, seed=1)
    clean = x.clone()
    rotate(clean, False, False, center=center)
    center[1, 9] = float("inf")
    rotate(x, False, False, center=center)
    assert torch.equal(x[:, ::2], clean[:, ::2])
    assert not x[:, 1].isfinite().any()


def test_the_inverse_takes_no_center() -> None:
    x = gaussian(2, 1, 64)
    before = x.clone()
    with pytest.raises(OctaveError, match="inverse takes none"):
        rotate(x, True, True, center=torch.zeros(1, 64))
    with pytest.raises(OctaveError, match="the center is"):
        rotate(x, True, False, center=torch.zeros(2, 64))
    assert torch.equal(x, before)


def test_other_signs_and_no_tokens() -> None:
    x = gaussian(2, 1, 64)
    signs = torch.tensor([3, -7], dtype=torch.int32)
    expected = rotate_forward(x, 64, signs)
    rotate(x, True, False, signs)
    assert torch.equal(x, expected)
    rotate(torch.zeros(0, 4, 256), False, True)
