"""What the summary of the OCTOPUS paper states in numbers, at head 128 on Gaussian data. docs/claims.md lists the claims.

TurboQuant-MSE is `turboquant.RotatedKey` without norm correction. PolarQuant, TurboQuant-QJL and other allocations of a
triplet's bits are no formats of this package; what a comparison needs of them is written here.
"""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from octave_gen.formats import lloyd_max
from octave_gen.formats.codecs import make
from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.octopus.codebooks import direction_codebook, norm_codebook
from octave_gen.formats.octopus.codec import OctopusCode, Triplets
from octave_gen.formats.octopus.octahedron import to_direction
from octave_gen.formats.turboquant import RotatedKey

HEAD = 128
BITS = (2, 3, 4)


@cache
def gaussian(count: int = 4000) -> Tensor:
    return torch.randn(count, HEAD, generator=torch.Generator().manual_seed(0))


def mse(x_hat: Tensor, x: Tensor) -> float:
    return float((x_hat - x).square().sum() / x.square().sum())


def slope(x_hat: Tensor, x: Tensor) -> float:
    return float((x_hat * x).sum() / x.square().sum())


@cache
def octopus(bits: int, residual: bool = False) -> Tensor:
    code = OctopusCode(HEAD, bits, residual)
    return code.decode(code.encode(gaussian()))


@cache
def turboquant(bits: int) -> Tensor:
    code = RotatedKey(HEAD, bits, renormalize=False)
    return code.decode(code.encode(gaussian()))


def in_the_split(direction_bits: int, norm_bits: int, reach: int) -> float:
    """Relative MSE of triplets with so many bits for xi, for eta and for the norm."""
    triplets = Triplets(2, HEAD)
    square, norm = direction_codebook(direction_bits), norm_codebook(norm_bits, HEAD)
    triplets.direction_bits, triplets.levels = direction_bits, 2**direction_bits
    triplets.thresholds, triplets.norm_thresholds = (torch.tensor(q.thresholds).float() for q in (square, norm))
    triplets.norms = torch.tensor(norm.centroids).float()
    xi, eta = torch.meshgrid(*2 * [torch.tensor(square.centroids, dtype=torch.float64)], indexing="ij")
    triplets.directions = to_direction(xi, eta).float().reshape(-1, 3)
    unit = pad(gaussian(1500) / gaussian(1500).norm(dim=-1, keepdim=True), (0, 1))
    return mse(triplets.decode(triplets.encode(unit, reach)), unit)


@pytest.mark.parametrize(("bits", "words", "rate"), [(2, 38, 2.625), (3, 54, 3.625), (4, 70, 4.625)])
def test_the_true_rate(bits: int, words: int, rate: float) -> None:
    triplets = -(-HEAD // 3)
    assert triplets == 43
    code = OctopusCode(HEAD, bits)
    assert code.triplets.word_bits == 3 * bits + 1
    assert code.word_bytes == words == -(-triplets * (3 * bits + 1) // 8)
    assert 8 * code.size / HEAD == rate
    assert 8 * (code.size - words) / HEAD == 0.25  # gamma
    residual = OctopusCode(HEAD, bits, residual=True)
    assert 8 * (residual.size - code.size) / HEAD == 1 + 16 / HEAD


@pytest.mark.parametrize(
    ("bits", "joint", "alone", "turbo", "polar"),
    [(2, 0.0832, 0.0894, 0.1159, 0.2189), (3, 0.0242, 0.0260, 0.0340, 0.0570), (4, 0.0066, 0.0071, 0.0093, 0.0145)],
)
def test_mse_of_the_rotation_codecs(bits: int, joint: float, alone: float, turbo: float, polar: float) -> None:
    assert mse(octopus(bits), gaussian()) == pytest.approx(joint, rel=0.01)
    assert in_the_split(bits + 1, bits - 1, reach=0) == pytest.approx(alone, rel=0.01)
    assert mse(turboquant(bits), gaussian()) == pytest.approx(turbo, rel=0.01)
    assert mse(polarquant(bits), gaussian()) == pytest.approx(polar, rel=0.01)


@cache
def polarquant(bits: int) -> Tensor:
    """Pairs to radius and angle, radii to pairs again, and so on; every angle with the Lloyd-Max codebook of its level."""
    radius, angles = gaussian(), []
    while radius.shape[-1] > 1:
        a, b = radius[:, 0::2], radius[:, 1::2]
        angles.append(torch.atan2(b, a) if angles else torch.atan2(b, a) % (2 * math.pi))
        radius = torch.hypot(a, b)
    for level in reversed(range(len(angles))):
        # an angle of two radii of 2**(level - 1) values each: density sin(2 theta)**(2**level - 1)
        points = np.linspace(0, math.pi / 2 if level else 2 * math.pi, 20_001)
        density = np.sin(2 * points) ** (2**level - 1) if level else np.ones_like(points)
        codebook = lloyd_max.of_density(points, density, 2**bits)
        thresholds, centroids = (torch.tensor(x).float() for x in (codebook.thresholds, codebook.centroids))
        theta = centroids[torch.bucketize(angles[level].contiguous(), thresholds)]
        radius = torch.stack((radius * theta.cos(), radius * theta.sin()), dim=-1).flatten(-2)
    return radius


@pytest.mark.parametrize(("levels", "word_bits", "expected"), [(5, 7, 0.0788), (10, 10, 0.0225), (20, 13, 0.0061)])
def test_plain_scalar_codes_of_the_same_triplet_bits_are_better(levels: int, word_bits: int, expected: float) -> None:
    assert levels**3 <= 2**word_bits
    assert word_bits in (3 * bits + 1 for bits in BITS)
    points = np.linspace(-1, 1, 100_001)
    codebook = lloyd_max.of_density(points, (1 - points**2) ** ((HEAD - 3) / 2), levels)
    assert codebook.distortion * HEAD == pytest.approx(expected, rel=0.005)
    assert codebook.distortion * HEAD < mse(octopus((word_bits - 1) // 3), gaussian())


@pytest.mark.parametrize(
    ("bits", "joint", "alone"), [(2, 0.41, 0.43), (3, 0.35, 0.40), (4, 0.30, 0.37)], ids=["2", "3", "4"]
)
def test_saving_of_the_uneven_split_over_one_bit_less(bits: int, joint: float, alone: float) -> None:
    for reach, saving in ((1, joint), (0, alone)):
        found = 1 - in_the_split(bits + 1, bits - 1, reach) / in_the_split(bits, bits, reach)
        assert found == pytest.approx(saving, abs=0.01)
    # one more bit for three values is worth as much at any rate
    assert pytest.approx(0.37, abs=0.001) == 1 - 2 ** (-2 / 3)


@pytest.mark.parametrize(("bits", "saving"), [(2, 0.36), (3, 0.29), (4, 0.23)])
def test_the_uneven_split_is_the_best_of_its_triplet_bits(bits: int, saving: float) -> None:
    ours = in_the_split(bits + 1, bits - 1, reach=1)
    assert 1 - ours / in_the_split(bits, bits + 1, reach=1) == pytest.approx(saving, abs=0.01)
    if bits > 2:
        assert ours < in_the_split(bits + 2, bits - 3, reach=1)


@pytest.mark.parametrize("head", [64, 128, 256])
def test_variance_of_the_triplet_norm_falls_as_one_over_d(head: int) -> None:
    rho = np.linspace(0, 1, 200_001)
    density = rho**2 * (1 - rho**2) ** ((head - 5) / 2)
    mean, square = ((rho**power * density).sum() / density.sum() for power in (1, 2))
    assert square == pytest.approx(3 / head, rel=1e-4)
    assert head * (square - mean**2) == pytest.approx(3 - 8 / math.pi, rel=0.05)


@pytest.mark.parametrize("bits", BITS)
def test_the_search_of_nine_cells_is_the_search_of_all(bits: int) -> None:
    triplets = Triplets(bits, HEAD)
    values = torch.randn(1, 3 * 10_000, generator=torch.Generator().manual_seed(1)) / math.sqrt(HEAD)
    near, full = triplets.encode(values), triplets.encode(values, reach=triplets.levels - 1)
    assert int((near != full).sum()) == 0


def test_the_octahedral_map_does_not_keep_areas() -> None:
    # solid angle per area of the square, by the normals of small triangles of directions
    step = 1e-4
    points = torch.rand(20_000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 2 - 1
    inside = (points.abs() > 2 * step).all(-1) & ((points.abs().sum(-1) - 1).abs() > 4 * step)
    xi, eta = points[inside].T
    here, right, up = to_direction(xi, eta), to_direction(xi + step, eta), to_direction(xi, eta + step)
    areas = torch.linalg.cross(right - here, up - here).norm(dim=-1) / step**2
    assert areas.min() == pytest.approx(1, abs=0.05)
    assert areas.max() == pytest.approx(27**0.5, abs=0.05)
    assert areas.mean() == pytest.approx(math.pi, abs=0.03)  # the whole sphere over the whole square


@pytest.mark.parametrize(
    ("bits", "without", "turbo"), [(2, 0.924, 0.885), (3, 0.977, 0.967), (4, 0.994, 0.991)], ids=["2", "3", "4"]
)
def test_the_residual_takes_the_bias_away(bits: int, without: float, turbo: float) -> None:
    assert slope(turboquant(bits), gaussian()) == pytest.approx(turbo, abs=0.001)
    assert slope(octopus(bits), gaussian()) == pytest.approx(without, abs=0.001)
    assert slope(octopus(bits, residual=True), gaussian()) == pytest.approx(1, abs=0.0015)


@pytest.mark.parametrize(
    ("bits", "rotated", "normal"), [(2, 2.1, 3.6), (3, 2.2, 3.8), (4, 2.3, 3.8)], ids=["2", "3", "4"]
)
def test_error_of_inner_products_against_turboquant_with_a_residual(bits: int, rotated: float, normal: float) -> None:
    query = torch.randn(gaussian().shape, generator=torch.Generator().manual_seed(3))

    def error(x_hat: Tensor) -> float:
        return float(((x_hat - gaussian()) * query).sum(-1).abs().mean())

    ours = error(octopus(bits, residual=True))
    assert error(turboquant_qjl(bits, rotated=True)) / ours == pytest.approx(rotated, abs=0.15)
    assert error(turboquant_qjl(bits, rotated=False)) / ours == pytest.approx(normal, abs=0.2)


def turboquant_qjl(bits: int, rotated: bool) -> Tensor:
    """bits - 1 bits for each value and a 1-bit sketch of what is left: of a rotation or of a normal matrix."""
    x_hat = turboquant(bits - 1) if bits > 2 else _one_bit()
    left = gaussian() - x_hat
    norm = left.norm(dim=-1, keepdim=True)
    if rotated:
        drawn = random.Random(7).getrandbits(HEAD)
        signs = torch.tensor([1.0 - 2.0 * (drawn >> dim & 1) for dim in range(HEAD)])
        sketch = torch.where(walsh_hadamard(left * signs) < 0, -1.0, 1.0)
        return x_hat + walsh_hadamard(sketch) * signs * norm * math.sqrt(math.pi / (2 * HEAD))
    matrix = torch.randn(HEAD, HEAD, generator=torch.Generator().manual_seed(3))
    return x_hat + (left @ matrix.T).sign() @ matrix * norm * math.sqrt(math.pi / 2) / HEAD


def _one_bit() -> Tensor:
    code = RotatedKey(HEAD, 1, renormalize=False)
    return code.decode(code.encode(gaussian()))


@pytest.mark.parametrize("bits", [2, 3])
def test_one_more_bit_is_better_than_the_residual(bits: int) -> None:
    plain, residual = make(f"octopus_{bits + 1}", HEAD, HEAD), make(f"octopus_{bits}_qjl", HEAD, HEAD)
    assert plain.key.size < residual.key.size  # type: ignore[attr-defined]
    assert mse(octopus(bits + 1), gaussian()) < 0.6 * mse(octopus(bits, residual=True), gaussian())


@pytest.mark.parametrize(("bits", "size"), [(2, 40), (3, 80), (4, 160)])
def test_bytes_of_the_codebooks(bits: int, size: int) -> None:
    levels = len(direction_codebook(bits + 1).centroids) + len(norm_codebook(bits - 1, HEAD).centroids)
    assert 4 * levels == size


def test_published_ratios_follow_from_the_published_numbers() -> None:
    octopus_2, turbo_2, polar_2 = 0.0897, 0.1161, 0.2197
    assert turbo_2 / octopus_2 == pytest.approx(1.3, abs=0.05)
    assert polar_2 / octopus_2 == pytest.approx(2.4, abs=0.06)
    assert pytest.approx(0.5, abs=0.06) == 34.7 / 63.0
