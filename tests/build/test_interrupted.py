"""Builds that share a cache and are killed at any moment: none hangs, none leaves anything broken."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from octave_gen.build import cache
from octave_gen.build.cache import Cache

PROGRAM = """
import json, sys
from pathlib import Path
import pytest
from octave_gen.build import link
from tiny_units import make_workshop, pretended_link, source, tiny_unit
folder, out, host = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
with pytest.MonkeyPatch.context() as monkeypatch:
    if host == "pretended":
        monkeypatch.setattr(link, "link", pretended_link(lambda arch: None))
    workshop = make_workshop(folder / f"tools-{out}", monkeypatch)
    monkeypatch.setenv("OCTAVE_CACHE_DIR", str(folder / "cache"))
    made = workshop.build([source(tiny_unit(head)) for head in range(64, 64 + 8)], folder / out, jobs=2)
    print(json.dumps([made[0].library.name, made[0].compiled]))
"""


def start(folder: Path, out: str, host: str = "pretended") -> subprocess.Popen[str]:
    here = Path(__file__).resolve().parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
    command = [sys.executable, "-c", PROGRAM, str(folder), out, host]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


SLEEPER = """
import sys
from pathlib import Path
from octave_gen.build import compile
from octave_gen.build.cache import Cache
from octave_gen.build.toolchain import DeviceCompiler
folder = Path(sys.argv[1])
sleeping = DeviceCompiler("test", "1", "0", ("sh", "-c", "sleep 60", "compiler"))
with Cache(folder / "cache", 1 << 30, 1.0, print).writing() as session:
    jobs = [compile.Job(name, "", "gfx942", name * 64) for name in "abc"]
    how = {"compiler": sleeping, "include": folder, "session": session, "parallel": 2, "keep_going": True}
    compile.compile_units(jobs, **how, progress=print)
"""


def compilers_of(folder: Path) -> list[int]:
    """Processes that still work in the cache of ``folder``."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if (process / "cwd").readlink().is_relative_to(folder):
                    found.append(int(process.name))
            except OSError:
                continue
    return found


def torment(folder: Path, processes: int, rounds: int, seed: int, host: str = "pretended") -> None:
    chance = random.Random(seed)
    for _ in range(rounds):
        running = [start(folder, f"out{number}", host) for number in range(processes)]
        deadlines = [time.monotonic() + chance.uniform(0.2, 2.0) for _ in running]
        for deadline, process in sorted(zip(deadlines, running, strict=True), key=lambda pair: pair[0]):
            time.sleep(max(0.0, deadline - time.monotonic()))
            process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
        for process in running:
            process.communicate(timeout=60)
    patience = time.monotonic() + 10
    while compilers_of(folder / "cache") and time.monotonic() < patience:
        time.sleep(0.05)
    assert compilers_of(folder / "cache") == []

    running = [start(folder, f"out{number}", host) for number in range(processes)]
    answers = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * processes, answers
    results = [json.loads(out) for out, _ in answers]
    assert len({name for name, _ in results}) == 1
    assert sum(compiled for _, compiled in results) <= 8  # no unit is compiled twice
    contents = set()
    for number in range(processes):
        arch = folder / f"out{number}" / "gfx942"
        assert sorted(path.name for path in arch.iterdir()) == sorted([".lock", "manifest.json", results[0][0]])
        contents.add(((arch / results[0][0]).read_bytes(), (arch / "manifest.json").read_bytes()))
    assert len(contents) == 1
    assert list((folder / "cache" / "tmp").iterdir()) == []
    assert not (folder / "cache" / "quarantine").exists()
    complaints: list[str] = []
    store = Cache(folder / "cache", 1 << 30, 1.0, complaints.append)
    entries = [path.name for path in (folder / "cache" / "entries").rglob("*") if path.is_file()]
    assert len(entries) >= 8
    assert all(store.get(name) is not None for name in entries)
    assert complaints == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_compiles_end_with_their_build(tmp_path: Path, end: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SLEEPER, str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    patience = time.monotonic() + 20
    while len(list(tmp_path.glob("cache/tmp/*/*.begin"))) < 2 and time.monotonic() < patience:
        time.sleep(0.02)
    assert len(compilers_of(tmp_path / "cache")) >= 3
    process.send_signal(end)
    assert process.wait(timeout=20) != 0
    while compilers_of(tmp_path / "cache") and time.monotonic() < patience:
        time.sleep(0.02)
    assert compilers_of(tmp_path / "cache") == []
    with Cache(tmp_path / "cache", 1 << 30, 0.0, print).writing():
        pass
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_killed_builds_leave_nothing_broken(tmp_path: Path) -> None:
    torment(tmp_path, processes=3, rounds=2, seed=1)


@pytest.mark.slow
def test_many_killed_builds_leave_nothing_broken(tmp_path: Path) -> None:
    torment(tmp_path, processes=6, rounds=20, seed=2, host="real")


def test_second_build_waits_for_the_first(tmp_path: Path) -> None:
    lines: list[str] = []
    other = start(tmp_path, "out")
    patience = time.monotonic() + 30
    while not list(tmp_path.glob("cache/tmp/*/*.begin")) and time.monotonic() < patience:
        time.sleep(0.01)
    with Cache(tmp_path / "cache", 1 << 30, 60.0, lines.append).writing() as session:
        session.put(cache.key("test"), b"")
    assert len(lines) == 1
    assert f"process {other.pid} on " in lines[0]
    assert other.communicate(timeout=60)[0].endswith(", 8]\n")
