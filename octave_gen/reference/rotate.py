"""Rotates queries, keys, values or outputs in place: what every rotate kernel is compared with."""

from __future__ import annotations

from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.layout import BLOCK_DIMS, whole_block_dims
from octave_gen.formats.octave.rotation import centered, rotate_forward, rotate_inverse


def rotate(x: Tensor, block: bool, inverse: bool, signs: Tensor | None = None, center: Tensor | None = None) -> None:
    """Changes x [tokens, heads, head] in place; computed in fp32 and rounded once to its dtype (fp16, bf16, fp32).

    block: each 64 dims on their own, as block K; otherwise the whole head, as compact K and V (64-dim blocks when the
    head is no power of two). inverse: transform then signs instead of signs then transform. signs: int32 [head / 32],
    or the format's own. center: [heads, head], subtracted from x in fp32 before the signs; forward only.
    """
    if inverse and center is not None:
        raise OctaveError("a center is subtracted before the rotation: inverse takes none", where="rotate")
    block_size = BLOCK_DIMS if block else whole_block_dims(x.shape[-1])
    turn = rotate_inverse if inverse else rotate_forward
    x.copy_(turn(centered(x, center), block_size, signs))
