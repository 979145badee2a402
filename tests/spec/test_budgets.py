"""The budgets of a spec: values, limits of the chips, and that exactly one selects each variant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest

from octave_gen.arch import ARCHS
from octave_gen.kernels import KINDS
from octave_gen.spec.budgets import SHAPE_KEYS
from octave_gen.spec.fields import COUNTS, RESOURCES, SELECTORS, WORK, count_key, tiers_field
from octave_gen.spec.model import UNCOUNTED, Budget, BudgetRule, CountedBudget, Spec

Report = Callable[[str], list[str]]
Text = Callable[..., str]

STORE, ROTATE, DECODE, REDUCE = range(4)
KERNELS = "    allowed: " + ", ".join(KINDS)
KEYS = (
    "    allowed: kernel, arch, cache_dtypes, gqa_groups, query_groups, tiers, vgprs, agprs, sgprs, lds_bytes, "
    "occupancy, vgpr_spills, sgpr_spills, scratch_bytes, valu_per_token, clocks_per_token"
)
NUMBER = "    allowed: any number above 0"
EVERY = "    fix: leave the key out to select every group"
ONE = "    fix: narrow or remove one: exactly one budget selects a variant"
BOTH = {"archs": '["gfx942", "gfx1100"]'}
ON_GFX1100 = {"arch": '"gfx1100"', "sgprs": "106"}


def _add(kernel: str, arch: str = "gfx942") -> str:
    return f'    fix: add a [[budget]] with kernel = "{kernel}", arch = "{arch}"'


SINGLE = {
    "unknown key": (
        {"vgpr_spill": "1"},
        ["  budget[2].vgpr_spill (decode on gfx942): unknown key (did you mean vgpr_spills?)", KEYS],
    ),
    "misspelt key": (
        {"vgprs": None, "vgpr": "128"},
        ["  budget[2].vgpr (decode on gfx942): unknown key (did you mean vgprs?)", KEYS],
    ),
    "misspelt selector covers what it may mean": (
        {"gqa_group": "[1]"},
        ["  budget[2].gqa_group (decode on gfx942): unknown key (did you mean gqa_groups?)", KEYS],
    ),
    "refused only as a key of the spec": (
        {"sliding_window": "1"},
        ["  budget[2].sliding_window (decode on gfx942): unknown key", KEYS],
    ),
    "missing": ({"occupancy": None}, ["  budget[2].occupancy (decode on gfx942): missing", "    allowed: 1 to 8"]),
    "string": (
        {"vgprs": '"128"'},
        ['  budget[2].vgprs (decode on gfx942): expected an integer, got the string "128"', "    allowed: 1 to 512"],
    ),
    "bool": (
        {"vgpr_spills": "false"},
        [
            "  budget[2].vgpr_spills (decode on gfx942): expected an integer, got the boolean false",
            "    allowed: 0 or more",
        ],
    ),
    "float": (
        {"occupancy": "1.5"},
        ["  budget[2].occupancy (decode on gfx942): expected an integer, got the float 1.5", "    allowed: 1 to 8"],
    ),
    "no registers": (
        {"vgprs": "0"},
        ["  budget[2].vgprs (decode on gfx942): 0 is out of range", "    allowed: 1 to 512"],
    ),
    "negative": (
        {"scratch_bytes": "-1"},
        ["  budget[2].scratch_bytes (decode on gfx942): -1 is out of range", "    allowed: 0 or more"],
    ),
    "more than the chip has": (
        {"lds_bytes": "65537"},
        ["  budget[2].lds_bytes (decode on gfx942): 65537 is more than gfx942 has", "    allowed: 0 to 65536"],
    ),
    "more AGPRs than registers": (
        {"vgprs": "128", "agprs": "129"},
        [
            "  budget[2].agprs (decode on gfx942): more than vgprs, which counts the AGPRs too",
            "    allowed: 0 to 128",
        ],
    ),
    "unknown kernel": ({"kernel": '"sampler"'}, ['  budget[2].kernel: "sampler" is no kernel', KERNELS]),
    "kernel in wrong case": (
        {"kernel": '"Decode"'},
        ['  budget[2].kernel: "Decode" is no kernel (did you mean decode?)', KERNELS],
    ),
    "kernel missing": ({"kernel": None}, ["  budget[2].kernel: missing", KERNELS]),
    "unknown arch": (
        {"arch": '"gfx94"'},
        ['  budget[2].arch: "gfx94" is no arch (did you mean gfx942, gfx950?)', "    allowed: gfx942, gfx1100, gfx950"],
    ),
    "arch of another type": (
        {"arch": "[]"},
        ["  budget[2].arch: expected a string, got a list", "    allowed: gfx942, gfx1100, gfx950"],
    ),
    "unsupported arch": (
        {"arch": '"gfx906"'},
        [
            "  budget[2].arch: gfx906 is not supported: no kernel has been built or checked for it",
            "    allowed: gfx942, gfx1100, gfx950",
        ],
    ),
    "group that the spec does not name": (
        {"gqa_groups": "[1, 6, 8]"},
        [
            "  budget[2].gqa_groups[2] (decode on gfx942): the spec does not name 8 in gqa_groups",
            "    allowed: 1, 6",
        ],
    ),
    "group out of range": (
        {"query_groups": "[1, 4, 20]"},
        ["  budget[2].query_groups[2] (decode on gfx942): 20 is out of range", "    allowed: 1 to 16"],
    ),
    "duplicate group": (
        {"query_groups": "[4, 4]"},
        ["  budget[2].query_groups[1] (decode on gfx942): 4 is already at budget[2].query_groups[0]"],
    ),
    "empty selector": (
        {"gqa_groups": "[]"},
        ["  budget[2].gqa_groups (decode on gfx942): the list is empty", "    allowed: 1 to 16", EVERY],
    ),
    "cache dtype that the spec does not name": (
        {"cache_dtypes": '["octave_k3v3", "octave_k3v4"]'},
        [
            "  budget[2].cache_dtypes[1] (decode on gfx942): the spec does not name octave_k3v4 in cache_dtypes",
            "    allowed: octave_k3v3",
        ],
    ),
    "unknown cache dtype": (
        {"cache_dtypes": '["OCTAVE_K3V4"]'},
        [
            '  budget[2].cache_dtypes[0] (decode on gfx942): "OCTAVE_K3V4" is no cache dtype (did you mean '
            "octave_k3v4, octave_k3v3, octave_k3v3_compact?)",
            "    allowed: octave_k3v3_compact, octave_k3v3, octave_k3v4",
        ],
    ),
    "empty selector of cache dtypes": (
        {"cache_dtypes": "[]"},
        [
            "  budget[2].cache_dtypes (decode on gfx942): the list is empty",
            "    allowed: octave_k3v3_compact, octave_k3v3, octave_k3v4",
            "    fix: leave the key out to select every cache dtype",
        ],
    ),
    "unknown tier": (
        {"tiers": '["portable", "mfma"]'},
        ['  budget[2].tiers[1] (decode on gfx942): "mfma" is no tier', "    allowed: portable"],
    ),
    "empty selector of tiers": (
        {"tiers": "[]"},
        [
            "  budget[2].tiers (decode on gfx942): the list is empty",
            "    allowed: portable",
            "    fix: leave the key out to select every tier",
        ],
    ),
    "count as string": (
        {"valu_per_token": '"75"'},
        ['  budget[2].valu_per_token (decode on gfx942): expected a number, got the string "75"', NUMBER],
    ),
    "count as bool": (
        {"clocks_per_token": "true"},
        ["  budget[2].clocks_per_token (decode on gfx942): expected a number, got the boolean true", NUMBER],
    ),
    "count of nothing": (
        {"valu_per_token": "0"},
        ["  budget[2].valu_per_token (decode on gfx942): 0 is out of range", NUMBER],
    ),
    "negative count": (
        {"valu_per_token": "-75.5"},
        ["  budget[2].valu_per_token (decode on gfx942): -75.5 is out of range", NUMBER],
    ),
    "infinite count": (
        {"valu_per_token": "inf"},
        ["  budget[2].valu_per_token (decode on gfx942): inf is out of range", NUMBER],
    ),
    "count that is no number": (
        {"valu_per_token": "nan"},
        ["  budget[2].valu_per_token (decode on gfx942): nan is out of range", NUMBER],
    ),
    "count of another kernel": (
        {"valu_per_slot": "75.0"},
        ["  budget[2].valu_per_slot (decode on gfx942): unknown key (did you mean valu_per_token?)", KEYS],
    ),
    "selector as integer": (
        {"query_groups": "4"},
        [
            "  budget[2].query_groups (decode on gfx942): expected a list, got the integer 4",
            "    allowed: 1 to 16",
            "    fix: write query_groups = [4]",
        ],
    ),
}


@pytest.mark.parametrize(("lines", "expected"), SINGLE.values(), ids=SINGLE)
def test_a_mistake_in_one_budget_is_reported_once(
    lines: dict[str, str | None], expected: list[str], spec_text: Text, report: Report
) -> None:
    assert report(spec_text(edits={DECODE: lines})) == expected


@pytest.mark.parametrize(
    ("kernel", "selector", "value"),
    [
        *((kernel, groups, "[1]") for kernel in (STORE, ROTATE, REDUCE) for groups in ("gqa_groups", "query_groups")),
        (ROTATE, "cache_dtypes", '["octave_k3v3"]'),
        (REDUCE, "cache_dtypes", '["octave_k3v3"]'),
    ],
)
def test_a_selector_that_a_kernel_does_not_depend_on(
    kernel: int, selector: str, value: str, spec_text: Text, report: Report
) -> None:
    name = list(KINDS)[kernel]
    assert report(spec_text(edits={kernel: {selector: value}})) == [
        f"  budget[{kernel}].{selector} ({name} on gfx942): {name} kernels do not depend on {SHAPE_KEYS[selector]}",
        "    fix: leave the key out",
    ]


@pytest.mark.parametrize(
    ("arch", "key", "least", "most"),
    [
        ("gfx942", "vgprs", 1, 512),
        ("gfx942", "sgprs", 1, 108),
        ("gfx942", "lds_bytes", 0, 65536),
        ("gfx942", "occupancy", 1, 8),
        ("gfx1100", "vgprs", 1, 256),
        ("gfx1100", "agprs", 0, 0),
        ("gfx1100", "sgprs", 1, 108),
        ("gfx1100", "lds_bytes", 0, 65536),
        ("gfx1100", "occupancy", 1, 16),
    ],
)
def test_budgets_reach_from_least_to_what_the_chip_has(
    arch: str, key: str, least: int, most: int, spec_text: Text, load_text: Callable[[str], Spec], report: Report
) -> None:
    def text(value: int) -> str:
        edits = {i: {"arch": f'"{arch}"', **({key: str(value)} if i == DECODE else {})} for i in range(4)}
        return spec_text(top={"archs": f'["{arch}"]'}, edits=edits)

    for value in (least, most):
        assert getattr(load_text(text(value)).budgets[DECODE].budget, key) == value
    allowed = f"    allowed: {least} to {most}" if least < most else f"    allowed: {most}"
    where = f"  budget[2].{key} (decode on {arch})"
    assert report(text(least - 1)) == [f"{where}: {least - 1} is out of range", allowed]
    assert report(text(most + 1)) == [f"{where}: {most + 1} is more than {arch} has", allowed]


def test_agprs_may_fill_the_other_half_of_the_register_file(
    spec_text: Text, load_text: Callable[[str], Spec], report: Report
) -> None:
    full = {"vgprs": "512", "agprs": "256"}
    assert load_text(spec_text(edits={DECODE: full})).budgets[DECODE].budget.agprs == 256
    assert report(spec_text(edits={DECODE: {**full, "agprs": "257"}})) == [
        "  budget[2].agprs (decode on gfx942): 257 is more than gfx942 has",
        "    allowed: 0 to 256",
    ]


def test_on_an_unknown_arch_the_chips_limits_are_not_judged(spec_text: Text, report: Report) -> None:
    lines = report(spec_text(edits={DECODE: {"arch": '"gfx94"', "vgprs": "9999", "sgprs": "0"}}))
    assert lines[:1] == ['  budget[2].arch: "gfx94" is no arch (did you mean gfx942, gfx950?)']
    assert lines[2:] == ["  budget[2].sgprs: 0 is out of range", "    allowed: 1 or more"]


def test_an_arch_that_the_spec_does_not_name(spec_text: Text, report: Report) -> None:
    assert report(spec_text(add=[ON_GFX1100])) == [
        "  budget[4].arch (decode on gfx1100): the spec does not name gfx1100 in archs",
        "    allowed: gfx942",
    ]


@pytest.mark.parametrize("kernel", range(4))
def test_every_kind_needs_a_budget_on_every_arch(kernel: int, spec_text: Text, report: Report) -> None:
    name = list(KINDS)[kernel]
    assert report(spec_text(drop=[kernel])) == [f"  budget: none selects {name} on gfx942", _add(name)]


def test_an_arch_without_any_budget_lists_every_kind(spec_text: Text, report: Report) -> None:
    expected = [line for k in KINDS for line in (f"  budget: none selects {k} on gfx1100", _add(k, "gfx1100"))]
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
        _add("decode"),
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


TWO_DTYPES = {"cache_dtypes": '["octave_k3v3", "octave_k3v4"]'}
K3V3 = {"cache_dtypes": '["octave_k3v3"]'}
K3V4 = {"cache_dtypes": '["octave_k3v4"]'}


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
        _add("decode"),
    ]


def test_store_budgets_by_cache_dtype(spec_text: Text, load_text: Callable[[str], Spec], report: Report) -> None:
    assert report(spec_text(top=TWO_DTYPES, edits={STORE: K3V4})) == [
        "  budget: none selects store on gfx942, cache_dtype octave_k3v3",
        _add("store"),
    ]
    second = {**K3V3, "kernel": '"store"'}
    loaded = load_text(spec_text(top=TWO_DTYPES, edits={STORE: K3V4}, add=[second]))
    stores = [rule.cache_dtypes for rule in loaded.budgets if rule.kernel == "store"]
    assert stores == [("octave_k3v4",), ("octave_k3v3",)]
    assert report(spec_text(top=TWO_DTYPES, add=[second])) == [
        "  budget[4]: selects store on gfx942, cache_dtype octave_k3v3, as budget[0] does",
        ONE,
    ]


def test_a_wrong_cache_dtype_of_the_spec_leaves_its_budgets_unjudged(spec_text: Text, report: Report) -> None:
    """Rotate and reduce do not depend on it, and a kind without any budget lacks one all the same."""
    top = {"cache_dtypes": '["octave_k3v3", "octave_k4"]'}
    lines = report(spec_text(top=top, edits={DECODE: K3V3}, add=[K3V3], drop=[STORE, ROTATE]))
    assert lines[2:] == [
        "  budget: none selects store on gfx942",
        _add("store"),
        "  budget: none selects rotate on gfx942",
        _add("rotate"),
    ]


def test_counted_budgets_are_optional_numbers(spec_text: Text, load_text: Callable[[str], Spec]) -> None:
    edits = {
        STORE: {"valu_per_slot": "1350"},
        DECODE: {"valu_per_token": "26.8", "clocks_per_token": "36"},
        REDUCE: {"clocks_per_split": "1e1"},
    }
    assert [rule.counted for rule in load_text(spec_text(edits=edits)).budgets] == [
        CountedBudget(valu=1350),
        UNCOUNTED,
        CountedBudget(valu=26.8, clocks=36),
        CountedBudget(clocks=10.0),
    ]


def test_a_count_of_an_unknown_kernel_is_not_judged(spec_text: Text, report: Report) -> None:
    lines = report(spec_text(edits={DECODE: {"kernel": '"decod"', "valu_per_slot": "75.0"}}))
    assert lines == ['  budget[2].kernel: "decod" is no kernel (did you mean decode?)', KERNELS]


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
        _add("store"),
        "  budget: none selects decode on gfx942, gqa_group 1 with query_group 4",
        _add("decode"),
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
        _add("store"),
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
        _add("rotate", "gfx1100"),
    ]


def test_a_broken_selector_neither_covers_twice_nor_leaves_a_gap(spec_text: Text, report: Report) -> None:
    edits = {DECODE: {"gqa_groups": "[1, 61]"}}
    assert report(spec_text(edits=edits, add=[{"gqa_groups": "[6]", "query_groups": "[1]"}])) == [
        "  budget[2].gqa_groups[1] (decode on gfx942): 61 is out of range",
        "    allowed: 1 to 16",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{ kernel = 'store' }", ["  budget: expected a list of tables, got a table"]),
        ("3", ["  budget: expected a list of tables, got the integer 3"]),
        ("[]", ["  budget: the list is empty"]),
        ("[1]", ["  budget[0]: expected a table, got the integer 1"]),
    ],
)
def test_budget_is_a_list_of_tables(value: str, expected: list[str], spec_text: Text, report: Report) -> None:
    text = spec_text(top={"budget": value}, drop=range(4))
    assert report(text) == [*expected, "    fix: write a [[budget]] for every kernel on every arch of the spec"]


def test_without_any_budget(spec_text: Text, report: Report) -> None:
    assert report(spec_text(drop=range(4))) == [
        "  budget: missing",
        "    fix: write a [[budget]] for every kernel on every arch of the spec",
    ]


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
    fix = _add("decode") + ', tiers = ["matrix"]'
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
        _add("decode") + ', tiers = ["portable"]',
    ]
    assert report(spec_text(drop=[DECODE])) == ["  budget: none selects decode on gfx942", _add("decode")]


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


def test_the_tables_of_keys_name_every_field_of_a_budget() -> None:
    resources = {resource.key: resource.required for resource in RESOURCES}
    minimal = Budget(**{key: 1 for key, required in resources.items() if required})
    assert set(resources) == set(vars(minimal))
    assert set(COUNTS) == set(vars(UNCOUNTED))
    assert list(WORK) == list(KINDS)
    assert count_key("valu", "decode") == "valu_per_token"
    selectors = {field.key for field in (*SELECTORS, tiers_field(None, None))}
    assert selectors == {"kernel", "arch", "tiers", *SHAPE_KEYS}
    rule = {field.name for field in fields(BudgetRule)}
    assert rule == selectors | {"budget", "counted"}
    assert {field for kind in KINDS.values() for field in kind.fields} >= set(SHAPE_KEYS.values())


def test_the_limits_follow_the_chips() -> None:
    vgprs = next(resource for resource in RESOURCES if resource.key == "vgprs")
    for chip in ARCHS.values():
        assert vgprs.field(chip).check.allowed == f"1 to {chip.max_vgprs}"
