"""PolarQuant, for reference numbers: a vector as a norm and a tree of angles, each with its own Lloyd-Max codebook."""

from __future__ import annotations

import math

import numpy as np
import torch

from octave_gen.formats.lloyd_max import of_density


def polar_quant(x: torch.Tensor, bits: int) -> torch.Tensor:
    """x [..., 2**m], already rotated -> its reconstruction with `bits` for each of the 2**m - 1 angles, norm exact.

    Neighbours (a, b) become an angle atan2(b, a) and a length, again and again. The first angles are uniform on the
    circle; an angle between the lengths of two halves of n values has density sin(2 t)**(n - 1) on [0, pi / 2].
    """
    lengths, angles, half = x, [], 1
    while lengths.shape[-1] > 1:
        a, b = lengths[..., 0::2], lengths[..., 1::2]
        angles.append(_rounded(torch.atan2(b, a), half, bits))
        lengths = torch.hypot(a, b)
        half *= 2
    for angle in reversed(angles):
        lengths = torch.stack((lengths * angle.cos(), lengths * angle.sin()), dim=-1).flatten(-2)
    return lengths


def _rounded(angle: torch.Tensor, half: int, bits: int) -> torch.Tensor:
    if half == 1:
        points = np.linspace(-math.pi, math.pi, 100_001)
        density = np.ones_like(points)
    else:
        points = np.linspace(0, math.pi / 2, 100_001)
        density = np.sin(2 * points) ** (half - 1)
    codebook = of_density(points, density, 2**bits)
    centroids = torch.tensor(codebook.centroids, dtype=angle.dtype)
    return centroids[torch.bucketize(angle, torch.tensor(codebook.thresholds, dtype=angle.dtype))]
