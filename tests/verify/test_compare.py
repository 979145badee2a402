"""compare: each comparer lets through what it should, and nothing else."""

from __future__ import annotations

import math

import pytest
import torch

from octave_gen.verify.compare import (
    EPSILON,
    Measured,
    astray,
    rows_near,
    rows_near_exact_query,
    same_bits,
    zero_rows,
)


def test_bits() -> None:
    x = torch.tensor([1.0, -0.0, math.nan], dtype=torch.float16)
    other_nan = x.clone()
    other_nan.view(torch.int16)[2] ^= 1
    assert not same_bits("x", x, x).problems
    assert not same_bits("x", x, other_nan).problems
    assert same_bits("x", x, x.abs()).problems == ("x: 1 of 3 values are wrong, the first at [1]: -0 instead of 0",)
    assert same_bits("x", x, x.nan_to_num()).problems
    assert same_bits("x", torch.tensor([3], dtype=torch.uint8), torch.tensor([4], dtype=torch.uint8)).problems == (
        "x: 1 of 1 values are wrong, the first at [0]: 3 instead of 4",
    )


def near(found: list[float], exact: list[float], slack: float = 0.0) -> Measured:
    exact64 = torch.tensor(exact, dtype=torch.float64)
    return rows_near("out", torch.tensor(found).half(), exact64, exact64.half(), torch.tensor([slack]).double())


def test_twice_the_error_of_the_same_dtype_is_allowed() -> None:
    ulp = 2.0**-10
    assert near([1.0], [1.0 + ulp / 4]).errors["out"] == 0.5
    assert not near([1.0], [1.0 + 0.49 * ulp]).problems
    assert near([1.0 + ulp], [1.0 + 0.49 * ulp]).errors["out"] == pytest.approx(0.51 / 0.98)
    assert near([1.0 + ulp], [1.0 + 0.3 * ulp]).problems
    assert not near([1.0 + ulp], [1.0 + 0.3 * ulp], slack=0.2 * ulp).problems
    assert near([1.0], [1.0]).errors["out"] == 0.0
    assert near([1.0 + ulp], [1.0]).problems


def test_what_is_not_finite_must_be_so() -> None:
    inf, nan = math.inf, math.nan
    assert not near([nan, inf, -inf], [nan, 1e6, -1e6]).problems
    for wrong in ([1.0, inf, -inf], [inf, inf, -inf], [nan, 65504.0, -inf], [nan, nan, -inf], [nan, inf, inf]):
        assert near(wrong, [nan, 1e6, -1e6]).problems
    for wrong in ([nan], [inf]):
        measured = near(wrong, [1.0])
        assert measured.problems
        assert measured.errors["out"] == inf


def test_what_is_allowed_may_reach_beyond_the_largest_number() -> None:
    inf = math.inf
    for found in (inf, 65504.0):
        assert not near([found], [65519.0], slack=2.0).problems
        assert not near([found], [65521.0], slack=2.0).problems
    assert near([inf], [65519.0 - 32.0], slack=2.0).problems
    assert near([-inf], [65519.0], slack=2.0).problems
    assert near([65504.0], [65525.0], slack=2.0).problems
    exact = torch.tensor([3e38, 3.5e38]).double()
    assert not rows_near("fp64 beside fp32", exact, exact, exact.float(), torch.tensor(1.0).double()).problems


def test_the_first_wrong_value_is_named() -> None:
    found = torch.zeros(2, 3, 4).half()
    found[1, 2, 0] = 0.5
    exact = torch.zeros(2, 3, 4).double()
    (problem,) = rows_near("out", found, exact, exact.half(), torch.tensor(EPSILON)).problems
    assert problem == "out: 1 of 24 values are wrong, the first at [1, 2, 0]: 0.5 instead of 0"


def quotients(values: list[float]) -> Measured:
    exact = torch.ones(len(values), 4).double()
    found = exact.clone()
    found[:, 1] += torch.tensor(values).double()
    return rows_near_exact_query("exact", "beyond", found, exact, 0.03)


def test_the_bound_of_the_exact_query_is_one_of_chance() -> None:
    assert quotients([0.01, 0.02]).counts == {"beyond": 0}
    assert quotients([0.01, 0.02]).errors["exact"] == pytest.approx(0.02)
    one = quotients([0.01, 0.04])
    assert (one.counts, one.problems) == ({"beyond": 1}, ())
    assert quotients([0.04, 0.04]).problems
    assert quotients([0.07]).problems
    assert quotients([math.nan]).problems
    assert not quotients([0.04] * 3 + [0.0] * 2000).problems
    assert quotients([0.04] * 4 + [0.0] * 2000).problems
    assert quotients([]).errors == {"exact": 0.0}


def test_zero_rows() -> None:
    assert not zero_rows("padding", torch.zeros(2, 3)).problems
    assert zero_rows("padding", torch.tensor([0.0, -0.0])).problems
    assert zero_rows("padding", torch.tensor([math.nan])).problems
    assert not zero_rows("padding", torch.zeros(0, 3)).problems


def test_measurements_join() -> None:
    one, two = Measured({"a": 1.0}, {"n": 2}, ("x",)), Measured({"a": 0.5, "b": 3.0}, {"n": 1}, ("y",))
    assert one.joined(two) == Measured({"a": 1.0, "b": 3.0}, {"n": 3}, ("x", "y"))


@pytest.mark.parametrize("spread", [0.5, 20.0, 1e9])
@pytest.mark.parametrize("error", [1e-3, 3.0, 100.0])
def test_no_softmax_goes_farther_astray_than_its_bound(spread: float, error: float) -> None:
    source = torch.Generator().manual_seed(7)
    scores, values = (torch.randn(200, 9, generator=source, dtype=torch.float64) for _ in range(2))
    scores *= spread
    moved = scores + error * (2 * torch.rand(200, 9, generator=source, dtype=torch.float64) - 1)
    before, after = (torch.softmax(x * math.log(2), -1) for x in (scores, moved))
    bound = astray(scores, torch.full((200,), error, dtype=torch.float64))
    assert (((after - before) * values).sum(-1).abs() <= bound * values.abs().amax(-1)).all()
    if spread == 1e9:
        assert (bound < 1e-9).double().mean() > 0.99  # one score leads


def test_how_far_a_softmax_goes_astray_where_nothing_leads() -> None:
    none = torch.zeros(1, dtype=torch.float64)
    assert astray(torch.tensor([[3.0]]), none) == 0
    assert astray(torch.tensor([[3.0, 3.0]]), none) >= 1
    assert astray(torch.tensor([[3.0, -math.inf]]), none + 1e6) == 0
    assert astray(torch.tensor([[math.nan, 3.0]]), none) == math.inf
    assert astray(torch.tensor([[-math.inf, -math.inf]]), none) == math.inf
