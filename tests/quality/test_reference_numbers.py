"""Octave on white noise: signal to noise of whole slots and distances to the bound, as measured independently.

The independent figures (numpy, an encoder written apart from this one) rest on samples that leave them uncertain by
about 1 % of the squared error, which is 0.05 dB; 4096 vectors leave this test's own uncertain by 0.005 dB.
"""

from __future__ import annotations

import pytest
import torch

from octave_gen.formats.codecs import make
from octave_gen.quality.measure import Result, measure
from octave_gen.quality.sample import Sample
from octave_gen.quality.synthetic import GENERATORS, Shape

# slot bytes, dB and dB to the bound
WHOLE_SLOTS = {
    "octave_k3v3_compact": (196, 14.56, 3.88),
    "octave_k3v3_compact+search": (196, 14.70, 3.74),
    "octave_k3v3": (216, 15.07, 5.25),
    "octave_k3v3+search": (216, 15.40, 4.92),
    "octave_k3v4_compact": (228, 17.43, 4.02),
    "octave_k4v3_compact": (228, 17.43, 4.02),
    "octave_k3v4": (248, 17.94, 5.39),
    "octave_k3v4+search": (248, 18.40, 4.93),
}


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    source = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(512, 8, 256, generator=source).half() for _ in range(3))
    sample = Sample("white noise", query, key, value, sm_scale=1 / 16)
    return {result.format: result for result in measure([sample], [make(name, 256, 64) for name in WHOLE_SLOTS])}


@pytest.mark.parametrize("name", WHOLE_SLOTS)
def test_whole_slots(results: dict[str, Result], name: str) -> None:
    slot_bytes, decibel, distance = WHOLE_SLOTS[name]
    assert results[name].slot_bytes == slot_bytes
    assert results[name].mean("snr") == pytest.approx(decibel, abs=0.05)
    assert results[name].distance == pytest.approx(distance, abs=0.05)


@pytest.mark.parametrize(
    ("name", "k_error", "v_error"),
    [("octave_k3v3_compact", 0.188, 0.188), ("octave_k3v3", 0.166, 0.188), ("octave_k3v4", 0.166, 0.097)],
)
def test_errors_of_the_plain_encoder(results: dict[str, Result], name: str, k_error: float, v_error: float) -> None:
    assert results[name].mean("k_error") == pytest.approx(k_error, abs=0.001)
    assert results[name].mean("v_error") == pytest.approx(v_error, abs=0.001)


def test_the_synthetic_data_say_the_same_within_their_error_bar(results: dict[str, Result]) -> None:
    samples = GENERATORS["isotropic"].data_set(4, Shape(group=1)).samples
    (synthetic,) = measure(samples, [make("octave_k3v3", 256, 64)])
    mean, error, wanted = synthetic.mean("snr"), synthetic.standard_error("snr"), results["octave_k3v3"].mean("snr")
    assert mean is not None
    assert error is not None
    assert 0 < error < 0.03
    assert wanted == pytest.approx(mean, abs=4 * error)


def test_needles_are_lost_where_the_product_of_a_key_with_itself_is_not_kept() -> None:
    """Octave's scale keeps x.x_hat = |x|**2 and finds them at 196 bytes; turbo4's 288 bytes have half its error."""
    samples = GENERATORS["needle"].data_set(2, Shape()).samples
    octave, turbo, exact = measure(samples, [make(name, 256, 64) for name in ("octave_k3v3_compact", "turbo4", "fp16")])
    recall = [result.mean("recall") or 0.0 for result in (octave, turbo, exact)]
    assert recall[2] == 1
    assert recall[0] > 0.95
    assert recall[1] < 0.75
    assert (turbo.mean("k_error") or 1.0) < 0.6 * (octave.mean("k_error") or 0.0)
