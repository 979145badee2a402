"""The encoder `search`: its stated arithmetic, what it gains, and that no block is notably worse for it."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave import OCTAVE, SlotLayout
from octave_gen.formats.octave.arithmetic import square_root, tree_sum, walsh_hadamard
from octave_gen.formats.octave.candidates import CANDIDATES, gains, steps_per_unit
from octave_gen.formats.octave.codebook import LUT, LUT_MULT, thresholds
from octave_gen.formats.octave.codec import dequantize, encode_block, quantize
from octave_gen.formats.octave.encoders import PLAIN, SEARCH
from octave_gen.formats.octave.rotation import rotate_forward

K3V3, K3V4, COMPACT = 3, 4, 19


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed))


def decoded(x: Tensor, bits: int, encoder: str) -> Tensor:
    """What a block's slot stands for, in float64, but with a scale that is not rounded to fp16."""
    codes, _ = encode_block(x, bits, encoder)
    levels = torch.tensor(LUT[bits], dtype=torch.float64)[codes.long()]
    exact = x.double()
    return levels * ((exact * exact).sum(-1) / (exact * levels).sum(-1)).unsqueeze(-1)


def error(x: Tensor, bits: int, encoder: str) -> Tensor:
    """Squared error of each block by its squared norm."""
    exact = x.double()
    return (decoded(x, bits, encoder) - exact).square().sum(-1) / exact.square().sum(-1)


def best_of_exact(x: Tensor, bits: int, factors: Tensor) -> Tensor:
    """The least such error of plain codes for factors of the rms, tried one after the other in float64."""
    exact = x.double()
    rms = exact.square().mean(-1, keepdim=True).sqrt()
    best = torch.full(x.shape[:-1], math.inf, dtype=torch.float64)
    for factor in factors:
        y = exact / (rms * factor) * LUT_MULT[bits]
        levels = torch.tensor(LUT[bits], dtype=torch.float64)[
            torch.bucketize(y, torch.tensor(thresholds(bits), dtype=torch.float64))
        ]
        cosine = (exact * levels).sum(-1).square() / (exact.square().sum(-1) * levels.square().sum(-1))
        best = torch.minimum(best, 1 / cosine - 1)
    return best


def scalar_codes(x: np.ndarray, rms: np.float32, bits: int, last: bool = False) -> list[int]:
    """The docstring of `search`, one value and one rounded operation at a time. last: of equal metrics."""
    n, half = len(x), 2 ** (bits - 1)
    s = 4 if n <= 256 else 2
    r = np.float32(s * LUT_MULT[bits]) / rms
    q = [round(Fraction(float(v)) * Fraction(float(r))) for v in x]
    bins = [min(abs(v) // s, 127) for v in q]
    levels = [value for value in LUT[bits] if value > 0]
    limits = [Fraction(limit) for limit in thresholds(bits) if limit > 0]
    found: list[tuple[int, list[int]]] = []
    for c in range(16):
        f = Fraction(32 + c if c < 8 else 16 + c, 32)
        starts = [min(round(limit * f + Fraction(1, 8)), 127) for limit in limits]
        dot = levels[0] * sum(map(abs, q))
        energy = levels[0] ** 2 * n
        for i, start in enumerate(starts):
            dot += (levels[i + 1] - levels[i]) * sum(abs(v) for v, b in zip(q, bins, strict=True) if b >= start)
            energy += (levels[i + 1] ** 2 - levels[i] ** 2) * sum(b >= start for b in bins)
        assert max(dot, energy) < 2**24
        metric = np.float32(dot) * np.float32(dot) / np.float32(energy)
        found.append((int(metric.view(np.uint32)) & ~15, starts))
    best = max(metric for metric, _ in found)
    starts = [starts for metric, starts in found if metric == best][-1 if last else 0]
    above = [sum(start <= b for start in starts) for b in bins]
    return [half + m if v > 0 else half - 1 - m for v, m in zip(q, above, strict=True)]


def rms_of(x: Tensor) -> Tensor:
    ss = tree_sum(x * x)
    return square_root(ss / torch.full_like(ss, x.shape[-1])).clamp(min=1e-12)


@pytest.mark.parametrize("dims", [64, 128, 192, 256, 320, 512])
@pytest.mark.parametrize("bits", [3, 4])
def test_codes_and_scales_are_the_scalar_arithmetic(dims: int, bits: int) -> None:
    x = gaussian(12, dims, seed=dims + bits)
    x[1] *= 5e4
    x[2] *= 1e-13
    x[3] *= 5e17
    x[4] = x[4].sign()
    x[5, 1:] = 0
    x[6] = torch.where(x[6] > 0.4, 2.0, -0.75)
    x[7] = x[7].half().float().exp()
    x[8] *= 1e-40
    codes, scales = encode_block(x, bits, SEARCH)
    rms = rms_of(x)
    ss = tree_sum(x * x)
    dot = tree_sum(x * torch.tensor(LUT[bits], dtype=torch.float32)[codes.long()])
    for row in range(len(x)):
        assert codes[row].tolist() == scalar_codes(x[row].numpy(), np.float32(rms[row]), bits)
        assert scales[row] == (ss[row] / dot[row] * 64 if dot[row] > 0 else torch.tensor(0.0)).clamp(max=65504).half()


def two_valued(count: int, dims: int, seed: int) -> Tensor:
    """Blocks of two magnitudes, whose candidates often come out equal."""
    source = generator(seed)
    large = torch.rand(count, 1, generator=source) * 3
    share = torch.rand(count, 1, generator=source)
    sign = torch.where(torch.rand(count, dims, generator=source) < 0.5, -1.0, 1.0)
    return sign * torch.where(torch.rand(count, dims, generator=source) < share, large, 1.0)


@pytest.mark.parametrize("bits", [3, 4])
def test_of_equal_candidates_the_first_is_taken(bits: int) -> None:
    x = two_valued(60, 64, seed=3)
    rms = rms_of(x)
    codes = encode_block(x, bits, SEARCH)[0].tolist()
    first, last = (
        [scalar_codes(row.numpy(), np.float32(r), bits, last=last) for row, r in zip(x, rms, strict=True)]
        for last in (False, True)
    )
    assert codes == first != last


def test_the_first_candidate_is_the_plain_scale() -> None:
    assert CANDIDATES.factors[0] == 1.0
    flat = torch.ones(3, 64)
    flat[1] = 0
    flat[2, ::2] = -1
    for bits in (3, 4):
        assert torch.equal(encode_block(flat, bits, SEARCH)[0], encode_block(flat, bits, PLAIN)[0])


@pytest.mark.parametrize(
    ("dims", "bits", "before", "after", "short_of"),
    [(64, 4, 0.00898, 0.00708, 0), (64, 3, 0.03384, 0.03043, 0), (256, 4, 0.00935, 0.00848, 5e-5),
     (256, 3, 0.03498, 0.03386, 4e-5)],
)  # fmt: skip
def test_errors_of_gaussian_blocks(dims: int, bits: int, before: float, after: float, short_of: float) -> None:
    """`after`: of 21 exact candidates, 0.8 to 1.2; both are within 1 % of the mean of ten million values. The histogram
    falls short of the exact search by at most `short_of`."""
    x = gaussian(1_000_000 // dims, dims, seed=17)
    assert error(x, bits, PLAIN).mean().item() == pytest.approx(before, rel=0.01)
    exact = best_of_exact(x, bits, torch.linspace(0.8, 1.2, 21).double()).mean().item()
    assert exact == pytest.approx(after, rel=0.01)
    assert error(x, bits, SEARCH).mean().item() < exact + short_of


@pytest.mark.parametrize(
    ("fmt", "slot_bytes", "before", "after"),
    [(COMPACT, 196, 14.56, 14.70), (K3V3, 216, 15.07, 15.40), (K3V4, 248, 17.94, 18.40)],
)
def test_whole_slots_of_isotropic_heads(fmt: int, slot_bytes: int, before: float, after: float) -> None:
    """The mean of what K and V have, in dB."""
    layout = SlotLayout.of(256, 64, fmt)
    assert layout.slot_bytes == slot_bytes
    key, value = gaussian(6000, 256, seed=21), gaussian(6000, 256, seed=22)
    rotated = rotate_forward(key, layout.k_block_size), rotate_forward(value, layout.v_block_size)
    for encoder, expected in ((PLAIN, before), (SEARCH, after)):
        found = dequantize(quantize(key, value, layout, encoder=encoder), layout, torch.float64)
        ratios = [
            (x.double().square().sum() / (x_hat - x).square().sum()).item()
            for x, x_hat in zip(rotated, found, strict=True)
        ]
        assert sum(10 * math.log10(ratio) for ratio in ratios) / 2 == pytest.approx(expected, abs=0.05)
        for x, x_hat in zip(rotated, found, strict=True):
            blocks, hats = (
                t.reshape(len(t), -1, layout.k_block_size if x is rotated[0] else 256) for t in (x.double(), x_hat)
            )
            assert torch.allclose((blocks * hats).sum(-1), blocks.square().sum(-1), rtol=2**-10)


def heavy_tailed(count: int, dims: int, seed: int) -> Tensor:
    tails = gaussian(count, dims, seed=seed + 1).square() + gaussian(count, dims, seed=seed + 2).square()
    return gaussian(count, dims, seed=seed) / (tails + 1e-3).sqrt()


def few_hot(count: int, dims: int, seed: int) -> Tensor:
    """The transform of three numbers and zeros: values of few magnitudes."""
    x = torch.zeros(count, dims)
    places = torch.randint(dims, (count, 3), generator=generator(seed))
    return walsh_hadamard(x.scatter_(1, places, gaussian(count, 3, seed=seed + 1)))


EDGES = {
    "one_hot": lambda count, dims: torch.eye(dims)[:8],
    "constant": lambda count, dims: torch.ones(1, dims) * torch.tensor([1.0, 65504.0, 2.0**-24, 3e38 / dims])[:, None],
    "flat": lambda count, dims: gaussian(count, dims, seed=31).sign(),
    "two_valued": lambda count, dims: two_valued(count, dims, seed=32),
    "few_hot": lambda count, dims: few_hot(count, dims, seed=33),
    "heavy_tailed": lambda count, dims: heavy_tailed(count, dims, seed=34),
    "uniform": lambda count, dims: torch.rand(count, dims, generator=generator(35)) - 0.5,
    "fp16_denormals": lambda count, dims: (gaussian(count, dims, seed=36) * 2.0**-21).half().float(),
    "bf16_extremes": lambda count, dims: (gaussian(count, dims, seed=37) * 1e17).bfloat16().float(),
    "spikes": lambda count, dims: gaussian(count, dims, seed=38).pow(9),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("dims", [64, 256, 512])
@pytest.mark.parametrize("bits", [3, 4])
def test_no_block_is_notably_worse_for_the_search(name: str, dims: int, bits: int) -> None:
    x = EDGES[name](60_000 // dims, dims)
    plain, search = (error(x, bits, encoder).nan_to_num() for encoder in (PLAIN, SEARCH))
    # relative to the error, or to the norm of the block: a thousandth of its square
    assert (search <= plain * 1.06 + 1e-3).all()
    assert search.mean() <= plain.mean() * 1.0001


@pytest.mark.parametrize("bits", [3, 4])
def test_blocks_that_are_not_finite_are_zero(bits: int) -> None:
    x = gaussian(5, 64, seed=41)
    clean = encode_block(x, bits, SEARCH)
    x[1, 3], x[2, 0], x[3] = torch.nan, -torch.inf, x[3] * 1e20
    codes, scales = encode_block(x, bits, SEARCH)
    for row in (0, 4):
        assert torch.equal(codes[row], clean[0][row])
        assert scales[row] == clean[1][row]
    assert not codes[1:4].any()
    assert not scales[1:4].any()


def test_an_unknown_encoder_is_refused() -> None:
    with pytest.raises(OctaveError, match=r"there is no encoder 'serach' \(did you mean search"):
        encode_block(torch.ones(64), 3, "serach")


@pytest.mark.parametrize("dims", [64, 256, 512])
@pytest.mark.parametrize("bits", [3, 4])
def test_sums_fit_in_sixteen_bits(dims: int, bits: int) -> None:
    """Flat blocks have the largest sum of magnitudes (Cauchy); rounding adds half a step a value at most."""
    largest = dims * steps_per_unit(dims) * LUT_MULT[bits] + dims / 2
    assert largest < 2**16
    assert sum(level for level, _ in gains(bits)) * largest < 2**24
    assert max(square for _, square in gains(bits)) < 2**16
    assert dims * sum(square for _, square in gains(bits)) < 2**24


def test_candidates_are_what_kernels_take_them_for() -> None:
    assert CANDIDATES.bins == 128
    assert CANDIDATES.factors == tuple((24 + (c ^ 8)) / 32 for c in range(16))
    for bits in (3, 4):
        for starts in CANDIDATES.starts(bits):
            assert starts[0] > 0
            assert starts[-1] <= 127
            assert list(starts) == sorted(set(starts))
        levels = [value for value in LUT[bits] if value > 0]
        assert [sum(a for a, _ in gains(bits)[: i + 1]) for i in range(len(levels))] == levels
        assert [sum(b for _, b in gains(bits)[: i + 1]) for i in range(len(levels))] == [v * v for v in levels]


def test_c_constants_carry_the_candidates() -> None:
    assert OCTAVE.encoder_constants(PLAIN) == ""
    text = OCTAVE.encoder_constants(SEARCH)
    tables = dict(re.findall(r"(kSearch\w+)[][\d]+ = {(.*?)};", text, re.DOTALL))
    numbers = [int(n) for n in re.findall(r"\d+", tables["kSearchStarts"])]
    starts = np.array(numbers).reshape(2, 16, 8)
    words = np.array([int(n) for n in re.findall(r"\d+", tables["kSearchGains"])]).reshape(2, 8)
    rows = [tuple(map(float.fromhex, row.split("f, "))) for row in re.findall(r"{([^{}]*)f}", tables["kSearchRows"])]
    for i, bits in enumerate((3, 4)):
        used = 2 ** (bits - 1)
        assert starts[i, :, : used - 1].tolist() == [[4 * t for t in row] for row in CANDIDATES.starts(bits)]
        assert words[i, :used].tolist() == [level + (square << 16) for level, square in gains(bits)]
        assert not starts[i, :, used - 1 :].any()
        assert not words[i, used:].any()
    assert [row[0] for row in rows] == [*LUT[3], *LUT[4]]
    # what a kernel makes of a row is the threshold that an integer q exceeds where its code is above the row's
    for bits, table in ((3, rows[:8]), (4, rows[8:])):
        for c, factor in enumerate(CANDIDATES.factors):
            positive = CANDIDATES.starts(bits)[c]
            wanted = [*(-4 * t for t in reversed(positive)), 0, *(4 * t - 1 for t in positive)]
            made = [
                4 * min(max(round(Fraction(limit) * Fraction(factor) + Fraction(rounding)), -127), 127) + base
                for _, limit, rounding, base in table[:-1]
            ]
            assert [value - 1.5 * 2**23 for value in made] == wanted
