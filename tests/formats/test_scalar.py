from __future__ import annotations

import struct

import pytest
import torch

from octave_gen.formats.codecs import make


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_fp16_is_a_cast() -> None:
    codec = make("fp16", 96, 96)
    key, value = gaussian(5, 96, seed=1), gaussian(5, 96, seed=2)
    slots = codec.encode(key, value)
    assert bytes(slots[3].tolist()) == struct.pack("<192e", *key[3].tolist(), *value[3].tolist())
    k, v = codec.decode(slots)
    assert torch.equal(k, key.half().float())
    assert torch.equal(v, value.half().float())
    k, _ = codec.decode(codec.encode(torch.full((96,), 65520.0), torch.zeros(96)))
    assert bool(k.isinf().all())


def e4m3(byte: int) -> float:
    """An fp8 number from its bits: sign, 4 bits of exponent with bias 7, 3 of mantissa; subnormals step by 2**-9."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    magnitude = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9
    return -magnitude if byte & 128 else magnitude


def test_fp8_rounds_to_the_nearest_number_and_saturates() -> None:
    codec = make("fp8", 256, 64)
    every = torch.tensor([e4m3(byte) for byte in range(256) if byte & 127 != 127])  # 127 and 255 are NaN
    x = torch.cat((every, torch.zeros(2)))
    assert torch.equal(codec.decode(codec.encode(x, x))[0], x)
    x = gaussian(20, 256) * 2.0 ** torch.arange(-10, 10).unsqueeze(-1)
    nearest = (x.unsqueeze(-1) - every).abs().min(dim=-1).values
    k, v = codec.decode(codec.encode(x, -x))
    assert torch.equal((k - x).abs(), nearest)
    assert torch.equal(v, -k)
    assert k.abs().max().item() == 448.0 < x.abs().max().item()
    x = torch.tensor([torch.inf, -torch.inf, 1e30, torch.nan]).repeat(64)
    k, _ = codec.decode(codec.encode(x, x))
    assert k[:3].tolist() == [448.0, -448.0, 448.0]
    assert bool(k[3].isnan())


def test_int8_of_each_vector_by_its_own_scale() -> None:
    codec = make("int8", 128, 64)
    key, value = gaussian(50, 128, seed=1) * torch.arange(50).unsqueeze(-1), gaussian(50, 128, seed=2)
    slots = codec.encode(key, value)
    for x, packed in ((key, slots[:, :132]), (value, slots[:, 132:])):
        for row, stored in zip(x, packed, strict=True):
            *codes, scale = struct.unpack("<128bf", bytes(stored.tolist()))
            assert scale == pytest.approx(float(row.abs().max()) / 127, rel=1e-7)
            assert max(map(abs, codes)) == (127 if scale else 0)
            assert all(abs(c * scale - float(value)) <= scale * 0.500001 for c, value in zip(codes, row, strict=True))
    k, v = codec.decode(slots)
    assert float((v - value).square().sum() / value.square().sum()) == pytest.approx(4.4e-5, rel=0.05)  # measured
    assert torch.equal(k[0], torch.zeros(128))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_int8_of_a_poisoned_vector_is_nan(poison: float) -> None:
    codec = make("int8", 128, 64)
    x = gaussian(128)
    x[9] = poison
    k, v = codec.decode(codec.encode(x, x))
    assert bool(k.isnan().all())
    assert bool(v.isnan().all())
