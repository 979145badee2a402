"""The limits of the chips, which no budget exceeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from budget_words import DECODE, ON_GFX1100, Report, Text

from octave_gen.arch import ARCHS
from octave_gen.spec.fields import RESOURCES
from octave_gen.spec.model import Spec


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


def test_the_limits_follow_the_chips() -> None:
    vgprs = next(resource for resource in RESOURCES if resource.key == "vgprs")
    for chip in ARCHS.values():
        assert vgprs.field(chip).check.allowed == f"1 to {chip.max_vgprs}"
