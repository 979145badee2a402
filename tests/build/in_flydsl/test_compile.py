"""The child: its progress, what it keeps, that it ends with its parent, and that nothing of the machine shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fly_units import Batch, Shop, fly_unit, job

from octave_gen.build import process
from octave_gen.build.cache import Cache
from octave_gen.build.flydsl import protocol, tool
from octave_gen.errors import OctaveError

HERE = Path(__file__).resolve().parent


def test_objects_and_traces_are_in_the_cache(batch: Batch) -> None:
    for name in ("sound", "matrix"):
        made = job(batch.units[name])
        assert batch.shop.store.get(made.key) == batch.code(name)
        trace = (batch.shop.store.get(made.trace_key) or b"").decode()
        symbols = [line.split()[1] for line in trace.splitlines() if line.startswith("traced ")]
        assert symbols == sorted(variant.name for variant in batch.units[name].variants)
    assert "     1 scf.if\n" in (batch.shop.store.get(job(batch.units["sound"]).trace_key) or b"").decode()


def test_nothing_is_kept_of_a_failure(batch: Batch) -> None:
    for failure in batch.compiled.failures:
        assert failure.job.name not in batch.compiled.code_objects
        assert batch.shop.store.get(failure.job.key) is None


def test_every_unit_has_a_line(batch: Batch) -> None:
    count = len(batch.units)
    assert [line.split("]")[0] for line in batch.shop.lines] == [f"[{n}/{count}" for n in range(1, count + 1)]
    for unit in batch.units.values():
        (line,) = (line for line in batch.shop.lines if f" {unit.name} " in line)
        assert line.endswith(" s" if unit.name in batch.compiled.code_objects else " s FAILED")


def test_the_same_bytes_everywhere(flydsl: None, batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another folder, with another seed of hashes and with other variables around."""
    flags = tool.flags
    monkeypatch.setattr(tool, "flags", lambda arch: (*flags(arch)[:-1], "PYTHONHASHSEED=12345"))
    monkeypatch.setenv("HOME", str(tmp_path))
    shop = Shop(tmp_path / "another" / "and deeper")
    shop.folder.mkdir(parents=True)
    units = [batch.units[name] for name in ("sound", "matrix")]
    made = shop.compile(units, parallel=1)
    assert made.code_objects == {unit.name: batch.compiled.code_objects[unit.name] for unit in units}
    monkeypatch.setattr(tool, "flags", flags)
    for unit in units:
        assert str(HERE).encode() not in made.code_objects[unit.name]
        assert job(unit).key == job(replace(unit)).key


def test_after_a_failure_nothing_more_is_started(flydsl: None, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    units = [fly_unit("raises"), fly_unit("sound"), fly_unit("matrix")]
    compiled = shop.compile(units, keep_going=False, parallel=1)
    assert [failure.job.name for failure in compiled.failures] == [units[0].name]
    assert compiled.code_objects == {}
    assert len(shop.lines) == 1


def test_after_a_refusal_nothing_is_started(tmp_path: Path, flydsl: None) -> None:
    shop = Shop(tmp_path)
    assert len(shop.compile([fly_unit("drops_return"), fly_unit("sound")], keep_going=False).failures) == 1
    assert [line.split()[1] for line in shop.lines] == ["drops_return_h64_flydsl_gfx942"]


def test_a_child_that_cannot_start(flydsl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "child", lambda *words: [sys.executable, "-c", "raise SystemExit('no flydsl here')"])
    with pytest.raises(OctaveError, match="flydsl's process failed after 0 of 1 units:\n  no flydsl here"):
        Shop(tmp_path).compile([fly_unit()])


def test_a_child_that_ends_early_has_made_nothing(
    flydsl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A code object that lies there without its unit's line is not taken."""
    script = "import pathlib; pathlib.Path('sound_h64_flydsl_gfx942.hsaco').write_bytes(b'half')"
    monkeypatch.setattr(tool, "child", lambda *words: [sys.executable, "-c", script])
    shop = Shop(tmp_path)
    with pytest.raises(OctaveError, match="process failed"):
        shop.compile([fly_unit()])
    assert shop.store.get(job(fly_unit()).key) is None


def test_lines_of_the_protocol() -> None:
    assert protocol.parse(protocol.line("a", 134, 1.25)) == protocol.Ended("a", 134, 1.25)
    assert protocol.parse("Traceback (most recent call last):") is None


SLEEPER = """
import sys
from pathlib import Path
from fly_units import Shop, fly_unit
Shop(Path(sys.argv[1])).compile([fly_unit("sleeps", head) for head in (64, 128, 192)], parallel=2)
"""


def working_in(folder: Path) -> list[int]:
    """Processes whose current folder is below ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink().is_relative_to(folder):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_child_ends_with_its_build(flydsl: None, tmp_path: Path, end: signal.Signals) -> None:
    command = [sys.executable, "-c", SLEEPER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    build = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    patience = time.monotonic() + 60
    while len(list(tmp_path.glob("cache/tmp/*/*/*.begin"))) < 2 and time.monotonic() < patience:
        time.sleep(0.05)
    assert len(working_in(tmp_path / "cache")) == 3  # the child and two forks
    build.send_signal(end)
    assert build.wait(timeout=20) != 0
    while working_in(tmp_path / "cache") and time.monotonic() < patience:
        time.sleep(0.02)
    assert working_in(tmp_path / "cache") == []
    with Cache(tmp_path / "cache", 1 << 30, 0.0, print).writing():
        pass
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []
    assert not list(tmp_path.glob("cache/entries/*/*"))


def test_a_program_that_is_not_listened_to_ends(tmp_path: Path) -> None:
    lines = process.lines(["/bin/sh", "-c", "echo here; exec sleep 60"], tmp_path, dict(os.environ))
    assert next(lines) == "here"
    lines.close()
    assert working_in(tmp_path) == []
