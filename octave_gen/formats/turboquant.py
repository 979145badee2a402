"""TurboQuant as a public serving engine has it: cache dtypes turboquant_{k8v4, 4bit_nc, k3v4_nc, 3bit_nc}.

Slot: [K codes][K norm fp16][V codes][V scale fp16][V minimum fp16]; k8v4 has [K e4m3fn] and no norm. The engine pads
slots to an even size, which they have. Bytes at head 128: 196, 134, 118, 102; at head 256: 388, 262, 230, 198.

K: the direction k / |k| is rotated by the orthonormal Sylvester-Hadamard matrix, without signs; a code is the number of
Lloyd-Max thresholds of N(0, 1 / head) that are not above the value. Decoded, the vector of centroids is scaled to norm
1 ("nc", norm correction), rotated back and multiplied by |k|. The codebook here is the converged one; the engine stops
its own iteration after 200 steps. k8v4 casts K to fp8 unrotated.

V: not rotated, uniform: scale = max(max - min, floor) / (2**bits - 1), code = floor((v - min) / scale + 1/2), taken
before scale and minimum are rounded to fp16. Codes of both are a little-endian bit stream.

From the public description of the format. fp16 casts do not saturate: a norm beyond 65504 becomes infinite, and a NaN
or an infinity spoils its own vector.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.formats import bits, lloyd_max
from octave_gen.formats.bytemap import Field
from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.pair import (
    PairCodec,
    VectorCode,
    check_head,
    from_bytes,
    is_power_of_two,
    look_up,
    norm_and_direction,
    to_bytes,
)
from octave_gen.formats.scalar import Fp8

V_SCALE_FLOOR = 1e-8


class RotatedKey:
    """[codes][norm fp16]: K in the engine's MSE form. `renormalize` is the "nc" of the names."""

    def __init__(self, head_size: int, width: int, renormalize: bool = True) -> None:
        self.head_size = head_size
        self.width = width
        self.renormalize = renormalize
        self.code_bytes = bits.packed_bytes(head_size, width)
        self.size = self.code_bytes + 2
        codebook = lloyd_max.gaussian(2**width).scaled(head_size**-0.5)
        self.centroids = torch.tensor(codebook.centroids, dtype=torch.float32)
        self.thresholds = torch.tensor(codebook.thresholds, dtype=torch.float32)

    def fields(self) -> tuple[Field, ...]:
        return Field("codes", 0, self.code_bytes, self.width), Field("norm, fp16", self.code_bytes, 2, 16)

    def encode(self, x: Tensor) -> Tensor:
        norm, direction = norm_and_direction(x)
        # NaN counts as above every threshold: a code like any other, beside a norm that is NaN
        codes = torch.bucketize(walsh_hadamard(direction), self.thresholds, right=True)
        return torch.cat((bits.pack(codes, self.width), to_bytes(norm.to(torch.float16))), dim=-1)

    def decode(self, packed: Tensor) -> Tensor:
        y = look_up(self.centroids, bits.unpack(packed[..., : self.code_bytes], self.head_size, self.width))
        if self.renormalize:
            y = y / torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        return walsh_hadamard(y) * from_bytes(packed[..., self.code_bytes :], torch.float16)


class UniformValue:
    """[codes][scale fp16][minimum fp16]."""

    def __init__(self, head_size: int, width: int) -> None:
        self.head_size = head_size
        self.width = width
        self.code_bytes = bits.packed_bytes(head_size, width)
        self.size = self.code_bytes + 4

    def fields(self) -> tuple[Field, ...]:
        return (
            Field("codes", 0, self.code_bytes, self.width),
            Field("scale, fp16", self.code_bytes, 2, 16),
            Field("minimum, fp16", self.code_bytes + 2, 2, 16),
        )

    def encode(self, x: Tensor) -> Tensor:
        top = 2**self.width - 1
        low, high = x.aminmax(dim=-1)
        scale = ((high - low) / top).clamp(min=V_SCALE_FLOOR)
        levels = ((x - low.unsqueeze(-1)) / scale.unsqueeze(-1) + 0.5).floor()
        codes = levels.nan_to_num(0, 0, 0).clamp(0, top)
        numbers = torch.stack((scale, low), dim=-1).to(torch.float16).view(torch.uint8)
        return torch.cat((bits.pack(codes, self.width), numbers), dim=-1)

    def decode(self, packed: Tensor) -> Tensor:
        codes = bits.unpack(packed[..., : self.code_bytes], self.head_size, self.width)
        numbers = from_bytes(packed[..., self.code_bytes :], torch.float16)
        return codes * numbers[..., :1] + numbers[..., 1:]


def create(name: str, head_size: int, k_bits: int, v_bits: int) -> PairCodec:
    """k_bits 8 is fp8; OctaveError for heads that the format cannot hold."""
    key: VectorCode
    if k_bits == 8:
        check_head(name, head_size, head_size % 8 == 0, "it must be a multiple of 8, so that V's codes fill bytes")
        key = Fp8(head_size)
    else:
        fits = is_power_of_two(head_size) and head_size >= 8
        check_head(
            name, head_size, fits, "K is rotated by one Hadamard matrix, so it must be a power of two, 8 or more"
        )
        key = RotatedKey(head_size, k_bits)
    return PairCodec(name, head_size, key, UniformValue(head_size, v_bits))
