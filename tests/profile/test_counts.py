"""Sums of counts, and the difference of two lengths."""

from __future__ import annotations

from dataclasses import fields

import pytest

from octave_gen.isa import Counters
from octave_gen.profile.counts import Counts, by_difference

MFMA = "v_mfma_i32_16x16x32_i8"
OTHER = "v_mfma_f32_16x16x16_f16"


def test_counts_of_a_launch() -> None:
    classes = ("valu", "transcendental", "salu", "smem", "vmem", "lds", "matrix", "branch", "barrier", "other")
    counters = Counters(
        instructions={name: 10 + index for index, name in enumerate(classes)},
        histogram={"v_mul_lo_u32": 3, "v_mad_u64_u32": 4, "v_mul_u32_u24": 5, MFMA: 9, OTHER: 7, "v_exp_f32": 11},
        vmem_load_bytes=256,
        vmem_store_bytes=64,
        lds_load_bytes=1024,
        lds_store_bytes=128,
        lds_cycles=12,
        lds_conflict_cycles=3,
    )
    assert Counts.of(counters) == Counts(
        valu=10 + 11,
        transcendental=11,
        multiply=3 + 4,
        salu=12,
        smem=13,
        vmem=14,
        vmem_bytes=320,
        lds=15,
        lds_bytes=1152,
        lds_clocks=12,
        branch=17,
        barrier=18,
        other=19,
        matrix={MFMA: 9, OTHER: 7},
    )


def test_every_field_takes_part_in_sums() -> None:
    names = [field.name for field in fields(Counts) if field.name != "matrix"]
    some = Counts(**{name: 3.0 + index for index, name in enumerate(names)}, matrix={MFMA: 2.0})
    assert some.times(2) == Counts(**{name: 6.0 + 2 * index for index, name in enumerate(names)}, matrix={MFMA: 4.0})
    assert some - some == Counts(matrix={MFMA: 0.0})


def test_matrix_instructions_are_kept_apart_by_name() -> None:
    left, right = Counts(matrix={MFMA: 5.0}), Counts(matrix={OTHER: 2.0, MFMA: 1.0})
    assert (left - right).matrix == {MFMA: 4.0, OTHER: -2.0}
    assert (right - left).matrices == 2.0 - 4.0


def test_prologue_and_one_unit_of_work() -> None:
    """By hand: 100 instructions of prologue and 7 for each unit, one matrix instruction for two units."""
    shorter = Counts(valu=100 + 7 * 10, salu=40, vmem_bytes=320, matrix={MFMA: 3 + 5})
    longer = Counts(valu=100 + 7 * 30, salu=40, vmem_bytes=960, matrix={MFMA: 3 + 15})
    counted = by_difference(shorter, longer, (10, 30))
    assert counted.each == Counts(valu=7, salu=0, vmem_bytes=32, matrix={MFMA: 0.5})
    assert counted.prologue == Counts(valu=100, salu=40, vmem_bytes=0, matrix={MFMA: 3})


def test_a_prologue_of_nothing_is_exactly_nothing() -> None:
    """A third of an instruction has no exact value; what is left over must be zero all the same."""
    counted = by_difference(Counts(valu=64), Counts(valu=128), (192, 384))
    assert counted.each.valu == pytest.approx(1 / 3, rel=1e-15)
    assert counted.prologue.valu == 0
