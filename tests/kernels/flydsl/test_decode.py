"""decode in FlyDSL passes the checks of its kind, keeps to the budget of the mfma tier, and its mistakes are caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flydsl_bench import FlyBench
from flydsl_mutants import COLUMNS, COMPACT, COMPACT_K4, DECODE_MUTANTS, ONE_COLUMN, PAIRED
from mutant import Mutant
from workbench import Finding, check_all

from octave_gen import paths
from octave_gen.build import resources

UNITS = (PAIRED, ONE_COLUMN, COLUMNS, COMPACT, COMPACT_K4)
"""Of block K and of compact K of both widths, and of each way to hold the query."""
TELLING = [mutant for mutant in DECODE_MUTANTS if not mutant.slow]


def first_finding(bench: FlyBench, mutant: Mutant) -> Finding | None:
    package = bench.edited(mutant.file, mutant.before, mutant.after)
    built = bench.build(f"{mutant.unit}_{mutant.arch}", package)
    return next(check_all(built, bench.hip.merge_for(mutant.unit, mutant.arch), ("quick", "full")), None)


def name_of(mutant: Mutant) -> str:
    return mutant.name.replace(" ", "_")


@pytest.mark.parametrize("unit", UNITS)
def test_decode_passes(fly_bench: FlyBench, unit: str) -> None:
    built = fly_bench.build(f"{unit}_gfx942")
    assert list(check_all(built, fly_bench.hip.merge_for(unit, "gfx942"), ("quick",))) == []
    verdict = resources.gate(fly_bench.unit(f"{unit}_gfx942"), built.code_object)
    assert verdict.problems == ()


@pytest.mark.parametrize("mutant", TELLING, ids=name_of)
def test_telling_mutants_are_caught(fly_bench: FlyBench, mutant: Mutant) -> None:
    assert first_finding(fly_bench, mutant) is not None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", DECODE_MUTANTS, ids=name_of)
def test_every_mutant_is_caught(
    fly_bench: FlyBench, mutant: Mutant, record_property: Callable[[str, object], None]
) -> None:
    finding = first_finding(fly_bench, mutant)
    assert finding is not None
    record_property(
        "caught", (mutant.name, f"{mutant.unit}_{mutant.arch}", f"{finding.set} [{finding.case}] {finding.problem}")
    )


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_decode_passes_all_cases(fly_bench: FlyBench, unit: str) -> None:
    built = fly_bench.build(f"{unit}_gfx942")
    assert list(check_all(built, fly_bench.hip.merge_for(unit, "gfx942"), ("quick", "full"))) == []


def test_edits_hit_the_kernels() -> None:
    room = paths.PACKAGE / "kernels" / "flydsl"
    for mutant in DECODE_MUTANTS:
        assert (room / mutant.file).read_text().count(mutant.before) == 1, mutant.name
