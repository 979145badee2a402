"""Sums and transforms of the Octave encoder, with every rounding stated, so that any kernel can give the same bits.

All of it is IEEE-754 binary32, round to nearest even, subnormals kept, no contraction of a*b+c. Every function acts
on the last dimension and on all leading ones at once.

* Transform of n = 2**m dims: stages h = 1, 2, 4, ..., n/2 in this order; each replaces (x[i], x[i+h]) by
  (x[i] + x[i+h], x[i] - x[i+h]) for every i whose bit h is clear; then one multiplication by fp32(1/sqrt(n)).
* Sum of n = 2**m values: levels h = 1, 2, 4, ...; each adds x[i] and x[i^h]. Addition commutes, so a butterfly over
  lanes and a pairwise halving of neighbours give the same bits.
* Sum of a whole head that is no power of two: each 64 dims as above, then the partial sums from left to right.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from octave_gen.formats.octave.layout import BLOCK_DIMS, whole_block_dims


def walsh_hadamard(x: Tensor) -> Tensor:
    """Orthonormal Walsh-Hadamard transform (Sylvester, natural order) of the last dimension; its own inverse.

    x: [..., n] fp32 or fp64, n a power of two; the result and the rounding of 1/sqrt(n) are of that dtype.
    """
    n = x.shape[-1]
    h = 1
    while h < n:
        pairs = x.reshape(*x.shape[:-1], n // (2 * h), 2, h)
        low, high = pairs[..., 0, :], pairs[..., 1, :]
        x = torch.stack((low + high, low - high), dim=-2).reshape(x.shape)
        h *= 2
    return x * torch.tensor(1 / math.sqrt(n), dtype=x.dtype)


def square_root(x: Tensor) -> Tensor:
    """Correctly rounded square root of fp32 x.

    torch's own fp32 root on a CPU is one unit in the last place off for 17 % of inputs. A root in float64, within
    a unit in its last place, rounds to the right fp32: no root in [1, 2) of an fp32 number lies nearer than 2**-50 to a
    midpoint of two fp32 numbers.
    """
    return x.double().sqrt().float()


def tree_sum(x: Tensor) -> Tensor:
    """Sum of the last dimension in the stated order; [..., n] -> [...], n a power of two or a multiple of 64."""
    n = x.shape[-1]
    block = whole_block_dims(n)
    if block != n:
        partial = tree_sum(x.reshape(*x.shape[:-1], n // BLOCK_DIMS, BLOCK_DIMS))
        total = partial[..., 0]
        for i in range(1, partial.shape[-1]):
            total = total + partial[..., i]
        return total
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    return x[..., 0]
