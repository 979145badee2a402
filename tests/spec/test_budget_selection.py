"""Exactly one budget selects each variant: what none selects, what two do, and what is not judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from budget_words import BOTH, DECODE, KERNELS, ON_GFX1100, ONE, ROTATE, STORE, Report, Text, missing_fix

from octave_gen.kernels import KINDS
from octave_gen.spec.model import Spec

TWO_DTYPES = {"cache_dtypes": '["octave_k3v3", "octave_k3v4"]'}
K3V3 = {"cache_dtypes": '["octave_k3v3"]'}
PLAIN = {"encoders": '["plain"]'}
SEARCH = {"encoders": '["search"]'}
K3V4 = {"cache_dtypes": '["octave_k3v4"]'}


@pytest.mark.parametrize("kernel", range(4))
def test_every_kind_needs_a_budget_on_every_arch(kernel: int, spec_text: Text, report: Report) -> None:
    name = list(KINDS)[kernel]
    assert report(spec_text(drop=[kernel])) == [f"  budget: none selects {name} on gfx942", missing_fix(name)]


def test_an_arch_without_any_budget_lists_every_kind(spec_text: Text, report: Report) -> None:
    expected = [line for k in KINDS for line in (f"  budget: none selects {k} on gfx1100", missing_fix(k, "gfx1100"))]
    assert report(spec_text(top=BOTH)) == expected


@pytest.mark.parametrize(
    ("selectors", "missing"),
    [
        ({"gqa_groups": "[1]"}, "gqa_group 6, 8 with query_group 1, 4"),
        ({"query_groups": "[1]"}, "gqa_group 1, 6, 8 with query_group 4"),
        (
            {"gqa_groups": "[6]", "query_groups": "[4]"},
            "gqa_group 1, 6, 8 with query_group 1 and gqa_group 1, 8 with query_group 4",
        ),
    ],
)
def test_groups_that_no_budget_selects(
    selectors: dict[str, str], missing: str, spec_text: Text, report: Report
) -> None:
    assert report(spec_text(top={"gqa_groups": "[1, 6, 8]"}, edits={DECODE: selectors})) == [
        f"  budget: none selects decode on gfx942, {missing}",
        missing_fix("decode"),
    ]


def test_selectors_may_split_the_groups(spec_text: Text, load_text: Callable[[str], Spec]) -> None:
    loaded = load_text(
        spec_text(
            edits={DECODE: {"gqa_groups": "[1]"}},
            add=[
                {"gqa_groups": "[6]", "query_groups": "[1]"},
                {"gqa_groups": "[6]", "query_groups": "[4]", "vgprs": "256"},
            ],
        )
    )
    assert [(rule.gqa_groups, rule.query_groups) for rule in loaded.budgets if rule.kernel == "decode"] == [
        ((1,), ()),
        ((6,), (1,)),
        ((6,), (4,)),
    ]


@pytest.mark.parametrize(
    ("selectors", "missing"),
    [
        (K3V4, "cache_dtype octave_k3v3"),
        (
            {**K3V4, "query_groups": "[1]"},
            "cache_dtype octave_k3v3; cache_dtype octave_k3v4 with gqa_group 1, 6 with query_group 4",
        ),
        ({"gqa_groups": "[1]"}, "gqa_group 6 with query_group 1, 4"),
    ],
)
def test_cache_dtypes_that_no_budget_selects(
    selectors: dict[str, str], missing: str, spec_text: Text, report: Report
) -> None:
    assert report(spec_text(top=TWO_DTYPES, edits={DECODE: selectors})) == [
        f"  budget: none selects decode on gfx942, {missing}",
        missing_fix("decode"),
    ]


def test_store_budgets_by_cache_dtype(spec_text: Text, load_text: Callable[[str], Spec], report: Report) -> None:
    assert report(spec_text(top=TWO_DTYPES, edits={STORE: K3V4})) == [
        "  budget: none selects store on gfx942, cache_dtype octave_k3v3",
        missing_fix("store"),
    ]
    second = {**K3V3, "kernel": '"store"'}
    loaded = load_text(spec_text(top=TWO_DTYPES, edits={STORE: K3V4}, add=[second]))
    stores = [rule.cache_dtypes for rule in loaded.budgets if rule.kernel == "store"]
    assert stores == [("octave_k3v4",), ("octave_k3v3",)]
    assert report(spec_text(top=TWO_DTYPES, add=[second])) == [
        "  budget[4]: selects store on gfx942, cache_dtype octave_k3v3, as budget[0] does",
        ONE,
    ]


def test_store_budgets_by_encoder(spec_text: Text, load_text: Callable[[str], Spec], report: Report) -> None:
    top = {**TWO_DTYPES, "encoders": '["plain", "search"]'}
    assert report(spec_text(top=top, edits={STORE: PLAIN})) == [
        "  budget: none selects store on gfx942, encoder search",
        missing_fix("store"),
    ]
    second = {**SEARCH, **K3V4, "kernel": '"store"'}
    assert report(spec_text(top=top, edits={STORE: PLAIN}, add=[second])) == [
        "  budget: none selects store on gfx942, cache_dtype octave_k3v3 with encoder search",
        missing_fix("store"),
    ]
    assert report(spec_text(top=top, add=[second])) == [
        "  budget[4]: selects store on gfx942, cache_dtype octave_k3v4 with encoder search, as budget[0] does",
        ONE,
    ]
    loaded = load_text(spec_text(top=top, edits={STORE: PLAIN}, add=[{**SEARCH, "kernel": '"store"'}]))
    assert [rule.encoders for rule in loaded.budgets if rule.kernel == "store"] == [("plain",), ("search",)]


def test_an_encoder_that_the_spec_does_not_name(spec_text: Text, report: Report) -> None:
    assert report(spec_text(edits={STORE: {"encoders": '["plain", "search"]'}})) == [
        "  budget[0].encoders[1] (store on gfx942): the spec does not name search in encoders",
        "    allowed: plain",
    ]


def test_a_wrong_encoder_of_the_spec_leaves_the_budgets_of_store_unjudged(spec_text: Text, report: Report) -> None:
    lines = report(spec_text(top={"encoders": '["plain", "fast"]'}, edits={STORE: PLAIN}, drop=[ROTATE]))
    assert lines[0] == '  encoders[1]: "fast" is no encoder'
    assert lines[2:] == ["  budget: none selects rotate on gfx942", missing_fix("rotate")]


def test_a_wrong_cache_dtype_of_the_spec_leaves_its_budgets_unjudged(spec_text: Text, report: Report) -> None:
    """Rotate and reduce do not depend on it, and a kind without any budget lacks one all the same."""
    top = {"cache_dtypes": '["octave_k3v3", "octave_k4"]'}
    lines = report(spec_text(top=top, edits={DECODE: K3V3}, add=[K3V3], drop=[STORE, ROTATE]))
    assert lines[2:] == [
        "  budget: none selects store on gfx942",
        missing_fix("store"),
        "  budget: none selects rotate on gfx942",
        missing_fix("rotate"),
    ]


def test_budgets_that_select_the_same(spec_text: Text, report: Report) -> None:
    assert report(spec_text(add=[{}, {"gqa_groups": "[6]", "query_groups": "[4]"}])) == [
        "  budget[4]: selects decode on gfx942, as budget[2] does",
        ONE,
        "  budget[5]: selects decode on gfx942, gqa_group 6 with query_group 4, as budget[2] does",
        ONE,
        "  budget[5]: selects decode on gfx942, gqa_group 6 with query_group 4, as budget[4] does",
        ONE,
    ]


def test_missing_and_overlapping_at_once(spec_text: Text, report: Report) -> None:
    edits = {DECODE: {"gqa_groups": "[6]"}}
    assert report(spec_text(edits=edits, add=[{"query_groups": "[1]"}], drop=[STORE])) == [
        "  budget: none selects store on gfx942",
        missing_fix("store"),
        "  budget: none selects decode on gfx942, gqa_group 1 with query_group 4",
        missing_fix("decode"),
        "  budget[3]: selects decode on gfx942, gqa_group 6 with query_group 1, as budget[1] does",
        ONE,
    ]


@pytest.mark.parametrize("key", ["gqa_groups", "query_groups"])
def test_a_wrong_group_of_the_spec_leaves_decode_budgets_unjudged(key: str, spec_text: Text, report: Report) -> None:
    lines = report(spec_text(top={key: "[1, 99]"}, edits={DECODE: {key: "[5]"}}, add=[{}], drop=[STORE]))
    assert lines == [
        f"  {key}[1]: 99 is out of range",
        "    allowed: 1 to 16",
        "  budget: none selects store on gfx942",
        missing_fix("store"),
    ]


def test_wrong_archs_leave_the_coverage_unjudged(spec_text: Text, report: Report) -> None:
    (problem, _) = report(spec_text(top={"archs": '["gfx942", "gfx999"]'}, drop=[STORE], add=[ON_GFX1100]))
    assert problem == '  archs[1]: "gfx999" is no arch (did you mean gfx950, gfx942?)'


def test_a_broken_budget_may_be_the_missing_one_but_not_another(spec_text: Text, report: Report) -> None:
    """The budget for an unknown kernel on gfx942 may be decode's; nothing may be rotate's on gfx1100."""
    on_gfx1100 = [{**ON_GFX1100, "kernel": f'"{kernel}"'} for kernel in ("store", "decode", "reduce")]
    assert report(spec_text(top=BOTH, edits={DECODE: {"kernel": '"decod"'}}, add=on_gfx1100)) == [
        '  budget[2].kernel: "decod" is no kernel (did you mean decode?)',
        KERNELS,
        "  budget: none selects rotate on gfx1100",
        missing_fix("rotate", "gfx1100"),
    ]


def test_a_broken_selector_neither_covers_twice_nor_leaves_a_gap(spec_text: Text, report: Report) -> None:
    edits = {DECODE: {"gqa_groups": "[1, 61]"}}
    assert report(spec_text(edits=edits, add=[{"gqa_groups": "[6]", "query_groups": "[1]"}])) == [
        "  budget[2].gqa_groups[1] (decode on gfx942): 61 is out of range",
        "    allowed: 1 to 16",
    ]
