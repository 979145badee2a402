"""``python -m octave_gen.quality.search_curve``: what a search gains, by its candidates and bins.

In dB over the plain encoder, for N(0, 1) blocks of 64 dims with 4 and 3 bits and of 256 dims with 4 and 3 bits.
"""

from __future__ import annotations

import math
from itertools import product

import torch
from torch import Tensor

from octave_gen.formats.octave.arithmetic import square_root, tree_sum
from octave_gen.formats.octave.candidates import CANDIDATES, Candidates
from octave_gen.formats.octave.codebook import LUT
from octave_gen.formats.octave.codec import plain_codes
from octave_gen.formats.octave.search import searched_codes

BLOCKS = ((64, 4), (64, 3), (256, 4), (256, 3))
VALUES = 2_000_000
CHOICES = (
    Candidates((32,), 32, CANDIDATES.bins),
    Candidates((32, 28, 36), 32, CANDIDATES.bins),
    Candidates((32, 28, 30, 34, 36), 32, CANDIDATES.bins),
    Candidates((32, 26, 28, 30, 34, 36, 38, 40), 32, CANDIDATES.bins),
    CANDIDATES,
    Candidates((*range(64, 80), *range(48, 64)), 64, CANDIDATES.bins),
)
"""The best of some ranges each."""


def relative_error(x: Tensor, codes: Tensor, bits: int) -> float:
    """Mean of |x - x_hat|**2 / |x|**2 where x . x_hat = |x|**2: fp32 [..., n] and their int64 codes."""
    exact, levels = x.double(), torch.tensor(LUT[bits], dtype=torch.float64)[codes]
    cosine = (exact * levels).sum(-1).square() / (exact.square().sum(-1) * levels.square().sum(-1))
    return (1 / cosine - 1).mean().item()


def main() -> None:
    """Prints a line per choice."""
    samples = []
    for dims, bits in BLOCKS:
        x = torch.randn(VALUES // dims, dims, generator=torch.Generator().manual_seed(dims + bits))
        ss = tree_sum(x * x)
        rms = square_root(ss / torch.full_like(ss, dims))
        samples.append((x, rms, bits, relative_error(x, plain_codes(x, rms, bits), bits)))
    print("candidates  bins  " + "  ".join(f"{dims} dims {bits} bits" for dims, bits in BLOCKS))
    for choice, width in product(CHOICES, (4, 2, 1)):
        made = Candidates(choice.numerators, choice.denominator, choice.bins // width, width)
        gains = (
            10 * math.log10(plain / relative_error(x, searched_codes(x, rms, bits, made), bits))
            for x, rms, bits, plain in samples
        )
        print(f"{len(made.numerators):10}  {made.bins:4}  " + "  ".join(f"{gain:14.3f}" for gain in gains))


if __name__ == "__main__":
    main()
