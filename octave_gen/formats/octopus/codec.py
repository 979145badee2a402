"""OCTOPUS with b = 2, 3 or 4 nominal bits, and its optional 1-bit residual of K.

K and V alike, per vector x of head dims:

1. gamma = |x|, fp32; u = x / gamma; rotated by signs and an orthonormal Hadamard transform of the whole head.
2. ceil(head / 3) triplets of neighbouring values; the last is filled with zeros.
3. A triplet t is coded as xi and eta, the octahedral coordinates of its direction, with b + 1 bits each, and its norm
   rho with b - 1 bits: 3b + 1 bits. So "b bits" are b + 1/3 bits a value, before gamma.
4. Joint rounding: of the 3 x 3 cells about the nearest xi and eta the one whose direction n is nearest to t; then the
   rho level nearest to t . n. That is the least squared error of the nine, as |rho n - t|**2 falls with t . n for
   every rho.

    vector: [triplet words of 3b+1 bits, a little-endian bit stream: xi, eta << (b+1), rho << 2(b+1)][gamma fp32]

With the residual K gets 1 bit a value more, for its score estimate alone: r = u - u_hat in the rotated space,
sigma = sign(R' r) with a second rotation R', and |r|:

    K: [words][gamma fp32][head sign bits, set where negative][|r| fp16]

A query's score is then estimated as gamma (<u_hat, q> + sqrt(pi / (2 head)) |r| <sigma, R' q>), which is its product
with u_hat + sqrt(pi / (2 head)) |r| R'^T sigma: what decoding gives. V never has the residual.

| at head 128 / 256 | K = V | slot | slot with the residual |
|---|---|---|---|
| 2 | 42 / 80 B | 84 / 160 | 102 / 194 |
| 3 | 58 / 112 B | 116 / 224 | 134 / 258 |
| 4 | 74 / 144 B | 148 / 288 | 166 / 322 |

From the published summary, which leaves open: how words lie in memory, the signs, |r|'s width, and whether rho is
matched to |t| or to t . n (the latter is better: 0.3 % of the error at 2 bits). A NaN or an infinity spoils its own
vector.
"""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor
from torch.nn.functional import pad

from octave_gen.formats import bits
from octave_gen.formats.bytemap import Field
from octave_gen.formats.octave.arithmetic import walsh_hadamard
from octave_gen.formats.octopus.codebooks import direction_codebook, norm_codebook
from octave_gen.formats.octopus.octahedron import to_direction, to_square
from octave_gen.formats.pair import (
    PairCodec,
    check_head,
    from_bytes,
    is_power_of_two,
    look_up,
    norm_and_direction,
    to_bytes,
)

ROTATION_SEED = 0x0C70
RESIDUAL_SEED = 0x0C71


class Triplets:
    """Steps 3 and 4: values [..., 3 * triplets] of unit vectors in head_size dims to words and back."""

    def __init__(self, nominal_bits: int, head_size: int) -> None:
        self.direction_bits = nominal_bits + 1
        self.word_bits = 3 * nominal_bits + 1
        direction, norm = direction_codebook(self.direction_bits), norm_codebook(nominal_bits - 1, head_size)
        self.levels = len(direction.centroids)
        self.thresholds = torch.tensor(direction.thresholds, dtype=torch.float32)
        self.norms = torch.tensor(norm.centroids, dtype=torch.float32)
        self.norm_thresholds = torch.tensor(norm.thresholds, dtype=torch.float32)
        square = torch.tensor(direction.centroids, dtype=torch.float64)
        xi, eta = torch.meshgrid(square, square, indexing="ij")
        self.directions = to_direction(xi, eta).float().reshape(-1, 3)  # row xi * levels + eta

    def encode(self, values: Tensor, reach: int = 1) -> Tensor:
        """fp32 [..., 3n] -> int64 words [..., n]. `reach`: cells tried to each side of the nearest xi and eta."""
        shape = values[..., ::3].shape
        x, y, z = (values[..., axis::3].reshape(-1) for axis in range(3))
        seed_xi, seed_eta = (torch.bucketize(c, self.thresholds) for c in to_square(x, y, z))
        table = self.directions.T.contiguous()  # x, y and z of every cell
        best = torch.full_like(x, -torch.inf)
        cell = torch.zeros_like(seed_xi)
        for step_xi in range(-reach, reach + 1):
            row = (seed_xi + step_xi).clamp(0, self.levels - 1) * self.levels
            for step_eta in range(-reach, reach + 1):
                tried = row + (seed_eta + step_eta).clamp(0, self.levels - 1)
                n_x, n_y, n_z = (axis.index_select(0, tried) for axis in table)
                dot = x * n_x + y * n_y + z * n_z
                cell = torch.where(dot > best, tried, cell)
                best = torch.maximum(dot, best)
        xi, eta = cell // self.levels, cell % self.levels
        rho = torch.bucketize(best, self.norm_thresholds)
        return (xi | eta << self.direction_bits | rho << 2 * self.direction_bits).reshape(shape)

    def decode(self, words: Tensor) -> Tensor:
        """Integer words [..., n] -> fp32 [..., 3n]."""
        xi, eta = words % self.levels, (words >> self.direction_bits) % self.levels
        rho = look_up(self.norms, words >> 2 * self.direction_bits)
        return (look_up(self.directions, xi * self.levels + eta) * rho.unsqueeze(-1)).flatten(-2)


class OctopusCode:
    """One vector: words, gamma, and with `residual` the signs and the norm of what is left."""

    def __init__(self, head_size: int, nominal_bits: int, residual: bool = False) -> None:
        self.head_size = head_size
        self.residual = residual
        self.triplets = Triplets(nominal_bits, head_size)
        self.count = -(-head_size // 3)
        self.word_bytes = bits.packed_bytes(self.count, self.triplets.word_bits)
        self.size = self.word_bytes + 4 + (head_size // 8 + 2 if residual else 0)
        self.signs = _signs(head_size, ROTATION_SEED)
        self.residual_signs = _signs(head_size, RESIDUAL_SEED)

    def fields(self) -> tuple[Field, ...]:
        gamma_end = self.word_bytes + 4
        fields = [Field("triplet words", 0, self.word_bytes, self.triplets.word_bits)]
        fields.append(Field("gamma, fp32", self.word_bytes, 4, 32))
        if self.residual:
            fields.append(Field("signs of the residual", gamma_end, self.size - 2 - gamma_end, 1))
            fields.append(Field("norm of the residual, fp16", self.size - 2, 2, 16))
        return tuple(fields)

    def encode(self, x: Tensor) -> Tensor:
        gamma, direction = norm_and_direction(x)
        u = walsh_hadamard(direction * self.signs)
        words = self.triplets.encode(pad(u, (0, 3 * self.count - self.head_size)))
        parts = [bits.pack(words, self.triplets.word_bits), to_bytes(gamma)]
        if self.residual:
            left = u - self.triplets.decode(words)[..., : self.head_size]
            negative = walsh_hadamard(left * self.residual_signs) < 0
            norm = torch.linalg.vector_norm(left, dim=-1).to(torch.float16)
            parts += [bits.pack(negative, 1), to_bytes(norm)]
        return torch.cat(parts, dim=-1)

    def decode(self, packed: Tensor) -> Tensor:
        gamma_end = self.word_bytes + 4
        words = bits.unpack(packed[..., : self.word_bytes], self.count, self.triplets.word_bits)
        u = self.triplets.decode(words)[..., : self.head_size]
        if self.residual:
            sigma = 1.0 - 2.0 * bits.unpack(packed[..., gamma_end:-2], self.head_size, 1)
            factor = math.sqrt(math.pi / (2 * self.head_size)) * from_bytes(packed[..., -2:], torch.float16)
            u = u + walsh_hadamard(sigma) * self.residual_signs * factor
        return walsh_hadamard(u) * self.signs * from_bytes(packed[..., self.word_bytes : gamma_end], torch.float32)


def create(name: str, head_size: int, nominal_bits: int, residual: bool) -> PairCodec:
    """`residual`: with the 1-bit residual of K. OctaveError for heads that the rotation cannot hold."""
    fits = is_power_of_two(head_size) and head_size >= 8
    check_head(
        name, head_size, fits, "a vector is rotated by one Hadamard transform, so it must be a power of two, 8 or more"
    )
    value = OctopusCode(head_size, nominal_bits)
    return PairCodec(name, head_size, OctopusCode(head_size, nominal_bits, True) if residual else value, value)


def _signs(head_size: int, seed: int) -> Tensor:
    """+1 and -1 from the bits of Python's own Mersenne Twister, which is the same everywhere."""
    drawn = random.Random(seed).getrandbits(head_size)
    return torch.tensor([1.0 - 2.0 * (drawn >> dim & 1) for dim in range(head_size)])
