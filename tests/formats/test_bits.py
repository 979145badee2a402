from __future__ import annotations

import pytest
import torch

from octave_gen.formats.bits import pack, packed_bytes, unpack


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 10, 13, 15])
@pytest.mark.parametrize("count", [1, 7, 32, 43])
def test_the_stream_is_one_little_endian_number(width: int, count: int) -> None:
    generator = torch.Generator().manual_seed(width * count)
    codes = torch.randint(0, 2**width, (5, 2, count), generator=generator)
    packed = pack(codes, width)
    assert packed.shape == (5, 2, packed_bytes(count, width))
    assert packed.shape[-1] == (count * width + 7) // 8
    for row, stream in zip(codes.reshape(10, count).tolist(), packed.reshape(10, -1).tolist(), strict=True):
        assert int.from_bytes(bytes(stream), "little") == sum(code << width * j for j, code in enumerate(row))
    assert torch.equal(unpack(packed, count, width).long(), codes)


def test_no_vectors_give_no_bytes() -> None:
    packed = pack(torch.zeros(0, 8, dtype=torch.int64), 3)
    assert packed.shape == (0, 3)
    assert unpack(packed, 8, 3).shape == (0, 8)
