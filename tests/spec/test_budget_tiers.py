"""Budgets of single tiers, where a kernel has a second one."""

from __future__ import annotations

from collections.abc import Callable

from budget_words import BOTH, DECODE, ON_GFX1100, ONE, STORE, Report, Text, missing_fix

from octave_gen.kernels import KINDS
from octave_gen.spec.model import Spec

MATRIX = {"tiers": '["matrix"]'}
PORTABLE = {"tiers": '["portable"]'}


def test_a_budget_selects_every_tier_unless_it_names_some(
    matrix_tier: None, spec_text: Text, load_text: Callable[[str], Spec], report: Report
) -> None:
    assert load_text(spec_text()).budgets[DECODE].tiers == ()
    text = spec_text(edits={DECODE: PORTABLE}, add=[{**MATRIX, "vgprs": "256"}])
    assert [rule.tiers for rule in load_text(text).budgets if rule.kernel == "decode"] == [("portable",), ("matrix",)]
    assert report(spec_text(add=[MATRIX])) == [
        "  budget[4]: selects decode on gfx942 in the matrix tier, as budget[2] does",
        ONE,
    ]
    assert report(spec_text(add=[{}])) == ["  budget[4]: selects decode on gfx942, as budget[2] does", ONE]


def test_each_tier_needs_a_budget_for_what_it_holds(matrix_tier: None, spec_text: Text, report: Report) -> None:
    """The matrix tier does not hold query group 1, so nothing is missing there."""
    fix = missing_fix("decode") + ', tiers = ["matrix"]'
    assert report(spec_text(edits={DECODE: PORTABLE})) == [
        "  budget: none selects decode on gfx942 in the matrix tier",
        fix,
    ]
    assert report(spec_text(edits={DECODE: PORTABLE}, add=[{**MATRIX, "gqa_groups": "[1]"}])) == [
        "  budget: none selects decode on gfx942 in the matrix tier, gqa_group 6 with query_group 4",
        fix,
    ]
    assert report(spec_text(edits={DECODE: MATRIX})) == [
        "  budget: none selects decode on gfx942 in the portable tier",
        missing_fix("decode") + ', tiers = ["portable"]',
    ]
    assert report(spec_text(drop=[DECODE])) == ["  budget: none selects decode on gfx942", missing_fix("decode")]


def test_what_no_tier_holds_needs_no_budget(spec_text: Text, load_text: Callable[[str], Spec]) -> None:
    top = {"gqa_groups": "[4, 16]", "query_groups": "[4, 16]"}
    loaded = load_text(
        spec_text(top=top, edits={DECODE: {"query_groups": "[4]"}}, add=[{"gqa_groups": "[4]", "query_groups": "[16]"}])
    )
    assert len(loaded.budgets) == 5


def test_tiers_are_those_of_the_kernel_on_the_chip(matrix_tier: None, spec_text: Text, report: Report) -> None:
    assert report(spec_text(edits={STORE: MATRIX})) == [
        '  budget[0].tiers[0] (store on gfx942): "matrix" is no tier',
        "    allowed: portable",
    ]
    on_gfx1100 = [{**ON_GFX1100, "kernel": f'"{kernel}"'} for kernel in KINDS]
    on_gfx1100[DECODE].update(MATRIX)
    assert report(spec_text(top=BOTH, add=on_gfx1100)) == [
        '  budget[6].tiers[0] (decode on gfx1100): "matrix" is no tier',
        "    allowed: portable",
    ]


def test_a_broken_selector_of_tiers_neither_covers_twice_nor_leaves_a_gap(
    matrix_tier: None, spec_text: Text, report: Report
) -> None:
    lines = report(spec_text(edits={DECODE: {"tiers": '["matrx"]'}}, add=[PORTABLE]))
    assert lines == [
        '  budget[2].tiers[0] (decode on gfx942): "matrx" is no tier (did you mean matrix?)',
        "    allowed: portable, matrix",
    ]
