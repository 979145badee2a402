from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from octave_gen.formats.lloyd_max import Quantizer, gaussian, of_density

# mean squared error of N(0, 1), as published
DISTORTIONS = [(1, 1.0), (2, 0.363380), (4, 0.117482), (8, 0.034548), (16, 0.009501)]


def normal_cell(a: float, b: float) -> tuple[float, float, float]:
    """Integrals of 1, x and x**2 against the density of N(0, 1) from a to b, by Simpson's rule on 4,000 intervals."""
    x = np.linspace(max(a, -12.0), min(b, 12.0), 4001)
    weight = np.full(4001, 2.0)
    weight[1::2] = 4.0
    weight[[0, -1]] = 1.0
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * weight * (x[1] - x[0]) / 3
    return float(density.sum()), float((x * density).sum()), float((x * x * density).sum())


@pytest.mark.parametrize(("levels", "distortion"), DISTORTIONS)
def test_distortions_as_published(levels: int, distortion: float) -> None:
    assert gaussian(levels).distortion == pytest.approx(distortion, abs=5e-7)


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 8, 10, 16, 20, 32])
def test_every_centroid_is_the_mean_of_its_cell(levels: int) -> None:
    solved = gaussian(levels)
    edges = (-math.inf, *solved.thresholds, math.inf)
    error = 0.0
    for (a, b), centroid in zip(itertools.pairwise(edges), solved.centroids, strict=True):
        mass, first, second = normal_cell(a, b)
        assert first / mass == pytest.approx(centroid, abs=1e-9)
        error += second - 2 * centroid * first + centroid * centroid * mass
    assert solved.distortion == pytest.approx(error, abs=1e-10)


@pytest.mark.parametrize("levels", [1, 2, 5, 8, 16, 20])
def test_gaussian_codebooks_ascend_and_are_symmetric(levels: int) -> None:
    centroids = gaussian(levels).centroids
    assert len(set(centroids)) == levels
    assert list(centroids) == sorted(centroids)
    assert centroids == tuple(-c for c in reversed(centroids))


def test_two_levels_are_the_half_normal_mean() -> None:
    assert gaussian(2).centroids[1] == pytest.approx(math.sqrt(2 / math.pi), abs=1e-12)


@pytest.mark.parametrize("levels", [1, 2, 5, 32])
def test_uniform_density_gives_equal_cells(levels: int) -> None:
    solved = of_density(np.linspace(2, 4, 100_001), np.full(100_001, 7.0), levels)
    assert solved.centroids == pytest.approx([2 + (2 * i + 1) / levels for i in range(levels)], abs=1e-8)
    assert solved.distortion == pytest.approx((2 / levels) ** 2 / 12, abs=1e-8)


@pytest.mark.parametrize("levels", [2, 8, 32])
def test_a_tabulated_density_gives_the_codebook_of_the_closed_form(levels: int) -> None:
    x = np.linspace(-9, 9, 200_001)
    solved = of_density(x, np.exp(-x * x / 2), levels)
    assert solved.centroids == pytest.approx(gaussian(levels).centroids, abs=1e-6)
    assert solved.distortion == pytest.approx(gaussian(levels).distortion, abs=1e-8)


def test_scaled_is_the_source_times_a_factor() -> None:
    assert Quantizer((-1.0, 3.0), 0.5).scaled(2) == Quantizer((-2.0, 6.0), 2.0)
    assert Quantizer((-1.0, 3.0), 0.5).thresholds == (1.0,)
