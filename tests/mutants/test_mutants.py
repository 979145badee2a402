"""Every mutant of the kernels is caught by the checks, and the kernels that they are made of pass the same checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mutants import MUTANTS, ROTATE, Mutant
from workbench import Finding, Workbench, check_all

from octave_gen import isa
from octave_gen.isa.faults import fault

TELLING = [mutant for mutant in MUTANTS if not mutant.slow]
UNITS = sorted({(mutant.unit, mutant.arch) for mutant in MUTANTS})


def first_finding(bench: Workbench, mutant: Mutant) -> Finding | None:
    templates = bench.edited(mutant.file, mutant.before, mutant.after)
    built = bench.build(f"{mutant.unit}_{mutant.arch}", templates)
    return next(check_all(built, bench.merge_for(mutant.unit, mutant.arch), ("quick", "full")), None)


def name_of(mutant: Mutant) -> str:
    return mutant.name.replace(" ", "_")


@pytest.mark.parametrize("mutant", TELLING, ids=name_of)
def test_telling_mutants_are_caught(bench: Workbench, mutant: Mutant) -> None:
    assert first_finding(bench, mutant) is not None


@pytest.mark.parametrize(("unit", "arch"), sorted({(mutant.unit, mutant.arch) for mutant in TELLING}))
def test_the_kernels_of_the_telling_mutants_pass(bench: Workbench, unit: str, arch: str) -> None:
    assert list(check_all(bench.build(f"{unit}_{arch}"), bench.merge_for(unit, arch), ("quick",))) == []


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=name_of)
def test_every_mutant_is_caught(
    bench: Workbench, mutant: Mutant, record_property: Callable[[str, object], None]
) -> None:
    finding = first_finding(bench, mutant)
    assert finding is not None
    record_property(
        "caught", (mutant.name, f"{mutant.unit}_{mutant.arch}", f"{finding.set} [{finding.case}] {finding.problem}")
    )


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "arch"), UNITS)
def test_the_kernels_of_the_mutants_pass(bench: Workbench, unit: str, arch: str) -> None:
    built = bench.build(f"{unit}_{arch}")
    assert list(check_all(built, bench.merge_for(unit, arch), ("quick", "full"))) == []


def test_what_the_interpreter_cannot_execute_is_no_catch(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault("internal", "kernel", 0, "s_nop", None, "IndexError")

    monkeypatch.setattr(isa, "execute", fail)
    with pytest.raises(AssertionError, match="the interpreter failed"):
        list(check_all(bench.build(f"{ROTATE}_gfx942"), None, ("quick",)))


def test_mutants_are_many_and_differ() -> None:
    assert len(TELLING) >= 24
    assert len(MUTANTS) >= 180
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.after, mutant.before) for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.arch for mutant in TELLING} == {"gfx942", "gfx1100"}
