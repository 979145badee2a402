"""clean."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from octave_gen import paths

Run = Callable[..., Result]


@pytest.fixture
def out(built: tuple[Path, Result], tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    shutil.copytree(built[0], folder)
    return folder


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} if folder.exists() else set()


def test_outputs_go_and_their_empty_folders(run: Run, out: Path) -> None:
    library = next((out / "gfx942").glob("*.so"))
    (out / "gfx942" / "verification.json").write_text("{}")
    before = listing(out)
    dry = run("clean", "--out", out, "--dry-run")
    assert dry.exit_code == 0
    written = (library, out / "gfx942" / "manifest.json", out / "gfx942" / "verification.json")
    assert dry.stdout.splitlines() == [f"remove {path}" for path in written]
    assert dry.stderr == "0.1 MB would be freed\n"
    assert listing(out) == before
    done = run("clean", "--out", out)
    assert (done.exit_code, done.stdout) == (0, dry.stdout)
    assert not out.exists()
    again = run("clean", "--out", out)
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "0.0 MB freed\n")


def test_one_arch_alone(run: Run, out: Path) -> None:
    shutil.copytree(out / "gfx942", out / "gfx1100")
    (library,) = (out / "gfx1100").glob("*.so")
    library.rename(library.with_name(library.name.replace("gfx942", "gfx1100")))
    others = listing(out / "gfx942")
    assert run("clean", "--out", out, "--arch", "gfx1100").exit_code == 0
    assert not (out / "gfx1100").exists()
    assert listing(out / "gfx942") == others
    unknown = run("clean", "--out", out, "--arch", "gfx94")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert "did you mean gfx942" in unknown.stderr
    assert listing(out / "gfx942") == others


def test_what_no_build_wrote_stays(run: Run, out: Path) -> None:
    mine = [
        "notes.txt",
        "gfx942/notes.txt",
        "gfx942/libother.so",
        "gfx1100/kept/liboctave_gfx1100-0.so",
        "src/manifest.json",
    ]
    for name in mine:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("x")
    assert run("clean", "--out", out).exit_code == 0
    assert {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()} == set(mine)


def test_kept_failures_go(run: Run, tmp_path: Path) -> None:
    failed = tmp_path / "gfx942" / "failed"
    failed.mkdir(parents=True)
    (failed / "decode.log").write_text("x" * 200_000)
    result = run("clean", "--out", tmp_path)
    assert result.stdout == f"remove {failed}\n"
    assert result.stderr == "0.2 MB freed\n"
    assert not failed.exists()


def test_a_link_is_removed_and_not_followed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (tmp_path / "out" / "gfx942").mkdir(parents=True)
    (tmp_path / "out" / "gfx942" / "failed").symlink_to(tmp_path / "precious")
    run("clean", "--out", tmp_path / "out")
    assert (tmp_path / "precious" / "file").exists()
    assert not (tmp_path / "out").exists()


def test_the_cache_goes_only_when_asked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("OCTAVE_CACHE_DIR", str(cache))
    (cache / "entries" / "ab").mkdir(parents=True)
    (cache / "entries" / "ab" / "abcd").write_text("x" * 300_000)
    (cache / "mine.txt").write_text("x")
    run("clean", "--out", tmp_path / "none")
    assert (cache / "entries" / "ab" / "abcd").exists()
    dry = run("clean", "--out", tmp_path / "none", "--cache", "--dry-run")
    assert (dry.stdout, dry.stderr) == (f"remove {cache / 'entries'}\n", "0.3 MB would be freed\n")
    assert (cache / "entries" / "ab" / "abcd").exists()
    assert run("clean", "--out", tmp_path / "none", "--cache").stdout == dry.stdout
    assert not (cache / "entries").exists()
    assert (cache / "mine.txt").exists()


def test_a_build_that_runs_is_not_cleaned_away(run: Run, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from octave_gen.build import locks

    monkeypatch.setenv("OCTAVE_LOCK_TIMEOUT", "0")
    before = listing(out)
    with locks.held(out / "gfx942" / ".lock", timeout=0, progress=print):
        result = run("clean", "--out", out)
    assert result.exit_code == 1
    assert "another build holds this lock" in result.stderr
    assert listing(out) == before


@pytest.mark.skipif(shutil.which("make") is None, reason="this machine has no make")
def test_make_clean_makes_no_environment(tmp_path: Path) -> None:
    def make_clean() -> None:
        command = ["make", "-f", paths.PACKAGE.parent / "Makefile", "clean", "PYTHON=false", "VENV=venv"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "dist").mkdir()
    make_clean()
    assert listing(tmp_path) == set()
    program = tmp_path / "venv" / "bin" / "octave-gen"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$@" > called\n')
    program.chmod(0o755)
    make_clean()
    assert (tmp_path / "called").read_text() == "clean\n"
