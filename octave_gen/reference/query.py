"""Queries as decode uses them: rotated like K, exact, as int8 codes per 64 dims, as 16-bit codes per row, or in fp16.

The int8 form is what the portable tier computes. In fp32, for each 64 dims q of the rotated query (rotated in fp32 as
`formats.octave.arithmetic` states; compact K rotates the whole head and still has one query scale per 64 dims):

1. a = max |q|.
2. If a < 2**-100 (zero included), codes and scale are 0: 127 / a would come near overflow.
3. scale = a / 127 and code = round half even of q * (127 / a), both divisions correctly rounded, the product rounded.
4. If any value is NaN or Inf, the codes are 0 and the scale is NaN, so the row's scores, and with them its output,
   are NaN.

The int16 form is what the mfma tier computes, whose integer products take a code as two int8 halves, 128 high + low:
the same with one scale for the whole row and 127 * 128 in the place of 127.

The fp16 form is what the wmma tier computes: the values of a row times the power of two that takes its largest to
[2**14, 2**15), rounded to fp16, so that only values 2**-28 of the largest are denormal. Steps 2 and 4 hold for the row.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from octave_gen.formats.octave.layout import BLOCK_DIMS, SlotLayout
from octave_gen.formats.octave.rotation import rotate_forward

QueryMode = Literal["exact", "int8", "int16", "fp16"]
INT8_MAX = 127
INT16_MAX = 127 * 128
FP16_EXPONENT = 15
ABSMAX_FLOOR = 2.0**-100


def rotate_query(query: Tensor, layout: SlotLayout, dtype: torch.dtype, k_signs: Tensor | None = None) -> Tensor:
    """query [..., head] rotated as the layout rotates K, computed in dtype."""
    return rotate_forward(query.to(dtype), layout.k_block_size, k_signs)


def quantize_query(
    query: Tensor, layout: SlotLayout, k_signs: Tensor | None = None, mode: QueryMode = "int8"
) -> tuple[Tensor, Tensor]:
    """An integer form: query [..., head] -> (int16 codes [..., head], fp32 scales [..., scales of a row])."""
    return quantize_rotated(rotate_query(query, layout, torch.float32, k_signs), mode)


def quantize_rotated(rotated: Tensor, mode: QueryMode = "int8") -> tuple[Tensor, Tensor]:
    """The same of a query that is rotated already: fp32 [..., head]."""
    dims, largest = (BLOCK_DIMS, INT8_MAX) if mode == "int8" else (rotated.shape[-1], INT16_MAX)
    blocks = rotated.reshape(*rotated.shape[:-1], rotated.shape[-1] // dims, dims)
    absmax = blocks.abs().amax(-1)
    used = torch.isfinite(absmax) & (absmax >= ABSMAX_FLOOR)
    divisor = torch.where(used, absmax, 1.0)
    scale = torch.where(used, divisor / torch.full_like(divisor, largest), 0.0)
    scale = torch.where(torch.isfinite(absmax), scale, torch.nan)
    inverse = torch.full_like(divisor, largest) / divisor
    codes = torch.where(used.unsqueeze(-1), torch.round(blocks * inverse.unsqueeze(-1)), 0.0)
    return codes.to(torch.int16).flatten(-2), scale


def round_rotated(rotated: Tensor) -> tuple[Tensor, Tensor]:
    """The fp16 form: a rotated query, fp32 [..., head] -> (fp16 values [..., head], fp32 scales [..., 1])."""
    absmax = rotated.abs().amax(-1, keepdim=True)
    used = torch.isfinite(absmax) & (absmax >= ABSMAX_FLOOR)
    exponent = torch.frexp(torch.where(used, absmax, 1.0)).exponent
    values = torch.where(used, torch.ldexp(rotated, FP16_EXPONENT - exponent), 0.0)
    scale = torch.where(used, torch.ldexp(torch.ones_like(absmax), exponent - FP16_EXPONENT), 0.0)
    return values.to(torch.float16), torch.where(torch.isfinite(absmax), scale, torch.nan)


def prepare_query(
    query: Tensor, layout: SlotLayout, mode: QueryMode, dtype: torch.dtype, k_signs: Tensor | None = None
) -> Tensor:
    """The rotated query that meets the keys, [..., head] of dtype: exact, or code * scale of a rounded form."""
    exact = mode == "exact"
    return prepare_rotated(rotate_query(query, layout, dtype if exact else torch.float32, k_signs), mode, dtype)


def prepare_rotated(rotated: Tensor, mode: QueryMode, dtype: torch.dtype) -> Tensor:
    """The same of a query that is rotated already: [..., head] of any float dtype -> [..., head] of dtype."""
    if mode == "exact":
        return rotated.to(dtype)
    if mode == "fp16":
        values, powers = round_rotated(rotated.to(torch.float32))
        return values.to(dtype) * powers.to(dtype)
    codes, scale = quantize_rotated(rotated.to(torch.float32), mode)
    blocks = codes.to(dtype).reshape(*scale.shape, rotated.shape[-1] // scale.shape[-1])
    return (blocks * scale.to(dtype).unsqueeze(-1)).flatten(-2)
