"""What other quantizers of a rotated vector reach, at head 128: the numbers beside which OCTOPUS is to be read.

A standard error of 16,384 vectors is at most 0.2 % of the error; the facts have four digits, from samples of their own.
"""

from __future__ import annotations

import pytest
import torch
from polar_quant import polar_quant

from octave_gen.formats import bits
from octave_gen.formats.lloyd_max import gaussian as lloyd_max
from octave_gen.formats.octopus.codec import OctopusCode


def unit_vectors(seed: int) -> torch.Tensor:
    x = torch.randn(16384, 128, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(x, dim=-1)


@pytest.mark.parametrize(
    ("width", "measured", "fact"), [(2, 0.2195, 0.2189), (3, 0.0571, 0.0570), (4, 0.01450, 0.0145)]
)
def test_polar_quant(width: int, measured: float, fact: float) -> None:
    x = unit_vectors(width)
    error = (polar_quant(x, width) - x).square().sum(-1).mean().item()
    assert error == pytest.approx(measured, rel=0.006)
    assert abs(error - fact) < 0.006 * fact + 5e-5


@pytest.mark.parametrize(
    ("levels", "word_bits", "fact", "nominal"), [(5, 7, 0.0788, 2), (10, 10, 0.0225, 3), (20, 13, 0.0061, 4)]
)
def test_plain_levels_beat_octopus_at_the_bits_of_its_triplets(
    levels: int, word_bits: int, fact: float, nominal: int
) -> None:
    """Three values of 5, 10 or 20 Lloyd-Max levels as one number of 7, 10 or 13 bits: what OCTOPUS spends on three."""
    assert levels**3 <= 2**word_bits == 2 ** (3 * nominal + 1)
    x = unit_vectors(nominal)
    book = lloyd_max(levels).scaled(128**-0.5)
    padded = torch.nn.functional.pad(x, (0, 1))
    codes = torch.bucketize(padded, torch.tensor(book.thresholds)).reshape(-1, 43, 3)
    packed = bits.pack(codes[..., 0] + levels * (codes[..., 1] + levels * codes[..., 2]), word_bits)
    octopus = OctopusCode(128, nominal)
    assert packed.shape[-1] == octopus.size - 4
    words = bits.unpack(packed, 43, word_bits).long()
    unpacked = torch.stack((words % levels, words // levels % levels, words // levels**2), dim=-1).flatten(-2)
    error = (torch.tensor(book.centroids)[unpacked] - padded)[:, :128].square().sum(-1).mean().item()
    assert abs(error - fact) < 0.005 * fact + 5e-5
    assert error < 0.96 * (octopus.decode(octopus.encode(x)) - x).square().sum(-1).mean().item()
