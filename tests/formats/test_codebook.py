from __future__ import annotations

import itertools
import math
import re

import pytest
import torch

from octave_gen.formats.lloyd_max import gaussian
from octave_gen.formats.octave import OCTAVE
from octave_gen.formats.octave.codebook import LUT, LUT_MULT, cuts, lookup_dwords, thresholds


@pytest.mark.parametrize("bits", [3, 4])
def test_tables_are_the_rounded_centroids(bits: int) -> None:
    centroids = gaussian(2**bits).centroids
    assert LUT_MULT[bits] == math.floor(127 / centroids[-1])
    assert list(LUT[bits]) == [round(LUT_MULT[bits] * c) for c in centroids]
    off = max(abs(LUT_MULT[bits] * c - entry) for c, entry in zip(centroids, LUT[bits], strict=True))
    assert off == pytest.approx({3: 0.461, 4: 0.430}[bits], abs=5e-4)


@pytest.mark.parametrize("bits", [3, 4])
def test_int8_loses_under_two_thousandths_of_the_exact_codebook(bits: int) -> None:
    # mean squared error of the table in float64, by the moments of a normal variable within each cell
    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    def pdf(x: float) -> float:
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi) if math.isfinite(x) else 0.0

    edges = [-math.inf, *(t / LUT_MULT[bits] for t in thresholds(bits)), math.inf]
    error = 1.0
    for (a, b), entry in zip(itertools.pairwise(edges), LUT[bits], strict=True):
        level = entry / LUT_MULT[bits]
        error += level * level * (tail(a) - tail(b)) - 2 * level * (pdf(a) - pdf(b))
    assert 1 < error / gaussian(2**bits).distortion < 1.002


def test_tables_as_published() -> None:
    assert LUT[3][4:] == (14, 45, 79, 127)
    assert LUT[4][8:] == (6, 18, 30, 43, 58, 74, 95, 126)
    for table in LUT.values():
        assert table == tuple(-v for v in reversed(table))
    assert thresholds(3) == (-103, -62, -29.5, 0, 29.5, 62, 103)
    assert thresholds(4)[7:] == (0, 12, 24, 36.5, 50.5, 66, 84.5, 110.5)
    assert thresholds(4) == tuple(-t for t in reversed(thresholds(4)))


@pytest.mark.parametrize("bits", [3, 4])
def test_dwords_look_up_every_code_as_v_perm_b32_does(bits: int) -> None:
    def v_perm_b32(src0: int, src1: int, selector: int) -> list[int]:
        source = (src0 << 32 | src1).to_bytes(8, "little")  # selector values 0-3 pick src1, 4-7 src0
        return [source[selector >> 8 * i & 0xFF] for i in range(4)]

    dwords = lookup_dwords(bits)
    for first in range(0, 2**bits, 4):
        selector = int.from_bytes(bytes((first + i) % 8 for i in range(4)), "little")
        low, high = dwords[first // 8 * 2 : first // 8 * 2 + 2]
        picked = [byte - 256 if byte > 127 else byte for byte in v_perm_b32(high, low, selector)]
        assert picked == list(LUT[bits][first : first + 4])


def test_c_constants_carry_numbers_and_tables() -> None:
    text = OCTAVE.c_constants()
    assert re.findall(r"int (\w+) = (\d+);", text) == [("kLutOne", "64"), ("kLut3Mult", "59"), ("kLut4Mult", "46")]
    dwords = re.findall(r"unsigned (\w+) = 0x([0-9a-f]{8})u;", text)
    assert [name for name, _ in dwords] == ["kLut3Lo", "kLut3Hi", *(f"kLut4Dword{i}" for i in range(4))]
    assert [int(digits, 16) for _, digits in dwords] == [*lookup_dwords(3), *lookup_dwords(4)]
    rows = re.search(r"float kCodebook\[24\]\[4\] = {\n(.*)};", text, re.DOTALL)
    assert rows is not None
    read = [tuple(map(float.fromhex, row)) for row in re.findall(r"{(.*)f, (.*)f, (.*)f, (.*)f}", rows[1])]
    assert [row[0] for row in read] == [*LUT[3], *LUT[4]]
    end = (0.0, 0.0, 0.0)
    assert [row[1:] for row in read] == [*cuts(3), end, *cuts(4), end]


@pytest.mark.parametrize("bits", [3, 4])
def test_cuts_are_the_last_quotients_below_the_thresholds(bits: int) -> None:
    for (cut, half, _), limit in zip(cuts(bits), thresholds(bits), strict=True):
        below, above = torch.tensor([cut, cut + 2 * half])
        assert below * LUT_MULT[bits] <= limit
        if limit:
            assert torch.nextafter(below, torch.tensor(torch.inf)) == above == cut + 2 * half
            assert above * LUT_MULT[bits] > limit
        else:
            assert (cut, half) == (0.0, 0.0)


@pytest.mark.parametrize("bits", [3, 4])
def test_thresholds_in_units_of_x_are_those_of_the_quotient(bits: int) -> None:
    """The arithmetic of the kernels' thresholds, for a tenth of all fractions of an fp32 rms and all exponents."""
    fractions = torch.arange(0, 2**23, 10, dtype=torch.int32) + (127 << 23)
    exponents = torch.randint(-39, 63, fractions.shape, generator=torch.Generator().manual_seed(1))
    rms = torch.ldexp(fractions.view(torch.float32), exponents)
    for (cut, half, step), limit in zip(cuts(bits), thresholds(bits), strict=True):
        if not limit:
            continue
        rest = rms * half
        exact = rms.double() * cut  # 48 bits: fp64 holds it, and its sums with fp32 numbers of the same size
        nearest = (exact + rest).float()
        above = (exact - nearest).float() < -rest
        threshold = torch.where(above, (nearest.double() * (1 + step)).float(), nearest)
        beyond = torch.nextafter(threshold, torch.tensor(torch.inf))
        assert (threshold / rms * LUT_MULT[bits] <= limit).all()
        assert (beyond / rms * LUT_MULT[bits] > limit).all()


@pytest.mark.parametrize(("bits", "step"), [(3, 32.2), (4, 13.66)])
def test_a_linear_guess_is_the_code_or_the_one_below(bits: int, step: float) -> None:
    """The guess of encoder.h: from 0 to 2**bits - 2, half of that at zero, a hundredth of a step off at most."""
    for code, limit in enumerate(thresholds(bits)):
        for y in (limit - 1e-3, limit + 1e-3):
            exact = code + (y > limit)
            for off in (-0.01, 0.01):
                guess = min(max(round(y / step + 2 ** (bits - 1) - 1 + off), 0), 2**bits - 2)
                assert guess in (exact - 1, exact)
