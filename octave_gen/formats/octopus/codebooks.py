"""The two codebooks of OCTOPUS: Lloyd-Max for the marginals that a random unit vector gives. Needs no torch.

Three coordinates of a uniform unit vector in d dims have a direction that is uniform on the sphere and a norm rho with
rho**2 ~ Beta(3/2, (d - 3)/2), so its density is proportional to rho**2 * (1 - rho**2)**((d - 5)/2).

Density of the square coordinate xi (and of eta) of a uniform direction. A point p of the octahedron at distance r = |p|
has density 1 / (4 pi r**3) on the square. For |xi| = s, t = 1 - s, the integral over eta of the upper half is that of
(s**2 + y**2 + (t - y)**2)**(-3/2) over y from 0 to t, twice; the folded half is the same with s and t exchanged:

    f(xi) = (t / (t**2 + 2 s**2) + s / (s**2 + 2 t**2)) / (pi * sqrt(s**2 + t**2))
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from octave_gen.formats.lloyd_max import Array, Quantizer, of_density

POINTS = 200_001  # the distance of two points, 1e-5, leaves errors below 1e-9 in the centroids


def square_density(xi: Array) -> Array:
    """The density of one octahedral coordinate, xi in [-1, 1]."""
    s = np.abs(xi)
    t = 1 - s
    result: Array = (t / (t * t + 2 * s * s) + s / (s * s + 2 * t * t)) / (math.pi * np.sqrt(s * s + t * t))
    return result


@cache
def direction_codebook(bits: int) -> Quantizer:
    """2**bits levels for xi and eta, symmetric to the last bit."""
    points = np.linspace(-1, 1, POINTS)
    solved = of_density(points, square_density(points), 2**bits)
    half = len(solved.centroids) // 2
    upper = tuple((b - a) / 2 for a, b in zip(solved.centroids[half - 1 :: -1], solved.centroids[half:], strict=True))
    return Quantizer((*(-c for c in reversed(upper)), *upper), solved.distortion)


@cache
def norm_codebook(bits: int, head_size: int) -> Quantizer:
    """2**bits levels for the norm of three coordinates of a unit vector in head_size dims, 8 or more."""
    rho = np.linspace(0, 1, POINTS)
    return of_density(rho, rho**2 * (1 - rho**2) ** ((head_size - 5) / 2), 2**bits)
