"""What a model would see of stored keys and values."""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.formats.octave.codec import dequantize
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.formats.octave.rotation import rotate_inverse


def dequantize_unrotated(
    slots: Tensor,
    layout: SlotLayout,
    dtype: torch.dtype = torch.float32,
    k_signs: Tensor | None = None,
    v_signs: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Keys and values as a model would see them: `dequantize`, then the inverse rotations in dtype."""
    k, v = dequantize(slots, layout, dtype)
    return rotate_inverse(k, layout.k_block_size, k_signs), rotate_inverse(v, layout.v_block_size, v_signs)
