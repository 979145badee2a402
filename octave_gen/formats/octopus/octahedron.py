"""The octahedral map: directions in space to points of the square [-1, 1]**2 and back.

A vector is divided by the sum of its absolute values, which puts it on the octahedron. The upper half (z >= 0) is seen
from above as |xi| + |eta| <= 1; the lower half is folded outwards over the edges into the four corners.

The map is linear on each octant, but not equal-area on the sphere: the solid angle per area of the square is 1 / r**3
for a point at distance r on the octahedron, so it grows from 1 at a corner of it to sqrt(27) in the middle of a face.
"""

from __future__ import annotations

import torch
from torch import Tensor


def to_square(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors of any length -> (xi, eta); the zero vector goes to the middle, the point of +z."""
    length = (x.abs() + y.abs() + z.abs()).clamp(min=torch.finfo(x.dtype).tiny)
    xi, eta = x / length, y / length
    below = z < 0
    return (
        torch.where(below, _with_sign(1 - eta.abs(), xi), xi),
        torch.where(below, _with_sign(1 - xi.abs(), eta), eta),
    )


def to_direction(xi: Tensor, eta: Tensor) -> Tensor:
    """Points of the square [...] -> unit vectors [..., 3]."""
    z = 1 - xi.abs() - eta.abs()
    below = z < 0
    x = torch.where(below, _with_sign(1 - eta.abs(), xi), xi)
    y = torch.where(below, _with_sign(1 - xi.abs(), eta), eta)
    return torch.nn.functional.normalize(torch.stack((x, y, z), dim=-1), dim=-1)


def _with_sign(magnitude: Tensor, sign: Tensor) -> Tensor:
    """magnitude with the sign of another number; that of zero is plus."""
    return torch.where(sign < 0, -magnitude, magnitude)
