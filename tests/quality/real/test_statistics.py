from __future__ import annotations

import numpy as np
import pytest

from octave_gen.errors import OctaveError
from octave_gen.quality.real.statistics import Mean, added, mean


def test_mean_and_standard_error() -> None:
    values = np.random.default_rng(1).normal(3, 2, 17)
    found = mean(values.tolist())
    assert found.value == pytest.approx(values.mean(), rel=1e-12)
    assert found.error == pytest.approx(values.std(ddof=1) / 17**0.5, rel=1e-12)
    assert found.count == 17


def test_one_observation_has_no_error() -> None:
    assert mean([2.5]) == Mean(2.5, None, 1)
    with pytest.raises(OctaveError, match="nothing to average"):
        mean([])


def test_what_pairs_have_in_common_cancels() -> None:
    base = [1.0, 4.0, 9.0, 2.5]
    assert added([x + 0.5 for x in base], base) == Mean(0.5, 0.0, 4)
    assert added([1.0, 5.0], [1.0, 3.0]) == Mean(1.0, 1.0, 2)


def test_only_pairs_are_compared() -> None:
    with pytest.raises(OctaveError, match="3 losses cannot be paired with 2"):
        added([1.0, 2.0, 3.0], [1.0, 2.0])
