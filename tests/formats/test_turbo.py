"""turbo3 and turbo4: the statements of the fork's own tests, and the byte map read in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hadamard import hadamard

from octave_gen.formats import bits
from octave_gen.formats.codecs import make
from octave_gen.formats.lloyd_max import gaussian as lloyd_max
from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.turbo import CENTROIDS, ChunkCode

BLOCK_BYTES = {3: 14, 4: 18}


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scalar_pack(codes: list[int], width: int) -> list[int]:
    """turbo3: code j at bit 3j of the stream; turbo4: element 2j in the low nibble of byte j, 2j+1 in the high."""
    if width == 4:
        return [codes[2 * j] | codes[2 * j + 1] << 4 for j in range(16)]
    packed = [0] * 12
    for j, code in enumerate(codes):
        for bit in range(3):
            packed[(3 * j + bit) // 8] |= (code >> bit & 1) << (3 * j + bit) % 8
    return packed


@pytest.mark.parametrize("row", [128, 256, 384])
def test_transform_of_chunks_is_its_own_inverse(row: int) -> None:
    chunks = gaussian(100, row // 128, 128, seed=row)
    assert (walsh_hadamard(walsh_hadamard(chunks)) - chunks).abs().max().item() < 1e-5


@pytest.mark.parametrize(("width", "window"), [(3, (0.025, 0.045)), (4, (0.005, 0.015))])
@pytest.mark.parametrize("head", [128, 256, 384])
def test_error_lies_in_its_window(width: int, window: tuple[float, float], head: int) -> None:
    x = gaussian(1000, head, seed=head + width)
    code = ChunkCode(head, width)
    error = (code.decode(code.encode(x)) - x).square().sum() / x.square().sum()
    assert window[0] < error.item() < window[1]
    assert error.item() == pytest.approx(
        {3: 0.03398, 4: 0.00932}[width], rel=0.02
    )  # of 65,536 vectors; s.e. 0.7 % here


@pytest.mark.parametrize("width", [3, 4])
@pytest.mark.parametrize(
    "pattern",
    [
        [0] * 32,
        [-1] * 32,  # the highest code
        list(range(32)),
        [0, -1] * 16,
        [-1] + [0] * 31,
        [5, 2, 7, 1, 6, 0, 3, 4] * 4,
    ],
    ids=["lowest", "highest", "ascending", "alternating", "first", "mixed"],
)
def test_packing(width: int, pattern: list[int]) -> None:
    codes = [code % 2**width for code in pattern]
    packed = bits.pack(torch.tensor(codes), width)
    assert packed.tolist() == scalar_pack(codes, width)
    assert len(packed) + 2 == BLOCK_BYTES[width]
    assert bits.unpack(packed, 32, width).tolist() == codes


@pytest.mark.parametrize("width", [3, 4])
def test_chunks_are_coded_on_their_own(width: int) -> None:
    x = gaussian(50, 256, seed=width)
    louder = x.clone()
    louder[:, 128:] *= 1000
    half = 4 * BLOCK_BYTES[width]
    code = ChunkCode(256, width)
    packed, other = code.encode(x), code.encode(louder)
    assert torch.equal(packed[:, :half], other[:, :half])
    assert not torch.equal(packed[:, half:], other[:, half:])
    single = ChunkCode(128, width)
    for part in range(2):
        assert torch.equal(
            packed[:, part * half : (part + 1) * half], single.encode(x[:, part * 128 : part * 128 + 128])
        )
    poisoned = x.clone()
    poisoned[:, 200] = torch.nan
    decoded = code.decode(code.encode(poisoned))
    assert torch.equal(decoded[:, :128], code.decode(packed)[:, :128])
    assert bool(decoded[:, 128:].isnan().all())


@pytest.mark.parametrize("width", [3, 4])
def test_slots_by_their_byte_map(width: int) -> None:
    key, value = gaussian(6, 256, seed=1), 5 * gaussian(6, 256, seed=2)
    codec = make(f"turbo{width}", 256, 64)
    slots = codec.encode(key, value)
    centroids = np.array(CENTROIDS[width], dtype=np.float32).astype(np.float64)
    matrix = hadamard(128)
    k, v = codec.decode(slots)
    for row, original, decoded in zip(slots.tolist(), torch.cat((key, value), -1), torch.cat((k, v), -1), strict=True):
        for chunk in range(4):
            x = original[128 * chunk : 128 * chunk + 128].double().numpy()
            norm = float(np.float16(np.sqrt((x**2).sum())))
            rotated = matrix @ x / np.sqrt((x**2).sum())
            levels = []
            for block in range(4):
                start = (4 * chunk + block) * BLOCK_BYTES[width]
                stored = row[start : start + BLOCK_BYTES[width]]
                assert float(np.frombuffer(bytes(stored[:2]), dtype="<f2")[0]) == norm
                number = int.from_bytes(bytes(stored[2:]), "little")
                levels += [centroids[number >> width * j & 2**width - 1] for j in range(32)]
            assert np.abs(rotated - levels) == pytest.approx(np.abs(rotated[:, None] - centroids).min(1), abs=1e-6)
            assert decoded[128 * chunk : 128 * chunk + 128].numpy() == pytest.approx(matrix @ levels * norm, abs=2e-5)


def test_of_two_equally_near_centroids_the_first_wins() -> None:
    for width in (3, 4):
        code = ChunkCode(128, width)
        exact = code.midpoints.float()
        representable = exact.double() == code.midpoints
        assert bool(representable.any())
        for lower in representable.nonzero().flatten().tolist():
            distances = (exact[lower].double() - code.centroids.double()).abs()
            assert distances[lower] == distances[lower + 1]
            assert int(code.nearest(exact[lower])) == lower


@pytest.mark.parametrize(
    ("width", "outermost", "lopsided"),
    [
        (3, 0.1883970748, [-2224, -2778, -3121, -3290]),
        (4, 0.2376153882, [-235989, -285673, -322175, -350921, -373404, -390121, -401238, -406794]),
    ],
)
def test_centroids_of_the_fork(width: int, outermost: float, lopsided: list[int]) -> None:
    """Its numbers are no exact mirror images: `lopsided` sums each with its opposite, from outside in, in 1e-10."""
    centroids = CENTROIDS[width]
    assert list(centroids) == sorted(centroids)
    assert centroids[-1] == outermost
    sums = [high + low for low, high in zip(centroids, reversed(centroids), strict=True)]
    assert [round(s * 1e10) for s in sums[: 2 ** (width - 1)]] == pytest.approx(lopsided, abs=1)
    # a normal coordinate's codebook is a little wider at the rim: a unit vector's coordinates have lighter tails
    normal = lloyd_max(2**width).scaled(128**-0.5).centroids
    assert 0.001 < normal[-1] - centroids[-1] < 0.006
