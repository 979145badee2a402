from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from octave_gen.build import files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    files.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "file"
    old = os.umask(0o022)
    try:
        files.write_atomically(path, b"x")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_sweep_removes_unfinished_files_only(tmp_path: Path) -> None:
    for name in (".library.so.0123456789abcdef.tmp", "library.so", ".lock", "other.tmp"):
        (tmp_path / name).write_text("")
    files.sweep(tmp_path)
    assert names(tmp_path) == [".lock", "library.so", "other.tmp"]
