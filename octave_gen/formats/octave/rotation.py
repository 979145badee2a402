"""The Octave rotation in torch: sign flips, then an orthonormal Walsh-Hadamard transform of each block of dims.

The rotation is orthogonal, so attention runs on rotated queries and keys, and one inverse rotation per query returns
the output. Computed in the dtype of x (fp32 or fp64) by the arithmetic that `arithmetic` states.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.octave.signs import WORD_DIMS, sign_words

CENTER_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def sign_tensor(head_size: int) -> Tensor:
    """The format's sign words as the ops take them: int32 [head_size / 32], bit 31 in the sign."""
    return torch.tensor([word - (word >> 31 << 32) for word in sign_words(head_size)], dtype=torch.int32)


def sign_vector(words: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """+1 or -1 for each dim: int32 [n / 32] -> [n] of dtype; a set bit is -1."""
    bits = words.unsqueeze(-1) >> torch.arange(WORD_DIMS, dtype=torch.int32) & 1
    return (1 - 2 * bits).reshape(-1).to(dtype)


def centered(x: Tensor, center: Tensor | None) -> Tensor:
    """fp32(x) - fp32(center), rounded once to fp32: what is rotated where vectors [..., heads, head] are centered.

    center: fp16, bf16 or fp32 [heads, head], for all tokens; None: nothing is subtracted. OctaveError for any other.
    """
    if center is None:
        return x.float()
    if center.shape != x.shape[-2:] or center.dtype not in CENTER_DTYPES:
        raise OctaveError(
            f"the center is {center.dtype} {list(center.shape)}, beside vectors of {list(x.shape)}",
            hint=f"it must be fp16, bf16 or fp32 of {list(x.shape[-2:])}, [heads, head]",
        )
    return x.float() - center.float()


def rotate_forward(x: Tensor, block_size: int, signs: Tensor | None = None) -> Tensor:
    """Signs, then the transform of each block: x [..., head] fp32 or fp64 -> the same shape and dtype.

    block_size divides head and is a power of two; signs: int32 [head / 32], the format's own when None.
    """
    return _transform_blocks(x * _signs_of(x, signs), block_size)


def rotate_inverse(x: Tensor, block_size: int, signs: Tensor | None = None) -> Tensor:
    """The transform of each block, then signs: undoes `rotate_forward` up to rounding. Arguments as there."""
    return _transform_blocks(x, block_size) * _signs_of(x, signs)


def _transform_blocks(x: Tensor, block_size: int) -> Tensor:
    return walsh_hadamard(x.reshape(*x.shape[:-1], x.shape[-1] // block_size, block_size)).reshape(x.shape)


def _signs_of(x: Tensor, signs: Tensor | None) -> Tensor:
    return sign_vector(sign_tensor(x.shape[-1]) if signs is None else signs, x.dtype)
