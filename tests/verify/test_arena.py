"""arena: memory of a tensor's own, however far its elements are apart."""

from __future__ import annotations

import itertools

import pytest
import torch

from octave_gen.verify.arena import FAR, GUARD, allocate, dense_strides, far_strides


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_a_dense_tensor_of_the_byte_that_is_asked_for(dtype: torch.dtype) -> None:
    made = allocate((3, 5), dtype, fill=0xFF)
    assert (made.shape, made.stride(), made.dtype) == ((3, 5), (5, 1), dtype)
    assert set(bytes(made.view(torch.uint8).flatten().tolist())) == {0xFF}
    assert not allocate((3, 5), dtype).view(torch.uint8).any()


def test_nothing_else_is_near_a_tensor() -> None:
    made = [allocate((100,), torch.uint8) for _ in range(20)]
    starts = sorted(x.data_ptr() for x in made)
    assert min(b - a for a, b in itertools.pairwise(starts)) >= GUARD
    assert all(start % 64 == 0 for start in starts)


def test_an_empty_tensor() -> None:
    assert allocate((0, 4), torch.float16, fill=0xFF).shape == (0, 4)


@pytest.mark.parametrize("shape", [(37, 2, 64), (2, 1, 3), (1, 1, 3)])
def test_far_elements_can_be_written_and_cost_nothing(shape: tuple[int, ...]) -> None:
    strides = far_strides(shape, 2, dense_strides(shape), 1)
    made = allocate(shape, torch.float16, strides=strides)
    made.copy_(torch.arange(made.numel()).reshape(shape))
    assert torch.equal(made.flatten(), torch.arange(made.numel()).half())
    assert shape[0] == 1 or 2 * strides[0] * (shape[0] - 1) >= FAR


@pytest.mark.parametrize("shape", [(5, 2, 16, 248), (2, 2, 16, 100), (40, 3, 16, 216)])
def test_two_far_dims_reach_beyond_both_limits_and_do_not_overlap(shape: tuple[int, ...]) -> None:
    strides = far_strides(shape, 1, dense_strides(shape), 2)
    assert strides[0] * (shape[0] - 1) > 2**31
    assert strides[0] * (shape[0] - 1) + strides[1] * (shape[1] - 1) > 2**32
    starts = sorted(a * strides[0] + b * strides[1] for a in range(shape[0]) for b in range(shape[1]))
    assert min(b - a for a, b in itertools.pairwise(starts)) >= shape[2] * shape[3]
    assert all(stride % 4 == 0 for stride in strides[:3])
