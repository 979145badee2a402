from __future__ import annotations

import pytest
import torch

from octave_gen.formats.octave.packing import pack, unpack


def scalar_pack(codes: list[int], bits: int) -> bytes:
    """Straight from the bit rules, dword by dword."""
    dwords: list[int] = []
    if bits == 4:
        for base in range(0, len(codes), 8):
            word = 0
            for j in range(4):
                word |= codes[base + j] << 8 * j | codes[base + j + 4] << 8 * j + 4
            dwords.append(word)
    else:
        for base in range(0, len(codes), 16):
            dwords.append(sum((codes[base + 4 * i + b] & 3) << 8 * b + 2 * i for i in range(4) for b in range(4)))
        for base in range(0, len(codes), 32):
            dwords.append(sum((codes[base + 4 * i + b] >> 2) << 8 * b + i for i in range(8) for b in range(4)))
    return b"".join(word.to_bytes(4, "little") for word in dwords)


def random_codes(bits: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(bits)
    return torch.randint(0, 2**bits, shape, generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("bits", [3, 4])
@pytest.mark.parametrize("n", [32, 64, 192, 256, 512])
def test_pack_follows_the_bit_rules_and_unpack_undoes_it(bits: int, n: int) -> None:
    codes = random_codes(bits, 5, 3, n)
    packed = pack(codes, bits)
    assert packed.shape == (5, 3, n * bits // 8)
    assert packed.dtype == torch.uint8
    for row, bytes_of_row in zip(codes.reshape(-1, n), packed.reshape(15, -1), strict=True):
        assert bytes(bytes_of_row.tolist()) == scalar_pack(row.tolist(), bits)
    assert torch.equal(unpack(packed, bits), codes)


@pytest.mark.parametrize("bits", [3, 4])
def test_every_byte_pattern_unpacks_to_what_packs_back(bits: int) -> None:
    generator = torch.Generator().manual_seed(0)
    packed = torch.randint(0, 256, (64, 64 * bits // 8), generator=generator, dtype=torch.uint8)
    codes = unpack(packed, bits)
    assert int(codes.max()) < 2**bits
    assert torch.equal(pack(codes, bits), packed)


@pytest.mark.parametrize("bits", [3, 4])
def test_one_code_touches_only_its_own_bits(bits: int) -> None:
    top = 2**bits - 1
    seen = 0
    for dim in range(64):
        codes = torch.zeros(64, dtype=torch.uint8)
        codes[dim] = top
        mask = int.from_bytes(bytes(pack(codes, bits).tolist()), "little")
        assert mask.bit_count() == bits
        assert not seen & mask
        seen |= mask
    assert seen == 2 ** (64 * bits) - 1


def test_strided_and_empty_input() -> None:
    codes = random_codes(3, 4, 64, 2)[..., 0]
    assert torch.equal(pack(codes, 3), pack(codes.contiguous(), 3))
    packed = pack(random_codes(4, 6, 64), 4)
    wide = torch.zeros(6, 99, dtype=torch.uint8)
    wide[:, 7:39] = packed
    assert torch.equal(unpack(wide[:, 7:39], 4), unpack(packed, 4))
    assert pack(torch.zeros(2, 0, dtype=torch.uint8), 3).shape == (2, 0)
    assert unpack(torch.zeros(2, 0, dtype=torch.uint8), 4).shape == (2, 0)
