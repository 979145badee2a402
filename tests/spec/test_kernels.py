"""The key ``kernels``: a spec that asks for some kernel kinds alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octave_gen import plan
from octave_gen.kernels import KINDS
from octave_gen.spec.model import Spec

Load = Callable[[str], Spec]
Report = Callable[[str], list[str]]
Text = Callable[..., str]

ALLOWED = "    allowed: store, rotate, decode, reduce, prefill_prefix, prefill_chunk"
ATTENTION = {"kernels": '["decode", "reduce"]'}
WIDE = """
edition = 1
family = "octave"
cache_dtypes = ["octave_k3v3"]
encoders = ["plain"]
head_size = 512
rotary_dims = 128
gqa_groups = [4]
query_groups = [1]
query_dtypes = ["fp16"]
archs = ["gfx942", "gfx1100"]
"""
WITHOUT_PREFILL = ("store", "rotate", "decode", "reduce")


def wide(kernels: str, *budgets: str) -> str:
    """A spec of head 512 with a budget for each of ``budgets`` on both chips."""
    bounds = "vgprs = 256\nagprs = 0\nsgprs = 100\nlds_bytes = 65536\noccupancy = 1\n"
    rows = (f'[[budget]]\nkernel = "{name}"\narch = "{chip}"\n{bounds}' for name in budgets for chip in CHIPS)
    return WIDE + kernels + "".join(rows)


CHIPS = ("gfx942", "gfx1100")


def test_without_the_key_a_spec_asks_for_every_kind(spec_text: Text, load_text: Load) -> None:
    assert load_text(spec_text()).kernels == ("store", "rotate", "decode", "reduce", "prefill_prefix", "prefill_chunk")


def test_only_the_kinds_that_are_named_are_planned_and_need_a_budget(spec_text: Text, load_text: Load) -> None:
    loaded = load_text(spec_text(top=ATTENTION, drop=(0, 1)))
    assert loaded.kernels == ("decode", "reduce")
    assert {variant.kind.name for variant in plan.variants([loaded])} == {"decode", "reduce"}


def test_a_kind_that_is_named_needs_a_budget(spec_text: Text, report: Report) -> None:
    assert report(spec_text(top=ATTENTION, drop=(0, 1, 3))) == [
        "  budget: none selects reduce on gfx942",
        '    fix: add a [[budget]] with kernel = "reduce", arch = "gfx942"',
    ]


def test_a_budget_of_a_kind_that_is_not_named(spec_text: Text, report: Report) -> None:
    assert report(spec_text(top=ATTENTION, drop=(1,))) == [
        "  budget[0].kernel (store on gfx942): the spec does not name store in kernels",
        "    allowed: decode, reduce",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('["decoder"]', ['  kernels[0]: "decoder" is no kernel (did you mean decode?)', ALLOWED]),
        ('["decode", "decode"]', ['  kernels[1]: "decode" is already at kernels[0]']),
        ("[]", ["  kernels: the list is empty", ALLOWED, "    fix: leave the key out to select every kernel"]),
        (
            '"decode"',
            ['  kernels: expected a list, got the string "decode"', ALLOWED, '    fix: write kernels = ["decode"]'],
        ),
    ],
)
def test_a_wrong_list_is_the_only_problem(value: str, expected: list[str], spec_text: Text, report: Report) -> None:
    """Neither the budgets that are missing nor a head that other kinds do not hold is a second one."""
    assert report(spec_text(top={"kernels": value, "head_size": "192"}, drop=(0, 1))) == expected


def test_a_misspelt_key_is_the_only_problem(spec_text: Text, report: Report) -> None:
    problem, _ = report(spec_text(top={"kernel": '["decode", "reduce"]'}, drop=(0, 1)))
    assert problem == "  kernel: unknown key (did you mean kernels?)"


def test_a_head_that_some_kinds_do_not_hold_names_kind_tier_and_reason(report: Report) -> None:
    tiers = [f"the {tier} tier holds head_size 128 and 256, not 512" for tier in ("mfma", "flydsl", "wmma")]
    reasons = "; ".join(f"prefill_prefix, prefill_chunk: {tier}" for tier in tiers)
    assert report(wide("", *KINDS)) == [
        f"  head_size: {reasons}",
        "    allowed: 128, 256",
        '    fix: to leave the others out, write kernels = ["store", "rotate", "decode", "reduce"]',
    ]


def test_that_head_without_those_kinds(load_text: Load) -> None:
    loaded = load_text(wide('kernels = ["store", "rotate", "decode", "reduce"]\n', *WITHOUT_PREFILL))
    planned = plan.variants([loaded])
    assert {(variant.kind.name, variant.arch.name) for variant in planned} == {
        (kind, chip) for kind in WITHOUT_PREFILL for chip in CHIPS
    }
    assert {(v.arch.name, v.tier.name) for v in planned if v.kind.name == "decode"} == {
        ("gfx942", "portable"),
        ("gfx942", "mfma"),
        ("gfx1100", "portable"),
    }


def test_heads_that_the_named_kinds_hold_are_offered(spec_text: Text, report: Report) -> None:
    text = spec_text(top={"head_size": "192", **ATTENTION}, drop=(0, 1))
    assert report(text) == [
        "  head_size: decode, reduce: the portable tier holds head_size 64, 128, 256 and 512, not 192",
        "    allowed: 64, 128, 256, 512",
    ]
