"""Counted budgets against counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octave_gen.errors import WORK_FAILED, WRONG_REQUEST, OctaveError
from octave_gen.profile import budget
from octave_gen.profile.counts import Counts
from octave_gen.profile.measure import Profile
from octave_gen.spec.model import CountedBudget

MakeProfile = Callable[..., Profile]

DECODE = "decode_octave_k3v4_h256r64_g6_q1_f16_portable_gfx942"
STORE = "store_octave_k3v4_h256r64_plain_f16_portable_gfx1100"
ROTATE = "rotate_h256_f16_portable_gfx942"


def test_what_is_bounded(make_profile: MakeProfile) -> None:
    """Without overlap: 72 VALU of four clocks on four SIMDs and 2 MFMA of 16; the LDS takes less."""
    each = Counts(valu=72, lds_clocks=79, matrix={"v_mfma_i32_16x16x32_i8": 2})
    assert budget.measured(make_profile(DECODE, each)) == {"valu": 72, "clocks": 80}


@pytest.mark.parametrize(
    ("counted", "lines"),
    [
        (CountedBudget(), []),
        (CountedBudget(valu=72, clocks=72), []),
        (CountedBudget(valu=71.99), ["valu_per_token is 72.00, at most 71.99 allowed"]),
        (CountedBudget(clocks=60), ["clocks_per_token is 72.00, at most 60 allowed"]),
        (
            CountedBudget(valu=1, clocks=2),
            ["valu_per_token is 72.00, at most 1 allowed", "clocks_per_token is 72.00, at most 2 allowed"],
        ),
    ],
)
def test_a_budget_may_be_reached_and_not_exceeded(
    counted: CountedBudget, lines: list[str], make_profile: MakeProfile
) -> None:
    found = list(budget.exceeded(make_profile(DECODE, Counts(valu=72), counted=counted)))
    assert found == [f"{DECODE}: {line} (small.toml)" for line in lines]


def test_all_failures_are_in_one_report(make_profile: MakeProfile) -> None:
    profiles = [
        make_profile(DECODE, Counts(valu=80), counted=CountedBudget(valu=75)),
        make_profile(ROTATE, Counts(valu=95), counted=CountedBudget(valu=95)),
        make_profile(STORE, Counts(valu=1333.25), counted=CountedBudget(valu=1300, clocks=600)),
    ]
    with pytest.raises(OctaveError) as caught:
        budget.check(profiles)
    assert caught.value.exit_code == WORK_FAILED
    assert str(caught.value).splitlines() == [
        "3 counted budgets are exceeded:",
        f"  {DECODE}: valu_per_token is 80.00, at most 75 allowed (small.toml)",
        f"  {STORE}: valu_per_slot is 1333.25, at most 1300 allowed (small.toml)",
        f"  {STORE}: clocks_per_slot is 666.62, at most 600 allowed (small.toml)",
    ]
    with pytest.raises(OctaveError, match=r"^1 counted budget is exceeded"):
        budget.check(profiles[:2])


def test_kernels_without_a_budget_are_not_counted_as_checked(make_profile: MakeProfile) -> None:
    bounded = make_profile(ROTATE, Counts(valu=95), counted=CountedBudget(clocks=96))
    assert budget.check([make_profile(DECODE, Counts(valu=80)), bounded]) == 1


def test_nothing_to_compare_with_is_an_error(make_profile: MakeProfile) -> None:
    with pytest.raises(OctaveError, match="no spec bounds what these kernels execute") as caught:
        budget.check([make_profile(DECODE, Counts(valu=80)), make_profile(STORE, Counts(valu=80))])
    assert caught.value.exit_code == WRONG_REQUEST
    assert str(caught.value.hint) == "give a [[budget]] the key valu_per_slot, valu_per_token"
