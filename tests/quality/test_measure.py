"""Measures of codecs on samples, and their means."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.quality.measure import DECIBEL_PER_BIT, NAMES, Measures, Result, measure
from octave_gen.quality.sample import Sample

MakeSample = Callable[..., Sample]


def test_a_perfect_codec_has_no_error(make_sample: MakeSample, scaled: Any) -> None:
    (result,) = measure([make_sample()], [scaled()])
    (found,) = result.samples.values()
    assert found == Measures(k_error=0.0, v_error=0.0, output_error=0.0, kl=0.0, snr=math.inf)
    assert result.distance == -math.inf


def test_errors_are_relative(make_sample: MakeSample, scaled: Any) -> None:
    (result,) = measure([make_sample()], [scaled(k_factor=0.9, v_factor=1.25)])
    found = result.samples["layer 0"]
    assert found.k_error == pytest.approx(0.1, rel=1e-5)
    assert found.v_error == pytest.approx(0.25, rel=1e-5)
    assert found.snr == pytest.approx((20.0 - 20 * math.log10(0.25)) / 2, rel=1e-5)
    assert found.kl > 0
    assert found.recall is None


def test_the_output_of_scaled_values_is_scaled(make_sample: MakeSample, scaled: Any) -> None:
    found = measure([make_sample()], [scaled(v_factor=0.75)])[0].samples["layer 0"]
    assert found.output_error == pytest.approx(0.25, rel=1e-5)
    assert (found.k_error, found.kl) == (0.0, 0.0)


def test_kv_heads_are_measured_together(make_sample: MakeSample, rounded: Any) -> None:
    """Two kv heads as one sample, or as two: sums over rows are the same, so means of equal rows are."""
    sample = make_sample()
    halves = [
        Sample(f"head {head}", sample.query[:, 2 * head : 2 * head + 2], *(x[:, head : head + 1] for x in pair), 0.25)
        for head in range(2)
        for pair in [(sample.key, sample.value)]
    ]
    whole = measure([sample], [rounded])[0].samples["layer 0"]
    first, second = measure(halves, [rounded])[0].samples.values()
    assert whole.kl == pytest.approx((first.kl + second.kl) / 2, rel=1e-6)
    energies = [float(half.key.double().square().sum()) for half in halves]
    noise = sum(energy * part.k_error**2 for energy, part in zip(energies, (first, second), strict=True))
    assert whole.k_error == pytest.approx(math.sqrt(noise / sum(energies)), rel=1e-6)


def test_neither_the_order_of_codecs_nor_of_samples_matters(make_sample: MakeSample, scaled: Any, rounded: Any) -> None:
    codecs = [scaled(k_factor=0.9), rounded, scaled("perfect")]
    samples = [make_sample(f"layer {seed}", seed) for seed in range(3)]
    forward = {result.format: result for result in measure(samples, codecs)}
    backward = {result.format: result for result in measure(samples[::-1], codecs[::-1])}
    alone = measure(samples[1:2], [rounded])[0]
    assert list(forward) == ["scaled", "rounded", "perfect"]
    assert all(dict(forward[name].samples) == dict(backward[name].samples) for name in forward)
    assert alone.samples["layer 1"] == forward["rounded"].samples["layer 1"]


def test_a_result_does_not_depend_on_the_threads_of_torch(make_sample: MakeSample, rounded: Any) -> None:
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(measure([make_sample(tokens=300)], [rounded])[0].samples["layer 0"])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_the_window_of_a_sample_is_kept(make_sample: MakeSample, rounded: Any) -> None:
    whole, window = (measure([make_sample(window=n)], [rounded])[0].samples["layer 0"] for n in (None, 4))
    assert whole.k_error == window.k_error
    assert whole.kl != window.kl


def test_the_centre_is_taken_from_k_alone(make_sample: MakeSample, rounded: Any) -> None:
    """K is whole numbers and a quarter: rounded to halves it is off by a quarter, and less its centre it is not."""
    center = torch.full((2, 16), 0.25)
    source = torch.Generator().manual_seed(7)
    key = torch.randint(-3, 4, (20, 2, 16), generator=source).half() + 0.25
    sample = make_sample(key=key, layer=5)
    plain, centred = measure([sample], [rounded], {5: center})
    assert (plain.label, centred.label) == ("rounded", "rounded centred")
    assert (plain.centred, centred.centred) == (False, True)
    assert plain.samples["layer 0"] == measure([sample], [rounded])[0].samples["layer 0"]
    assert plain.mean("k_error") == pytest.approx(0.25 / float(key.float().square().mean().sqrt()), rel=1e-5)
    assert (centred.mean("k_error"), centred.mean("kl")) == (0.0, 0.0)
    assert centred.mean("v_error") == plain.mean("v_error")


def test_the_centre_belongs_to_its_kv_head(make_sample: MakeSample, rounded: Any) -> None:
    key = torch.zeros(20, 2, 16)
    key[:, 0], key[:, 1] = 0.2, 0.9
    right = torch.stack([torch.full((16,), 0.2), torch.full((16,), 0.9)])
    sample = make_sample(key=key, value=make_sample().value.float(), layer=0)
    assert measure([sample], [rounded], {0: right})[1].mean("k_error") == 0
    assert measure([sample], [rounded], {0: right.flip(0)})[1].mean("k_error") > 0


@pytest.mark.parametrize(
    ("layer", "shape", "what"),
    [
        (None, (2, 16), "there is no centre for this layer, whose K has [2, 16]"),
        (1, (2, 16), "there is no centre for this layer, whose K has [2, 16]"),
        (0, (1, 16), "the centre is [1, 16] for this layer, whose K has [2, 16]"),
    ],
)
def test_a_centre_that_does_not_fit(
    make_sample: MakeSample, rounded: Any, layer: int | None, shape: tuple[int, int], what: str
) -> None:
    with pytest.raises(OctaveError) as error:
        measure([make_sample("layer 9", layer=layer)], [rounded], {0: torch.zeros(shape)})
    assert (error.value.what, error.value.where, error.value.exit_code) == (what, "layer 9", WRONG_REQUEST)


def test_values_that_are_not_finite_are_an_infinite_error(make_sample: MakeSample, scaled: Any) -> None:
    found = measure([make_sample()], [scaled(k_factor=math.inf)])[0].samples["layer 0"]
    assert (found.k_error, found.output_error, found.kl, found.snr) == (math.inf, math.inf, math.inf, -math.inf)
    assert found.v_error == 0


def result(*errors: float, slot_bytes: int = 196) -> Result:
    samples = {f"layer {n}": Measures(error, 0.1, 0.2, 0.3, -20 * math.log10(error)) for n, error in enumerate(errors)}
    return Result("octave_k3v3_compact", slot_bytes, 256, False, samples)


def test_means_and_standard_errors() -> None:
    one = result(0.1, 0.2, 0.6)
    assert one.mean("k_error") == pytest.approx(0.3)
    assert one.standard_error("k_error") == pytest.approx(math.sqrt((0.04 + 0.01 + 0.09) / 2 / 3))
    assert one.standard_error("v_error") == pytest.approx(0, abs=1e-15)
    assert one.mean("recall") is None
    assert one.standard_error("recall") is None
    assert result(0.1).standard_error("k_error") is None
    assert result(0.1, math.inf).standard_error("k_error") is None


def test_bits_and_bound() -> None:
    one = result(0.1)
    assert one.bits_per_value == 196 * 8 / 512
    assert pytest.approx(6.0206, abs=1e-4) == DECIBEL_PER_BIT
    assert one.distance == pytest.approx(6.0206 * 3.0625 - 20, abs=1e-3)


def test_names_are_the_measures() -> None:
    assert NAMES == ("k_error", "v_error", "output_error", "kl", "snr", "recall")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"query": torch.zeros(20, 3, 16)}, "q has the shape [20, 3, 16], beside a k of [20, 2, 16]"),
        ({"query": torch.zeros(19, 4, 16)}, "q has the shape [19, 4, 16], beside a k of [20, 2, 16]"),
        ({"query": torch.zeros(20, 4, 8)}, "q has the shape [20, 4, 8], beside a k of [20, 2, 16]"),
        ({"query": torch.zeros(20, 16)}, "q has the shape [20, 16]"),
        ({"key": torch.zeros(0, 2, 16)}, "k has the shape [0, 2, 16]"),
        ({"value": torch.zeros(20, 1, 16)}, "v has the shape [20, 1, 16], beside a k of [20, 2, 16]"),
        ({"value": torch.zeros(20, 2, 16, dtype=torch.float64)}, "v is float64"),
        ({"key": torch.ones(20, 2, 16, dtype=torch.int8)}, "k is int8"),
        ({"key": torch.full((20, 2, 16), math.nan)}, "k holds NaN or infinite values"),
        ({"query": torch.full((20, 4, 16), math.inf)}, "q holds NaN or infinite values"),
        ({"value": torch.zeros(20, 2, 16)}, "all of v is zero, so it has no relative error"),
    ],
)
def test_samples_that_cannot_be_measured(make_sample: MakeSample, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(OctaveError) as error:
        make_sample("layer 3", **changes)
    assert (error.value.what, error.value.where, error.value.exit_code) == (what, "layer 3", WRONG_REQUEST)


def test_zero_queries_are_fine(make_sample: MakeSample, rounded: Any) -> None:
    """All weights are equal, so K has no say."""
    found = measure([make_sample(query=torch.zeros(20, 4, 16))], [rounded])[0].samples["layer 0"]
    assert found.kl == 0
    assert found.output_error > 0
