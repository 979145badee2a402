"""The Lloyd-Max quantizer that the codebooks come from."""

from __future__ import annotations

import math
from itertools import pairwise


def lloyd_max(levels: int, tolerance: float = 1e-13) -> tuple[list[float], float]:
    """The Lloyd-Max quantizer of N(0, 1): ascending centroids and the mean squared error, in float64.

    Lloyd's iteration: boundaries are midpoints, a centroid is the mean of its cell, (pdf(a) - pdf(b)) / (cdf(b) -
    cdf(a)); at the fixed point the distortion is 1 - sum of p_i * c_i**2. `levels` is even: the positive half is
    solved, the other mirrored.
    """
    half = levels // 2
    centroids = [(2 * i + 1) * 2.0 / half for i in range(half)]
    while True:
        edges = [0.0, *((a + b) / 2 for a, b in pairwise(centroids)), math.inf]
        mass = [_upper_tail(a) - _upper_tail(b) for a, b in pairwise(edges)]
        moved = [(_pdf(a) - _pdf(b)) / p for (a, b), p in zip(pairwise(edges), mass, strict=True)]
        step = max(abs(new - old) for new, old in zip(moved, centroids, strict=True))
        centroids = moved
        if step < tolerance:
            break
    distortion = 1.0 - 2.0 * sum(p * c * c for p, c in zip(mass, centroids, strict=True))
    return [-c for c in reversed(centroids)] + centroids, distortion


def _pdf(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _upper_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2
