"""session: what is run, what is taken from the record, and what is recorded. The kernels are the reference here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up import Right

from octave_gen.errors import OctaveError
from octave_gen.verify import built, pool, record, report, session
from octave_gen.verify.built import Built
from octave_gen.verify.cases import FULL, QUICK, RotateCase
from octave_gen.verify.session import Request, Verdict

ROTATE = "rotate_h128_f16_portable_gfx942"
DECODE = "decode_octave_k3v3_h128r64_g4_q4_bf16_portable_gfx942"
NAMES = (ROTATE, DECODE)
Verify = Callable[..., list[Verdict]]


@pytest.fixture
def library(small_build: Path, tmp_path: Path) -> Built:
    shutil.copytree(small_build / "gfx942", tmp_path / "gfx942")
    return built.read(tmp_path, "gfx942")


class Spy(Right):
    """The reference, which notes what it runs; ``wrong`` makes every rotation fail."""

    ran: list[str]
    wrong = False

    def rotate(self, variant: Any, x: Any, *rest: Any) -> None:
        self.ran.append(variant.name)
        super().rotate(variant, x, *rest)
        if self.wrong:
            x.zero_()

    def decode(self, variant: Any, *rest: Any) -> None:
        self.ran.append(variant.name)
        super().decode(variant, *rest)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    made = Spy()
    made.ran = []
    monkeypatch.setattr(pool, "Interpreted", lambda code_objects, interpreter: made)
    return made


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def verify(library: Built, spy: Spy, lines: list[str]) -> Verify:
    """Verifies NAMES with seed 1 and one process; returns the verdicts and empties ``spy.ran`` before."""

    def verify(level: str = "full", *, library: Built = library, **request: Any) -> list[Verdict]:
        spy.ran.clear()
        made = Request(level=level, **{"seed": 1, **request})
        return session.verify([library], NAMES, made, jobs=1, progress=lines.append)

    return verify


def test_the_first_time_everything_runs_and_is_recorded(
    verify: Verify, library: Built, spy: Spy, lines: list[str]
) -> None:
    verdicts = verify()
    assert [verdict.name for verdict in verdicts] == [ROTATE, DECODE]
    assert all(verdict.passed and verdict.fresh for verdict in verdicts)
    assert spy.ran == [ROTATE] * len(FULL["rotate"]) + [DECODE] * len(FULL["decode"])
    assert [line.rsplit(" ", 2)[0] for line in lines] == [f"[1/2] {ROTATE}", f"[2/2] {DECODE}"]
    known = record.read(library.folder)
    assert set(known) == {library.hashes[ROTATE], library.hashes[DECODE]}
    entry = known[library.hashes[DECODE]][DECODE]["interpreter"]
    assert entry == verdicts[1].entry
    assert entry["cases"] == [str(case) for case in FULL["decode"]]
    reduce = "reduce_h128_bf16_portable_gfx942"
    assert entry["merged_by"] == {"name": reduce, "sha256": library.hashes[reduce]}
    assert (entry["status"], entry["level"], entry["seed"], entry["failure"]) == ("passed", "full", 1, None)


def test_what_passed_is_not_run_again(verify: Verify, spy: Spy, lines: list[str], library: Built) -> None:
    first = verify()
    before = (library.folder / record.FILE_NAME).read_bytes()
    again = verify(seed=2)
    assert spy.ran == []
    assert [(verdict.entry, verdict.fresh) for verdict in again] == [(verdict.entry, False) for verdict in first]
    assert lines[-1] == "2 of 2 passed before and are unchanged; --again runs them too"
    assert (library.folder / record.FILE_NAME).read_bytes() == before
    verify(again=True)
    assert len(spy.ran) > 2


def test_the_same_seed_gives_the_same_record(verify: Verify, library: Built) -> None:
    verify()
    before = (library.folder / record.FILE_NAME).read_bytes()
    verify(again=True)
    assert (library.folder / record.FILE_NAME).read_bytes() == before
    verify(again=True, seed=2)
    assert (library.folder / record.FILE_NAME).read_bytes() != before


def test_a_quick_pass_stands_for_quick_checks_alone(verify: Verify, spy: Spy, library: Built) -> None:
    verify("quick")
    assert spy.ran == [ROTATE] * len(QUICK["rotate"]) + [DECODE] * len(QUICK["decode"])
    verify("quick")
    assert spy.ran == []
    verify("full")
    assert len(spy.ran) == len(FULL["rotate"]) + len(FULL["decode"])
    verify("quick")
    assert spy.ran == []
    verify("quick", again=True)
    assert spy.ran
    levels = {e["interpreter"]["level"] for names in record.read(library.folder).values() for e in names.values()}
    assert levels == {"full"}


def test_a_failure_is_recorded_and_run_again(verify: Verify, spy: Spy, library: Built, lines: list[str]) -> None:
    verify()
    spy.wrong = True
    verdict = verify("quick", again=True)[0]
    assert not verdict.passed
    assert verdict.failure is not None
    assert "FAILED" in next(line for line in lines[2:] if ROTATE in line)
    entry = record.read(library.folder)[library.hashes[ROTATE]][ROTATE]["interpreter"]
    assert (entry["status"], entry["level"]) == ("failed", "quick")
    assert entry["failure"] == {"case": str(RotateCase(tokens=1, heads=1)), "problems": list(verdict.failure.problems)}
    spy.wrong = False
    assert verify()[0].passed
    assert set(spy.ran) == {ROTATE}


def test_another_code_object_is_run(verify: Verify, spy: Spy, library: Built) -> None:
    verify()
    unit = {ROTATE: "f" * 64, ROTATE.replace("f16", "bf16"): "f" * 64}
    verify(library=replace(library, hashes={**library.hashes, **unit}))
    assert set(spy.ran) == {ROTATE}
    assert library.hashes[ROTATE] not in record.read(library.folder)


def test_decode_is_run_again_with_another_reduce(verify: Verify, spy: Spy, library: Built) -> None:
    verify()
    verify(library=replace(library, hashes={**library.hashes, "reduce_h128_bf16_portable_gfx942": "f" * 64}))
    assert set(spy.ran) == {DECODE}


def test_other_checks_run_everything(verify: Verify, spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    verify()
    monkeypatch.setattr(session, "checks_identity", lambda: "0" * 16)
    verify()
    assert set(spy.ran) == {ROTATE, DECODE}


def test_one_case_alone_is_not_recorded(library: Built, spy: Spy, lines: list[str]) -> None:
    case = session.case_for([ROTATE], "tokens=2 heads=1")
    request = Request(level="full", seed=1, case=case)
    (verdict,) = session.verify([library], [ROTATE], request, jobs=1, progress=lines.append)
    assert verdict.entry["cases"] == [str(case)]
    assert spy.ran == [ROTATE]
    assert record.read(library.folder) == {}


def test_a_case_is_for_one_kind() -> None:
    with pytest.raises(OctaveError, match="one kind of kernel, not for decode, rotate"):
        session.case_for(NAMES, "tokens=2")


def test_what_was_done_before_an_interrupt_is_recorded(library: Built, spy: Spy) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.verify([library], NAMES, Request(level="quick", seed=1), jobs=1, progress=interrupt)
    assert set(spy.ran) == {ROTATE}
    assert set(record.read(library.folder)) == {library.hashes[ROTATE]}


def test_a_record_that_is_damaged_stops_before_anything_is_run(verify: Verify, spy: Spy, library: Built) -> None:
    (library.folder / record.FILE_NAME).write_text("{")
    with pytest.raises(OctaveError, match="no JSON"):
        verify()
    assert spy.ran == []


def test_the_report_of_a_failure(verify: Verify, spy: Spy, tmp_path: Path) -> None:
    spy.wrong = True
    verdicts = verify("quick")
    said = list(report.failures(verdicts, tmp_path))
    assert said[:2] == [f"FAILED {ROTATE}", f"  case {RotateCase(tokens=1, heads=1)}"]
    assert said[2].startswith("  x: ")
    assert said[3] == (
        f"  again: octave-gen verify --arch gfx942 --filter {ROTATE} --seed 1 "
        f"--case '{RotateCase(tokens=1, heads=1)}' --out {tmp_path}"
    )
    assert len(said) == 4
    table = [line.split(None, 3) for line in report.table(verdicts)]
    assert table[1][:3] == ["rotate", "1", "0"]
    assert table[2][:3] == ["decode", "1", "1"]
    assert table[2][3].startswith("partials, share of the allowance: 0.")
    assert report.summary(verdicts) == "1 of 2 variants passed: executed and checked in an interpreter (0.1.0)"
    data = report.data(verdicts)
    assert [(item["name"], item["status"], item["fresh"]) for item in data] == [
        (ROTATE, "failed", True),
        (DECODE, "passed", True),
    ]
