"""Calibrated on the first 2048 positions, used at up to 400,000: centring pays where it can and never costs."""

from __future__ import annotations

import functools

import pytest
import torch
from rotary_keys import Errors, Model, errors, excess
from torch import Tensor

from octave_gen.centring import Calibration, Rotary
from octave_gen.formats.octave.codec import dequantize, quantize
from octave_gen.formats.octave.encoders import PLAIN
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.formats.octave.rotation import rotate_forward

HEAD = 256
WINDOWS = (0, 10_000, 100_000, 400_000)
LAST = 400_511
SAMPLE = 2048
FMTS = {"octave_k3v3": 3, "octave_k3v3_compact": 19}
ACCIDENT = 4  # standard errors; there are some 200 comparisons
PROFILES = {  # the constant of pairs by their half angle over all positions, and that of dims without RoPE
    "slow": lambda x: (4.0 * (x < 1), 2.0),
    "everywhere": lambda x: (2.0 + 0 * x, 2.0),
    "at the limit": lambda x: (4.0 * ((x > 1) & (x < 3.2)), 0.0),
    "none": lambda x: (0 * x, 0.0),
}


@functools.cache
def model(base: float, rotary_dims: int, profile: str) -> Model:
    rotary = Rotary.of_base(rotary_dims, base)
    half_angle = torch.tensor(rotary.inv_freq, dtype=torch.float64) * LAST / 2
    of_pairs, of_rest = PROFILES[profile](half_angle)
    constant = torch.randn(HEAD, dtype=torch.float64, generator=torch.Generator().manual_seed(rotary_dims))
    constant[rotary_dims:] *= of_rest
    return Model(rotary, rotary.turn(constant, of_pairs.to(torch.complex128)))


@functools.cache
def calibration(base: float, rotary_dims: int, profile: str) -> Calibration:
    positions = torch.arange(SAMPLE)
    found = Calibration(1, HEAD, Rotary.of_base(rotary_dims, base))
    found.add(model(base, rotary_dims, profile).keys(positions, seed=7), positions)
    return found


@functools.cache
def measured(shape: tuple[float, int, str], fmt: int, start: int, center: str) -> Errors:
    return errors(model(*shape), fmt, center_of(shape, center), start, tokens=256, queries=64)


def center_of(shape: tuple[float, int, str], center: str) -> Tensor | None:
    rotary = Rotary.of_base(shape[1], shape[0])
    if center == "none":
        return None
    if center == "calibrated":
        return calibration(*shape).center(LAST).k_center
    if center == "mean of the sample":
        return model(*shape).keys(torch.arange(SAMPLE), seed=7).mean(0)
    mean, _ = calibration(*shape).estimate()
    x = torch.tensor(rotary.inv_freq, dtype=torch.float64) / 2
    length = torch.sinc(x * (LAST + 1) / torch.pi) / torch.sinc(x / torch.pi)  # sin((LAST + 1) x) / (LAST + 1) sin(x)
    return rotary.turn(mean, torch.polar(torch.ones_like(x), x * LAST) * length).float()


def worse_by(shape: tuple[float, int, str], fmt: int, start: int, center: str = "calibrated") -> dict[str, float]:
    """By how many standard errors K, scores and softmax are worse than without a centre."""
    centred, plain = measured(shape, fmt, start, center), measured(shape, fmt, start, "none")
    return {name: excess(getattr(centred, name), getattr(plain, name)) for name in ("k_error", "score", "kl")}


@pytest.mark.parametrize("fmt", FMTS.values(), ids=FMTS)
@pytest.mark.parametrize("profile", ["slow", "everywhere", "none"])
@pytest.mark.parametrize("rotary_dims", [64, HEAD])
@pytest.mark.parametrize("base", [1e4, 1e6, 5e6])
def test_is_nowhere_worse_than_no_centre(base: float, rotary_dims: int, profile: str, fmt: int) -> None:
    for start in WINDOWS:
        assert max(worse_by((base, rotary_dims, profile), fmt, start).values()) < ACCIDENT, start


@pytest.mark.parametrize("fmt", FMTS.values(), ids=FMTS)
@pytest.mark.parametrize("rotary_dims", [64, HEAD])
@pytest.mark.parametrize("base", [1e6, 5e6])
def test_is_clearly_better_where_slow_pairs_and_dims_without_rope_are_constant(
    base: float, rotary_dims: int, fmt: int
) -> None:
    shape = (base, rotary_dims, "slow")
    most = 0.8 if rotary_dims == HEAD else 0.55
    for start in WINDOWS:
        centred, plain = measured(shape, fmt, start, "calibrated"), measured(shape, fmt, start, "none")
        assert centred.relative_k < most * plain.relative_k, start
        assert centred.kl.mean() < most * plain.kl.mean(), start


@pytest.mark.parametrize("base", [1e6, 5e6])
def test_the_mean_of_the_samples_keys_fails_far_from_them(base: float) -> None:
    """It is best at the sample's own positions; at 400,000 it adds to pairs that have turned since."""
    for fmt in FMTS.values():
        shape = (base, HEAD, "everywhere")
        assert worse_by(shape, fmt, 0, "mean of the sample")["k_error"] < -ACCIDENT
        far = worse_by(shape, fmt, 400_000, "mean of the sample")
        assert min(far["k_error"], far["score"]) > ACCIDENT
        assert worse_by(shape, fmt, 400_000)["k_error"] < -ACCIDENT


@pytest.mark.parametrize("base", [1e6, 5e6])
def test_the_mean_over_all_positions_fails_at_both_ends(base: float) -> None:
    """Of pairs that turn by about half a circle; those that the rule keeps are better there, or as good."""
    shape = (base, HEAD, "at the limit")
    for start in (0, 400_000):
        assert worse_by(shape, 3, start, "mean over positions")["k_error"] > ACCIDENT
        assert worse_by(shape, 3, start)["k_error"] < 1
    assert worse_by(shape, 3, 200_000, "mean over positions")["k_error"] < -ACCIDENT
    assert worse_by(shape, 3, 200_000)["k_error"] < -ACCIDENT


def test_attention_over_exact_keys_is_the_same() -> None:
    shape = (1e6, 64, "slow")
    k_center = center_of(shape, "calibrated")
    assert k_center is not None
    assert k_center.norm() > 20
    for start in WINDOWS:
        positions = start + torch.arange(300)
        key = model(*shape).keys(positions, seed=1)[:, 0].double()
        query = model(*shape).queries(positions[-9:], seed=2).double()
        value = torch.randn(300, HEAD, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        outs = [
            torch.softmax(query @ (key - mu).T / 16, -1) @ value for mu in (torch.zeros_like(key), k_center.double())
        ]
        assert (outs[0] - outs[1]).abs().max() < 1e-12 * outs[0].abs().max()


def test_a_needle_is_found_as_well() -> None:
    """Of 256 keys one that leans to the query, 400,000 positions in: at 3 bits its weight is nearer with a centre."""
    shape = (5e6, 64, "slow")
    layout = SlotLayout.of(HEAD, 64, FMTS["octave_k3v3_compact"])
    key = model(*shape).keys(400_000 + torch.arange(256), seed=4)[:, 0]
    query = torch.randn(256, HEAD, generator=torch.Generator().manual_seed(5))
    needle = key + 0.4 * query

    def weights(keys: Tensor, needles: Tensor, queries: Tensor) -> Tensor:
        scores = queries @ keys.T / 16
        scores.diagonal().copy_((queries * needles).sum(-1) / 16)
        return torch.log_softmax(scores, -1).diagonal()

    def lost(k_center: Tensor) -> float:
        stored = [dequantize(quantize(x - k_center, x, layout, encoder=PLAIN), layout)[0] for x in (key, needle)]
        found = weights(stored[0], stored[1], rotate_forward(query, HEAD))
        return float((found - weights(key, needle, query)).abs().mean())

    k_center = center_of(shape, "calibrated")
    assert k_center is not None
    assert weights(key, needle, query).exp().mean() > 0.3
    assert lost(k_center) < 0.7 * lost(torch.zeros(1, HEAD))
