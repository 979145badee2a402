"""Compiles that are killed, never end, or end without a word; and an environment that is against them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from fly_units import Batch, Shop, fly_unit, job
from test_compile import working_in

from octave_gen.build import failures, process
from octave_gen.build.flydsl import compile as fly
from octave_gen.build.flydsl import protocol, sources, tool
from octave_gen.errors import OctaveError


def child_and_forks(folder: Path) -> tuple[int, list[int]]:
    """Once a unit of ``sleeps`` is being compiled below ``folder``."""
    patience = time.monotonic() + 60
    while not list(folder.glob("cache/tmp/*/*/*.begin")) and time.monotonic() < patience:
        time.sleep(0.02)
    found = working_in(folder / "cache")
    parents = {one: int(Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[1]) for one in found}
    (child,) = (one for one in found if parents[one] == os.getpid())
    return child, [one for one in found if parents[one] == child]


def kill(folder: Path, *, fork: bool) -> threading.Thread:
    """Kills the child, or its one fork, as soon as it compiles."""

    def run() -> None:
        child, forks = child_and_forks(folder)
        os.kill(forks[0] if fork else child, signal.SIGKILL)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_fork_that_is_killed_is_one_failure(flydsl: None, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    thread = kill(tmp_path, fork=True)
    compiled = shop.compile([fly_unit("sleeps"), fly_unit("sound")], parallel=1)
    thread.join()
    (failure,) = compiled.failures
    assert failure.status == protocol.SIGNALLED + signal.SIGKILL
    assert failures.first_error(failure) == (
        "the compiler was killed by signal 9; if memory was short, use fewer --jobs"
    )
    assert list(compiled.code_objects) == ["sound_h64_flydsl_gfx942"]


def test_a_child_that_is_killed_is_not_taken_for_a_missing_one(flydsl: None, tmp_path: Path) -> None:
    """Though a unit had failed before."""
    shop = Shop(tmp_path)
    thread = kill(tmp_path, fork=False)
    with pytest.raises(OctaveError, match="failed after 1 of 2 units: it ended without a word") as raised:
        shop.compile([fly_unit("raises"), fly_unit("sleeps")], parallel=1)
    thread.join()
    assert raised.value.hint == "if memory was short, use fewer --jobs"
    patience = time.monotonic() + 20
    while working_in(tmp_path) and time.monotonic() < patience:
        time.sleep(0.02)
    assert working_in(tmp_path) == []


def test_a_kernel_that_is_never_traced_to_its_end(
    flydsl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fly, "UNIT_SECONDS", 1)
    (failure,) = Shop(tmp_path).compile([fly_unit("loops")]).failures
    assert failure.status == protocol.SIGNALLED + signal.SIGXCPU
    assert failures.first_error(failure) == "error: it took more than 1 s of processor time"


def test_a_compile_that_makes_nothing_without_a_word(batch: Batch) -> None:
    said = "error: the compile ended with status 0 and made no code object\n"
    assert batch.failure("leaves") == (protocol.FAILED, said)


def test_a_unit_without_a_log(flydsl: None, tmp_path: Path) -> None:
    failure = fly._failure(job(fly_unit()), protocol.Ended("sound", 137, 1.0), tmp_path)
    assert failure is not None
    assert (failure.status, failure.log) == (137, "")


def test_a_kernel_that_is_no_python(flydsl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text("def make(request):\n    return (\n")
    monkeypatch.setattr(sources, "relative_name", lambda file: file.name)
    unit = fly_unit(str(tmp_path / "broken"))
    (failure,) = Shop(tmp_path).compile([unit]).failures
    assert failures.first_error(failure) == "error: broken.py:2: this is no Python: '(' was never closed"


def test_python_is_not_made_to_speak(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME", "PYTHONDEVMODE", "PYTHONOPTIMIZE", "PYTHONMALLOCSTATS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONWARNINGS", "always")
    monkeypatch.delenv("HOME", raising=False)
    made = Shop(tmp_path).compile([fly_unit()])
    assert made.code_objects == {"sound_h64_flydsl_gfx942": batch.code("sound")}


def test_where_python_is_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONUSERBASE", "/somewhere")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    made = tool.environment("gfx942", tmp_path)
    assert made["PYTHONUSERBASE"] == "/somewhere"
    assert "PYTHONWARNINGS" not in made


def test_the_child_imports_the_flydsl_that_is_named(
    flydsl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lies first on the path, and says that it is the right version."""
    folder = tmp_path / "path"
    (folder / "flydsl-0.5.0.dist-info").mkdir(parents=True)
    (folder / "flydsl-0.5.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: flydsl\nVersion: 0.5.0\n")
    (folder / "flydsl-0.5.0.dist-info" / "RECORD").write_text("flydsl/__init__.py,sha256=0,1\n")
    (folder / "flydsl").mkdir()
    (folder / "flydsl" / "__init__.py").write_text("raise ImportError('this is the other one')\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    with pytest.raises(OctaveError, match="this is the other one"):
        Shop(tmp_path).compile([fly_unit()])
    lines = process.lines([sys.executable, "-c", "import flydsl"], tmp_path, tool.environment("gfx942", tmp_path))
    assert list(lines)[-1] == "ImportError: this is the other one"
