"""What the page of the llama.cpp fork states in numbers. docs/claims.md lists the claims."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from octave_gen.formats import lloyd_max
from octave_gen.formats.codecs import make
from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.turbo import BLOCK, CENTROIDS, CHUNK, ChunkCode
from octave_gen.quality.attention import compare
from octave_gen.quality.synthetic import GENERATORS, Shape


@pytest.mark.parametrize(("name", "block", "bits", "saved"), [("turbo3", 14, 3.5, 78), ("turbo4", 18, 4.5, 72)])
@pytest.mark.parametrize("head", [128, 256])
def test_bits_per_value_and_memory_saved(name: str, block: int, bits: float, saved: int, head: int) -> None:
    slot_bytes = make(name, head, head).slot_bytes
    assert slot_bytes == 2 * head // 32 * block
    assert 8 * slot_bytes / (2 * head) == bits
    assert round(100 * (1 - bits / 16)) == saved


def test_q8_0_has_a_scale() -> None:
    bits = 8 * (32 + 2) / 32  # 32 int8 and an fp16
    assert bits == 8.5
    assert 100 * (1 - bits / 16) == pytest.approx(46.9, abs=0.05)


def test_cache_of_131072_tokens() -> None:
    # 8 attention layers of 4 kv heads with 256 dims give the 4096 MiB of f16
    def mebibytes(name: str) -> float:
        return 131072 * 8 * 4 * make(name, 256, 256).slot_bytes / 2**20

    assert mebibytes("fp16") == 4096
    assert mebibytes("turbo3") == 896
    # the two totals of the page, in GB of 10**9 bytes
    assert pytest.approx(14.81 - 11.47, abs=0.02) == (4096 - 896) * 2**20 / 1e9


@pytest.mark.parametrize(("width", "off"), [(3, 2e-7), (4, 6e-5)])
def test_centroids_are_those_of_a_coordinate_of_a_unit_vector(width: int, off: float) -> None:
    points = np.linspace(-1, 1, 400_001)
    solved = lloyd_max.of_density(points, (1 - points**2) ** ((CHUNK - 3) / 2), 2**width)
    assert np.abs(np.array(solved.centroids) - CENTROIDS[width]).max() < off
    normal = lloyd_max.gaussian(2**width).scaled(CHUNK**-0.5)
    assert np.abs(np.array(normal.centroids) - CENTROIDS[width]).max() > 1e-3


@pytest.mark.parametrize(("width", "nmse", "slope", "norm"), [(3, 0.0339, 0.966, 0.982), (4, 0.0093, 0.991, 0.995)])
def test_error_and_shrinking(width: int, nmse: float, slope: float, norm: float) -> None:
    x = torch.randn(8000, CHUNK, generator=torch.Generator().manual_seed(0))
    code = ChunkCode(CHUNK, width)
    x_hat = code.decode(code.encode(x))
    energy = x.square().sum()
    assert float((x - x_hat).square().sum() / energy) == pytest.approx(nmse, rel=0.01)
    assert float((x * x_hat).sum() / energy) == pytest.approx(slope, abs=0.001)
    assert float((x_hat.norm(dim=-1) / x.norm(dim=-1)).mean()) == pytest.approx(norm, abs=0.001)


def test_halves_of_a_head_are_coded_alone() -> None:
    x = torch.randn(50, 256, generator=torch.Generator().manual_seed(1))
    whole, half = ChunkCode(256, 3), ChunkCode(128, 3)
    packed = whole.encode(x * torch.tensor([1.0, 1000.0]).repeat_interleave(128))
    assert torch.equal(packed[:, : half.size], half.encode(x[:, :128]))
    blocks = packed.reshape(50, 256 // BLOCK, -1)[..., :2]
    assert (blocks[:, 1:4] == blocks[:, :1]).all()
    assert (blocks[:, 5:] == blocks[:, 4:5]).all()


def test_the_transform_moves_to_the_query_and_out_of_the_sum() -> None:
    g = torch.Generator().manual_seed(2)
    codes, query = (
        torch.randn(64, CHUNK, dtype=torch.float64, generator=g),
        torch.randn(CHUNK, dtype=torch.float64, generator=g),
    )
    weights = torch.softmax(torch.randn(64, dtype=torch.float64, generator=g), dim=0)
    assert torch.allclose(walsh_hadamard(codes) @ query, codes @ walsh_hadamard(query), atol=1e-12)
    assert torch.allclose(weights @ walsh_hadamard(codes), walsh_hadamard(weights @ codes), atol=1e-12)


@pytest.mark.parametrize("name", ["turbo3", "turbo4"])
def test_error_does_not_grow_with_the_context(name: str) -> None:
    errors = []
    for tokens in (256, 1024):
        sample = GENERATORS["isotropic"].sample(0, Shape(128, 128, group=1, tokens=tokens))
        query, key, value = sample.query.float(), sample.key[:, 0].float(), sample.value[:, 0].float()
        codec = make(name, 128, 128)
        losses = compare(query, key, value, [codec.decode(codec.encode(key, value))], sample.sm_scale)
        errors.append((losses.each[0].error / losses.energy) ** 0.5)
    assert errors[1] == pytest.approx(errors[0], rel=0.1)


def test_published_differences_follow_from_the_published_numbers() -> None:
    f16, q8, turbo4, turbo3 = 1.7031, 1.7044, 1.7134, 1.7544
    assert [round(x - f16, 3) for x in (q8, turbo4, turbo3)] == [0.001, 0.010, 0.051]
    nowhere, four, everywhere = 1.5337, 1.5292, 1.5284
    assert (nowhere - four) / (nowhere - everywhere) == pytest.approx(0.85, abs=0.005)
    assert [3.5 + layers / 8 for layers in (0, 4, 6, 8)] == [3.5, 4.0, 4.25, 4.5]
    assert pytest.approx(1.53, abs=0.005) == 3933 / 2565
    # and one that does not: the first table has turbo below f16 at every prompt length
    for f16_speed, turbo3_speed in ((1894, 1836), (1345, 1319), (563, 548)):
        assert 0.96 < turbo3_speed / f16_speed < 0.985
