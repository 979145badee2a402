from __future__ import annotations

import pytest
import torch

from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.octave.rotation import rotate_forward, rotate_inverse, sign_tensor, sign_vector
from octave_gen.formats.octave.signs import SIGN_WORDS

SHAPES = [(64, 64), (128, 64), (128, 128), (192, 64), (256, 64), (256, 256), (320, 64), (512, 512)]


def test_sign_tensor_is_the_words_as_int32() -> None:
    words = sign_tensor(256)
    assert words.dtype == torch.int32
    assert [word & 0xFFFFFFFF for word in words.tolist()] == list(SIGN_WORDS[:8])
    assert int(words[0]) < 0  # bit 31 went to the sign, not away


def test_sign_vector_reads_bit_i_of_word_w() -> None:
    signs = sign_vector(torch.tensor([0b101, -(2**31)], dtype=torch.int32))
    assert (signs < 0).nonzero().flatten().tolist() == [0, 2, 63]
    assert signs.abs().eq(1).all()
    expected = [-1.0 if SIGN_WORDS[d // 32] >> d % 32 & 1 else 1.0 for d in range(512)]
    assert sign_vector(sign_tensor(512)).tolist() == expected


@pytest.mark.parametrize(("head", "block"), SHAPES)
def test_inverse_undoes_forward_and_norms_stay(head: int, block: int) -> None:
    x = torch.randn(7, 2, head, dtype=torch.float64, generator=torch.Generator().manual_seed(head))
    turned = rotate_forward(x, block)
    assert torch.allclose(rotate_inverse(turned, block), x, rtol=0, atol=1e-14)
    assert torch.allclose(rotate_forward(rotate_inverse(x, block), block), x, rtol=0, atol=1e-14)
    assert torch.allclose(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-14)
    assert not torch.allclose(rotate_forward(turned, block), x, atol=0.1)  # signs make it no involution


@pytest.mark.parametrize(("head", "block"), SHAPES)
def test_rotation_is_orthogonal(head: int, block: int) -> None:
    matrix = rotate_forward(torch.eye(head, dtype=torch.float64), block)
    assert torch.allclose(matrix @ matrix.T, torch.eye(head, dtype=torch.float64), rtol=0, atol=1e-13)


def test_signs_come_before_the_transform_forward_and_after_it_inverse() -> None:
    x = torch.randn(3, 256, generator=torch.Generator().manual_seed(0))
    signs = sign_vector(sign_tensor(256))
    assert torch.equal(rotate_forward(x, 256), walsh_hadamard(x * signs))
    assert torch.equal(rotate_inverse(x, 256), walsh_hadamard(x) * signs)


def test_blocks_are_rotated_on_their_own_with_their_own_signs() -> None:
    x = torch.randn(3, 256, generator=torch.Generator().manual_seed(0))
    signs = sign_tensor(256)
    parts = [rotate_forward(x[:, d : d + 64], 64, signs[d // 32 : d // 32 + 2]) for d in range(0, 256, 64)]
    assert torch.equal(rotate_forward(x, 64), torch.cat(parts, dim=-1))


def test_other_signs_are_used() -> None:
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    none = torch.zeros(2, dtype=torch.int32)
    assert torch.equal(rotate_forward(x, 64, none), walsh_hadamard(x))
    assert not torch.equal(rotate_forward(x, 64), walsh_hadamard(x))
