from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from octave_gen.centring import Rotary
from octave_gen.centring.rotary import PairLayout
from octave_gen.errors import OctaveError


def embedded(x: Tensor, positions: Tensor, rotary: Rotary) -> Tensor:
    """RoPE as models write it, dim by dim: [tokens, heads, head] fp64."""
    out = x.clone()
    pairs = len(rotary.inv_freq)
    for j, frequency in enumerate(rotary.inv_freq):
        a, b = (j, j + pairs) if rotary.layout == "half" else (2 * j, 2 * j + 1)
        cos, sin = torch.cos(positions * frequency)[:, None], torch.sin(positions * frequency)[:, None]
        out[..., a] = x[..., a] * cos - x[..., b] * sin
        out[..., b] = x[..., b] * cos + x[..., a] * sin
    return out


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("rotary_dims", [0, 16, 24])
def test_undo_undoes_the_embedding(layout: PairLayout, rotary_dims: int) -> None:
    rotary = Rotary.of_base(rotary_dims, 1e4, layout)
    x = torch.randn(9, 2, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    positions = torch.tensor([0, 1, 2, 3, 100, 5000, 99_999, 399_999, 400_000])
    turned = embedded(x, positions.double(), rotary)
    assert (turned - x).abs().max() > 1 or rotary_dims == 0
    assert (rotary.undo(turned, positions) - x).abs().max() < 1e-13


def test_frequencies_of_a_base() -> None:
    assert Rotary.of_base(8, 1e4).inv_freq == pytest.approx((1, 0.1, 0.01, 0.001))
    assert Rotary.of_base(0, 1e4) == Rotary(())
    assert Rotary.of_base(64, 5e6).rotary_dims == 64


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_energy_is_that_of_pairs(layout: PairLayout) -> None:
    rotary = Rotary((0.5, 0.25), layout)
    squares = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
    wanted = [5, 10, 5, 10, 16] if layout == "half" else [3, 3, 12, 12, 16]
    assert rotary.energy(squares).tolist() == wanted


def left(w: complex, frequency: float, last: int) -> float:
    """The largest part of a pair's constant that is left at any of positions 0 ... last."""
    arc = torch.polar(torch.ones(last + 1, dtype=torch.float64), frequency * torch.arange(last + 1).double())
    return float((arc - w).abs().max())


@pytest.mark.parametrize("half_angle", [1e-9, 0.01, 0.5, 1.0, 1.2, 1.5, 1.57])
def test_no_constant_leaves_less_at_the_worst_position(half_angle: float) -> None:
    last = 5000
    frequency = 2 * half_angle / last
    (w,) = Rotary((frequency,)).kept_phase(last).tolist()
    assert left(w, frequency, last) == pytest.approx(math.sin(half_angle), rel=1e-9, abs=1e-12)
    for step in (1e-3, -1e-3, 1e-3j, -1e-3j):
        assert left(w + step, frequency, last) > left(w, frequency, last)


def test_the_mean_would_harm_the_first_position_and_the_last() -> None:
    last, frequency = 5000, 2 * 1.8 / 5000
    mean = torch.polar(torch.ones(last + 1), frequency * torch.arange(last + 1)).mean()
    assert abs(1 - complex(mean)) > 1.2
    assert left(complex(mean), frequency, last) > 1.2


def test_what_turns_by_half_a_circle_keeps_nothing_and_what_stands_keeps_all() -> None:
    last = 1000
    kept = Rotary((0.0, 0.999 * math.pi / last, math.pi / last, 1.001 * math.pi / last, 1.0, math.pi)).kept_phase(last)
    assert kept.dtype == torch.complex128
    assert kept[0] == 1
    assert abs(kept[1]) > 0
    assert kept[3:].abs().max() == 0
    assert Rotary((1.0,)).kept_phase(0).tolist() == [1]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Rotary((0.1,), "neox"), "half, interleaved"),  # type: ignore[arg-type]
        (lambda: Rotary((0.1, -0.1)), "-0.1"),
        (lambda: Rotary((4.0,)), "0 to pi"),
        (lambda: Rotary((math.nan,)), "nan"),
        (lambda: Rotary.of_base(7, 1e4), "even"),
        (lambda: Rotary.of_base(-2, 1e4), "even"),
        (lambda: Rotary.of_base(8, math.inf), "rope_theta"),
        (lambda: Rotary.of_base(8, 0.5), "rope_theta"),
    ],
)
def test_what_does_not_exist_is_refused(make: object, word: str) -> None:
    assert callable(make)
    with pytest.raises(OctaveError) as caught:
        make()
    assert word in str(caught.value)
