from __future__ import annotations

import pytest
import torch
from rotary_keys import Model
from torch import Tensor

from octave_gen.centring import Calibration, Rotary
from octave_gen.errors import OctaveError

ROTARY = Rotary.of_base(32, 1e4)
CONSTANT = torch.linspace(-3, 3, 64, dtype=torch.float64)


def sample(tokens: int, seed: int = 0, first: int = 0) -> tuple[Tensor, Tensor]:
    positions = first + torch.arange(tokens)
    return Model(ROTARY, CONSTANT).keys(positions, seed), positions


def calibrated(rotary: Rotary, key: Tensor, positions: Tensor) -> Calibration:
    calibration = Calibration(key.shape[1], key.shape[2], rotary)
    calibration.add(key, positions)
    return calibration


def test_finds_the_constant_before_rope() -> None:
    mean, variance = calibrated(ROTARY, *sample(4096, first=300_000)).estimate()
    assert ((mean - CONSTANT).abs() / variance.sqrt()).max() < 4
    assert variance[0, 40:].mean() == pytest.approx(1 / 4096, rel=0.2)
    assert variance[0, :32].mean() == pytest.approx(2 / 4096, rel=0.2)


def test_center_is_the_constant_times_what_rope_leaves_constant() -> None:
    key, positions = sample(4096)
    center = calibrated(ROTARY, key, positions).center(20_000)
    wanted = ROTARY.turn(CONSTANT, ROTARY.kept_phase(20_000))
    assert center.k_center.dtype == torch.float32
    assert (center.k_center[0] - wanted).abs().max() < 0.1
    assert (center.max_position, center.tokens, center.head_size, center.rotary) == (20_000, 4096, 64, ROTARY)
    fast = [j for j in range(16) if ROTARY.inv_freq[j] * 20_000 > 3.15]
    assert len(fast) == 16
    assert center.k_center[0, :32].abs().max() == 0


def test_without_a_max_position_it_is_the_samples_own() -> None:
    key, positions = sample(1000, first=24)
    assert calibrated(ROTARY, key, positions).center().max_position == 1023
    assert torch.equal(
        calibrated(ROTARY, key, positions).center().k_center, calibrated(ROTARY, key, positions).center(1023).k_center
    )


def test_without_rope_it_is_the_mean() -> None:
    key = CONSTANT.float() + 0.01 * torch.randn(2000, 3, 64, generator=torch.Generator().manual_seed(2))
    k_center = calibrated(Rotary(()), key, torch.zeros(2000, dtype=torch.int64)).center().k_center
    assert list(k_center.shape) == [3, 64]
    assert (k_center - key.mean(0)).abs().max() < 1e-5


def test_both_layouts_of_pairs_give_the_same() -> None:
    key, positions = sample(1024)
    order = torch.cat((torch.arange(32).reshape(2, 16).T.flatten(), torch.arange(32, 64)))
    interleaved = Rotary(ROTARY.inv_freq, "interleaved")
    half = calibrated(ROTARY, key, positions).center(5000).k_center
    assert torch.equal(calibrated(interleaved, key[..., order], positions).center(5000).k_center, half[:, order])


def test_parts_give_what_one_batch_gives() -> None:
    key, positions = sample(1500)
    whole = calibrated(ROTARY, key, positions).center(9999).k_center
    calibration = Calibration(1, 64, ROTARY)
    for part in torch.split(torch.arange(1500), [1, 0, 62, 3, 700, 734]):
        calibration.add(key[part], positions[part])
    assert calibration.tokens == 1500
    assert (calibration.center(9999).k_center - whole).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_takes_every_float_dtype(dtype: torch.dtype) -> None:
    key, positions = sample(1024)
    rounded = key.to(dtype)
    wanted = calibrated(ROTARY, rounded.double(), positions).center().k_center
    assert torch.equal(calibrated(ROTARY, rounded, positions).center().k_center, wanted)


def test_the_variance_counts_that_neighbours_resemble_each_other() -> None:
    """100 heads with the same correlation over tokens: how far their means lie from 0 is what each of them expects."""
    steps = torch.randn(2048, 100, 64, generator=torch.Generator().manual_seed(3))
    key = torch.empty_like(steps)
    value = torch.zeros(100, 64)
    for token, step in enumerate(steps):
        value = 0.9 * value + step
        key[token] = value
    mean, variance = calibrated(Rotary(()), key, torch.arange(2048)).estimate()
    seen = mean.square().mean()
    assert float(variance.mean() / seen) == pytest.approx(1, abs=0.25)
    assert float(key.var(0).mean() / 2048 / seen) < 0.1


@pytest.mark.parametrize("tokens", [512, 4096])
def test_a_mean_that_is_noise_is_dropped(tokens: int) -> None:
    """Without a constant, the mean of n tokens would add 1/n of the noise's energy; a quarter of that is left."""
    rotary = Rotary(tuple([0.0] * 16))
    key = torch.randn(tokens, 100, 64, generator=torch.Generator().manual_seed(4))
    calibration = calibrated(rotary, key, torch.arange(tokens))
    added = calibration.center().k_center.double().square().mean() * tokens
    assert float(calibration.estimate()[0].square().mean() * tokens) == pytest.approx(1, abs=0.05)
    assert float(added) < 0.4


def test_what_does_not_fit_is_refused_and_adds_nothing() -> None:
    key, positions = sample(700)
    calibration = calibrated(ROTARY, key, positions)
    before = calibration.center(1000).k_center
    broken = key.clone()
    broken[5, 0, 3] = torch.inf
    for bad_key, bad_positions, word in [
        (key[:, :, :63], positions, "1, 64"),
        (key[0], positions[:1], "1, 64"),
        (key[:5], positions[:4], "a position for each token"),
        (key[:1], torch.tensor(3), "a position for each token"),
        (key.long(), positions, "float tensor"),
        (broken, positions, "token 5"),
        (key, positions - 1, "integers from 0"),
        (key, positions.double(), "integers from 0"),
    ]:
        with pytest.raises(OctaveError) as caught:
            calibration.add(bad_key, bad_positions)
        assert word in str(caught.value)
    assert calibration.tokens == 700
    assert torch.equal(calibration.center(1000).k_center, before)


def test_too_few_tokens_are_refused() -> None:
    key, positions = sample(511)
    calibration = calibrated(ROTARY, key, positions)
    with pytest.raises(OctaveError) as caught:
        calibration.center()
    assert "511" in str(caught.value)
    assert "512" in str(caught.value)
    calibration.add(*sample(1))
    assert calibration.center().tokens == 512


def test_a_max_position_below_the_sample_is_refused() -> None:
    calibration = calibrated(ROTARY, *sample(600, first=1000))
    with pytest.raises(OctaveError) as caught:
        calibration.center(1598)
    assert "1599" in str(caught.value)
    assert calibration.center(1599).max_position == 1599


@pytest.mark.parametrize(("kv_heads", "head_size", "rotary_dims"), [(0, 64, 0), (1, 0, 0), (1, 64, 66)])
def test_heads_that_do_not_exist_are_refused(kv_heads: int, head_size: int, rotary_dims: int) -> None:
    with pytest.raises(OctaveError):
        Calibration(kv_heads, head_size, Rotary.of_base(rotary_dims, 1e4))
