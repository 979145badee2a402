"""Baselines that cast each value by itself: fp16, fp8 and int8. No rotation.

| codec | K and V, each             | bytes at head 256 | rule |
|---|---|---|---|
| fp16  | [head fp16]               | 1024 | round to nearest even; beyond 65504 Inf |
| fp8   | [head e4m3fn]             | 512  | scale 1.0, as serving engines do uncalibrated; beyond 448 saturated |
| int8  | [head int8][fp32 scale]   | 520  | scale = max |x| / 127 per token and kv head; round to nearest even |

A NaN stays one in fp16 and fp8. An int8 vector with a NaN or an infinity decodes to NaN as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from octave_gen.formats.pair import PairCodec, VectorCode, check_head, from_bytes, to_bytes

FP8_MAX = 448.0
INT8_MAX = 127


class Fp16:
    def __init__(self, head_size: int) -> None:
        self.size = 2 * head_size

    def encode(self, x: Tensor) -> Tensor:
        return x.to(torch.float16).view(torch.uint8)

    def decode(self, packed: Tensor) -> Tensor:
        return from_bytes(packed, torch.float16)


class Fp8:
    def __init__(self, head_size: int) -> None:
        self.size = head_size

    def encode(self, x: Tensor) -> Tensor:
        return x.clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).view(torch.uint8)

    def decode(self, packed: Tensor) -> Tensor:
        return from_bytes(packed, torch.float8_e4m3fn)


class Int8:
    def __init__(self, head_size: int) -> None:
        self.size = head_size + 4

    def encode(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(dim=-1) / INT8_MAX
        levels = torch.where(scale > 0, 1 / scale.double(), 0).unsqueeze(-1) * x
        codes = levels.nan_to_num(0, 0, 0).round().clamp(-INT8_MAX, INT8_MAX).to(torch.int8)
        return torch.cat((codes.view(torch.uint8), to_bytes(scale)), dim=-1)

    def decode(self, packed: Tensor) -> Tensor:
        return from_bytes(packed[..., :-4], torch.int8) * from_bytes(packed[..., -4:], torch.float32)


def create(name: str, head_size: int) -> PairCodec:
    """The codec fp16, fp8 or int8 for any head_size above zero."""
    check_head(name, head_size, head_size > 0, "it needs one dim at least")
    kinds: dict[str, Callable[[int], VectorCode]] = {"fp16": Fp16, "fp8": Fp8, "int8": Int8}
    code = kinds[name](head_size)
    return PairCodec(name, head_size, code, code)
