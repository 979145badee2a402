"""The codes of the encoder `search`: those of the factor of the rms whose codes have the best cosine with the block.

A factor f moves all thresholds to f times where `codec` has them. What that does to the cosine is read off a histogram
of the magnitudes, for all factors at once. In place of steps 3 and 4 of `codec`, for a block of n rotated values x
with root mean square rms, and s = 4 steps a unit of the codebook (2 for n > 256):

a. r = fp32(s * LUT_MULT / rms), correctly rounded. q = x * r, the exact product rounded once to the nearest integer,
   halves to even.
b. A value's bin is min(|q| div s, 127). N[b] and S[b] are the number of values in bin b and all above it, and the sum
   of their |q|.
c. Candidate c of 16 has the factor f = (32 + c) / 32 for c < 8, else (16 + c) / 32: 1 ... 39/32, 24/32 ... 31/32. With
   the positive thresholds h_1 < h_2 < ... of the codebook, threshold i lies before bin
   t_i = min(round(h_i * f + 1/8), 127), halves to even. With the positive levels l_0 < l_1 < ...
       dot = l_0 S[0] + sum of (l_i - l_(i-1)) S[t_i]
       e = l_0^2 N[0] + sum of (l_i^2 - l_(i-1)^2) N[t_i].
d. metric = fp32(fp32(dot * dot) / fp32(e)), correctly rounded, with the low 4 of its 32 bits cleared. The largest wins,
   of equal ones the first.
e. With m the number of the winner's t_i that are not above the value's bin, code = 2^(bits-1) + m where q > 0, else
   2^(bits-1) - 1 - m.

All sums are integers: by Cauchy's inequality |q| sums up to (59 s + 1/2) n at most, 60672 for n = 512, so that it fits
in 16 bits, and dot and e are below 2^24, exact in fp32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.formats.octave.candidates import CANDIDATES, RANK_BITS, Candidates, gains, steps_per_unit
from octave_gen.formats.octave.codebook import LUT_MULT


def searched_codes(x: Tensor, rms: Tensor, bits: int, candidates: Candidates = CANDIDATES) -> Tensor:
    """Steps a-e: fp32 [..., n] and [...] -> int64 codes [..., n]; any codes where rms is not finite."""
    q = _integers(x, rms, bits)
    bins = (q.abs() // (steps_per_unit(x.shape[-1]) * candidates.width)).clamp(max=candidates.bins - 1)
    starts = torch.tensor(candidates.starts(bits))
    best = _best(_suffixes(torch.ones_like(q), bins, candidates), _suffixes(q.abs(), bins, candidates), starts, bits)
    above = torch.searchsorted(starts[best], bins, right=True)
    half = 2 ** (bits - 1)
    return torch.where(q > 0, half + above, half - 1 - above)


def _integers(x: Tensor, rms: Tensor, bits: int) -> Tensor:
    """q of step a, int64 [..., n]; 0 where it is not finite."""
    r = torch.full_like(rms, steps_per_unit(x.shape[-1]) * LUT_MULT[bits]) / rms
    product = x.double() * r.double().unsqueeze(-1)  # exact
    return torch.where(product.isfinite(), product.round(), 0.0).clamp(-(2.0**20), 2.0**20).long()


def _suffixes(values: Tensor, bins: Tensor, candidates: Candidates) -> Tensor:
    """Of each bin the sum of the values in it and in all above: int64 [..., n] -> [..., bins]."""
    sums = torch.zeros(*values.shape[:-1], candidates.bins, dtype=torch.int64)
    return sums.scatter_add_(-1, bins, values).flip(-1).cumsum(-1).flip(-1)


def _best(counts: Tensor, sums: Tensor, starts: Tensor, bits: int) -> Tensor:
    """The winner of steps c and d: two of int64 [..., bins] -> int64 [...]."""
    (level, square), *steps = gains(bits)
    dot, energy = level * sums[..., :1], square * counts[..., :1]
    for i, (more_level, more_square) in enumerate(steps):
        dot = dot + more_level * sums[..., starts[:, i]]
        energy = energy + more_square * counts[..., starts[:, i]]
    metric = (dot.float() * dot.float() / energy.float()).view(torch.int32) >> RANK_BITS
    return (metric == metric.amax(dim=-1, keepdim=True)).int().argmax(dim=-1)
