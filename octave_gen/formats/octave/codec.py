"""The Octave quantizer and dequantizer in torch: the arithmetic that kernels reproduce byte by byte.

All in fp32 after an exact conversion of fp16 or bf16 input; transform and sums as `arithmetic` states. A block is
what shares a scale: 64 dims or the whole head for K, the whole head for V. For a block of n rotated values x:

1. ss = tree sum of fp32(x * x).
2. rms = max(sqrt(ss / n), 1e-12), division and square root correctly rounded, 1e-12 rounded to fp32.
3. y = (x / rms) * LUT_MULT, the division correctly rounded, then the product rounded.
4. code = number of thresholds strictly below y (a value on a threshold takes the lower code).
5. dot = tree sum of fp32(x * LUT[code]).
6. scale = (ss / dot) * 64 where dot > 0, else 0; at most 65504, then rounded to fp16, nearest even.
7. If ss is not finite, scale and all codes of the block are 0, and no other block is touched. That covers NaN and Inf
   input, and finite values whose squares overflow: blocks of a Euclidean norm above about 1.84e19, which only bf16 or
   fp32 input can have.

A key that is centered gives fp32(key) - fp32(center), rounded once, to the rotation.

Steps 3 and 4 are those of the encoder `plain`; `search` has others in their place, and the rest in common.

Step 6 makes x . x_hat = |x|**2, which a least-squares scale would shrink. Pad bytes are zero.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from octave_gen.errors import OctaveError, did_you_mean, wrong_request
from octave_gen.formats.octave.arithmetic import square_root, tree_sum
from octave_gen.formats.octave.codebook import LUT, LUT_MULT, LUT_ONE, thresholds
from octave_gen.formats.octave.encoders import PLAIN, SEARCH
from octave_gen.formats.octave.layout import Region, SlotLayout
from octave_gen.formats.octave.packing import pack, unpack
from octave_gen.formats.octave.rotation import centered, rotate_forward
from octave_gen.formats.octave.search import searched_codes

RMS_FLOOR = 1e-12
FP16_MAX = 65504.0
INPUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def encode_block(x: Tensor, bits: int, encoder: str = PLAIN) -> tuple[Tensor, Tensor]:
    """Steps 1-7 above: rotated values fp32 [..., n] -> (uint8 codes [..., n], fp16 scales [...]).

    encoder: of `CODES`; OctaveError for another.
    """
    codes_of = _codes_of(encoder)
    table = torch.tensor(LUT[bits], dtype=torch.float32)
    ss = tree_sum(x * x)
    finite = torch.isfinite(ss)
    # a tensor as divisor: some devices turn a division by a number into a product
    rms = square_root(ss / torch.full_like(ss, x.shape[-1])).clamp(min=RMS_FLOOR)
    codes = codes_of(x, rms, bits)
    dot = tree_sum(x * table[codes])
    scale = torch.where(finite & (dot > 0), ss / dot * LUT_ONE, 0.0).clamp(max=FP16_MAX)
    return torch.where(finite.unsqueeze(-1), codes, 0).to(torch.uint8), scale.to(torch.float16)


def plain_codes(x: Tensor, rms: Tensor, bits: int) -> Tensor:
    """Steps 3 and 4: fp32 [..., n] and [...] -> int64 codes [..., n]."""
    y = x / rms.unsqueeze(-1) * LUT_MULT[bits]
    return torch.bucketize(y.contiguous(), torch.tensor(thresholds(bits), dtype=torch.float32))


CODES: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {PLAIN: plain_codes, SEARCH: searched_codes}
"""What gives a block's codes, by the names of `encoders.ENCODERS`; arguments as of `plain_codes`."""


def quantize(
    key: Tensor,
    value: Tensor,
    layout: SlotLayout,
    k_signs: Tensor | None = None,
    v_signs: Tensor | None = None,
    encoder: str = PLAIN,
    k_center: Tensor | None = None,
) -> Tensor:
    """Slots of keys and values: fp16, bf16 or fp32 [..., head] each -> uint8 [..., slot_bytes].

    k_signs, v_signs: int32 [head / 32]; the format's own when None. encoder: of `CODES`. k_center: [kv_heads,
    head], subtracted from key [..., kv_heads, head]; None: nothing is. OctaveError for other names, shapes or dtypes.
    """
    _codes_of(encoder)
    for name, x in (("key", key), ("value", value)):
        fits = x.dim() > 0 and x.shape[-1] == layout.head_size and x.shape == key.shape
        if x.dtype not in INPUT_DTYPES or not fits:
            raise OctaveError(
                f"{name} is {x.dtype} {list(x.shape)}, beside a key of {list(key.shape)}",
                hint=f"both must be fp16, bf16 or fp32 of one shape [..., {layout.head_size}]",
            )
    rotated_k = rotate_forward(centered(key, k_center), layout.k_block_size, k_signs)
    rotated_v = rotate_forward(value.float(), layout.v_block_size, v_signs)
    slots = torch.zeros(*key.shape[:-1], layout.slot_bytes, dtype=torch.uint8)
    k_blocks = rotated_k.reshape(*key.shape[:-1], layout.k_blocks, layout.k_block_size)
    k_scales = []
    for region, blocks in zip((layout.k_nibbles, layout.k_planes), _split_k(k_blocks, layout), strict=True):
        codes, scales = encode_block(blocks, region.bits, encoder)
        _write(slots, region, pack(codes.flatten(-2), region.bits))
        k_scales.append(scales)
    codes, v_scale = encode_block(rotated_v, layout.v_bits, encoder)
    _write(slots, layout.v, pack(codes, layout.v_bits))
    _write(slots, layout.k_scales, torch.cat(k_scales, dim=-1).view(torch.uint8))
    _write(slots, layout.v_scale, v_scale.unsqueeze(-1).view(torch.uint8))
    return slots


def dequantize(slots: Tensor, layout: SlotLayout, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Keys and values in the rotated space: uint8 [..., slot_bytes] -> two [..., head] of dtype, fp32 or fp64.

    LUT[code] * scale / 64 is exact in fp32 already: 7 and 11 significant bits, and subnormal scales reach 2**-24 only.
    OctaveError for slots of another dtype or size.
    """
    if slots.dtype != torch.uint8 or slots.dim() == 0 or slots.shape[-1] != layout.slot_bytes:
        raise OctaveError(
            f"slots are {slots.dtype} {list(slots.shape)}", hint=f"they must be uint8 [..., {layout.slot_bytes}]"
        )
    scales = _read(slots, layout.k_scales).contiguous().view(torch.float16).to(dtype)
    v_scale = _read(slots, layout.v_scale).contiguous().view(torch.float16).to(dtype)
    levels = torch.cat([_levels(slots, region, dtype) for region in (layout.k_nibbles, layout.k_planes)], dim=-1)
    k_blocks = levels.reshape(*slots.shape[:-1], layout.k_blocks, layout.k_block_size)
    k = (k_blocks * scales.unsqueeze(-1) / LUT_ONE).flatten(-2)
    return k, _levels(slots, layout.v, dtype) * v_scale / LUT_ONE


def _codes_of(encoder: str) -> Callable[[Tensor, Tensor, int], Tensor]:
    if encoder not in CODES:
        raise wrong_request(
            f"there is no encoder {encoder!r}{did_you_mean(encoder, tuple(CODES))}", hint=f"known: {', '.join(CODES)}"
        )
    return CODES[encoder]


def _split_k(blocks: Tensor, layout: SlotLayout) -> tuple[Tensor, Tensor]:
    nibble_blocks = layout.k_nibbles.dims // layout.k_block_size
    return blocks[..., :nibble_blocks, :], blocks[..., nibble_blocks:, :]


def _levels(slots: Tensor, region: Region, dtype: torch.dtype) -> Tensor:
    codes = unpack(_read(slots, region), region.bits)
    return torch.tensor(LUT[region.bits], dtype=dtype)[codes.to(torch.int32)]


def _read(slots: Tensor, region: Region) -> Tensor:
    return slots[..., region.offset : region.end]


def _write(slots: Tensor, region: Region, packed: Tensor) -> None:
    slots[..., region.offset : region.end] = packed
