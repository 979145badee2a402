from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from octave_gen.build import locks
from octave_gen.errors import OctaveError

HOLDER = """
import sys
from pathlib import Path
from octave_gen.build import locks
with locks.held(Path(sys.argv[1]), timeout=5, progress=print):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_owner_is_named_when_time_is_up(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = hold(path)
    lines: list[str] = []
    try:
        with pytest.raises(OctaveError) as caught, locks.held(path, timeout=0.3, progress=lines.append):
            pass
    finally:
        end(holder)
    owner = f"process {holder.pid} on {socket.gethostname()}, since 20"
    assert owner in caught.value.what
    assert "OCTAVE_LOCK_TIMEOUT" in str(caught.value.hint)
    assert len(lines) == 1
    assert owner in lines[0]


def test_killed_owner_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    end(hold(path))
    lines: list[str] = []
    with locks.held(path, timeout=0, progress=lines.append):
        pass
    assert lines == []


def test_waiting_ends_when_the_owner_does(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = hold(path)
    lines: list[str] = []
    timer = threading.Timer(0.3, holder.kill)
    timer.start()
    with locks.held(path, timeout=30, progress=lines.append):
        assert len(lines) == 1
    timer.join()
    end(holder)


def test_lock_of_a_removed_folder_excludes_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    with locks.held(folder / "lock", timeout=0, progress=print):
        shutil.rmtree(folder)
        folder.mkdir()
        with locks.held(folder / "lock", timeout=0, progress=print):
            pass


def test_lock_removed_while_it_is_taken_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    original = fcntl.flock
    removals = iter([True])

    def flock(descriptor: int, operation: int) -> None:
        if next(removals, False):
            path.unlink()
        original(descriptor, operation)

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    with (
        locks.held(path, timeout=0, progress=print),
        pytest.raises(OctaveError, match="another build"),
        locks.held(path, timeout=0, progress=lambda line: None),
    ):
        pass


def test_unsigned_lock_has_an_owner_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.held(path, timeout=0, progress=print):
        path.write_text("{")
        with pytest.raises(OctaveError, match="not signed"), locks.held(path, timeout=0, progress=lambda line: None):
            pass
