"""The fields of a budget: keys, types and values of one, and that the tables of keys are whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest
from budget_words import DECODE, KERNELS, REDUCE, ROTATE, STORE, Report, Text

from octave_gen.kernels import KINDS
from octave_gen.spec.budgets import SHAPE_KEYS
from octave_gen.spec.fields import COUNTS, RESOURCES, SELECTORS, WORK, count_key, tiers_field
from octave_gen.spec.model import UNCOUNTED, Budget, BudgetRule, CountedBudget, Spec

KEYS = (
    "    allowed: kernel, arch, cache_dtypes, gqa_groups, query_groups, encoders, tiers, vgprs, agprs, sgprs, "
    "lds_bytes, occupancy, vgpr_spills, sgpr_spills, scratch_bytes, valu_per_token, clocks_per_token"
)
NUMBER = "    allowed: any number above 0"
EVERY = "    fix: leave the key out to select every group"

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
            "octave_k3v4, octave_k3v3, octave_k3v4_compact?)",
            "    allowed: octave_k3v3_compact, octave_k3v3, octave_k3v4_compact, octave_k4v3_compact, octave_k3v4",
        ],
    ),
    "empty selector of cache dtypes": (
        {"cache_dtypes": "[]"},
        [
            "  budget[2].cache_dtypes (decode on gfx942): the list is empty",
            "    allowed: octave_k3v3_compact, octave_k3v3, octave_k3v4_compact, octave_k4v3_compact, octave_k3v4",
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
        *((kernel, "encoders", '["plain"]') for kernel in (ROTATE, DECODE, REDUCE)),
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
