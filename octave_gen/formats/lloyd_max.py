"""Lloyd-Max quantizers: the scalar codebooks of least mean squared error for a source, solved when they are asked for.

At the optimum a threshold is the midpoint of its two centroids, and a centroid is the mean of the source in its cell.
Lloyd's iteration alternates the two. All in float64; needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TOLERANCE = 1e-12  # the last step of a centroid, in units of the source's spread
MAX_STEPS = 100_000  # 32 levels of N(0, 1) take about 2,200


@dataclass(frozen=True)
class Quantizer:
    """A scalar codebook. `distortion` is the mean squared error that the source has with it."""

    centroids: tuple[float, ...]
    distortion: float

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Midpoints of neighbouring centroids, ascending."""
        return tuple((a + b) / 2 for a, b in zip(self.centroids, self.centroids[1:], strict=False))

    def scaled(self, factor: float) -> Quantizer:
        """The quantizer of the source times a positive factor."""
        return Quantizer(tuple(c * factor for c in self.centroids), self.distortion * factor * factor)


@cache
def gaussian(levels: int) -> Quantizer:
    """The Lloyd-Max quantizer of N(0, 1), symmetric to the last bit."""

    def moments(edges: Array) -> tuple[Array, Array]:
        mass = np.array([math.erf(t / math.sqrt(2)) / 2 for t in edges])
        return mass, -np.exp(-edges * edges / 2) / math.sqrt(2 * math.pi)

    start = np.linspace(-2, 2, levels) if levels > 1 else np.zeros(1)
    return _solve(moments, (-math.inf, math.inf), (start - start[::-1]) / 2, spread=1.0, power=1.0)


def of_density(points: Array, density: Array, levels: int) -> Quantizer:
    """The Lloyd-Max quantizer of a source given by its density, in any unit, at ascending points of its support.

    Between the points the integrals are linear, so the error falls with the square of their distance.
    """
    steps = np.diff(points)

    def integral(values: Array) -> Array:
        return np.concatenate(([0.0], np.cumsum((values[1:] + values[:-1]) / 2 * steps)))

    total = integral(density)[-1]
    mass, first = integral(density) / total, integral(points * density) / total
    power = float(integral(points * points * density)[-1] / total)

    def moments(edges: Array) -> tuple[Array, Array]:
        return np.interp(edges, points, mass), np.interp(edges, points, first)

    # the best codebook of many levels has them as dense as the cube root of the density
    dense = np.concatenate(([0.0], np.cumsum(np.cbrt((density[1:] + density[:-1]) / 2) * steps)))
    start = np.interp((np.arange(levels) + 0.5) / levels * dense[-1], dense, points)
    support = (float(points[0]), float(points[-1]))
    return _solve(moments, support, start, spread=math.sqrt(power), power=power)


def _solve(
    moments: Callable[[Array], tuple[Array, Array]],
    support: tuple[float, float],
    centroids: Array,
    spread: float,
    power: float,
) -> Quantizer:
    """moments(edges): the source's probability and first moment below each edge, both up to a constant."""
    for _ in range(MAX_STEPS):
        edges = np.concatenate(([support[0]], (centroids[1:] + centroids[:-1]) / 2, [support[1]]))
        mass, first = (np.diff(below) for below in moments(edges))
        moved = first / mass
        step = float(np.abs(moved - centroids).max())
        centroids = moved
        if step < TOLERANCE * spread:
            return Quantizer(tuple(centroids.tolist()), power - float((mass * centroids * centroids).sum()))
    raise ArithmeticError(
        f"Lloyd's iteration for {len(centroids)} levels still moves by {step} after {MAX_STEPS} steps"
    )
