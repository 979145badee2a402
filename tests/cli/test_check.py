"""check and generate in a copy of the checkout."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from octave_gen import paths, spec
from octave_gen.build import documents, drift
from octave_gen.build.flydsl import tool, trace, traces
from octave_gen.spec import Spec, shipped

Run = Callable[..., Result]

UNIT = "generated/gfx942/rotate_h256_portable_gfx942.hip"


def small() -> list[Spec]:
    """Two of the shipped specs, cut down."""
    less = {"archs": ("gfx942",), "cache_dtypes": ("octave_k3v3",), "gqa_groups": (6,), "query_groups": (4,)}
    return [replace(found, **less) for found in shipped() if found.rotary_dims == 64]  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled here; what flydsl traces is another test's (in_flydsl)."""
    monkeypatch.setattr(tool, "installed", lambda: tool.VERSION)
    monkeypatch.setattr(traces, "traces", lambda units, progress: {u.name: f"{trace.BEGIN}{u.name}\n" for u in units})


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout to break, with the current folder in it; this package takes it for its own."""
    root = tmp_path / "checkout"
    (root / "inside").mkdir(parents=True)
    for path in documents.documents([]):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes((paths.PACKAGE.parent / path).read_bytes())
    templates = paths.templates()
    monkeypatch.setattr(spec, "shipped", small)
    monkeypatch.setattr(paths, "checkout", lambda: root)
    monkeypatch.setattr(paths, "working_checkout", lambda: root)
    monkeypatch.setattr(paths, "templates", lambda: templates)
    drift.generate(root)
    return root


def test_a_clean_checkout(run: Run, checkout: Path) -> None:
    result = run("check")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "up to date" in result.stderr
    assert json.loads(run("check", "--json").stdout) == []


def test_without_flydsl_it_says_what_it_skipped(run: Run, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "not looked at: what flydsl traces for 3 units, because flydsl is not installed"
    monkeypatch.setattr(drift, "skipped", lambda: said)
    result = run("check")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{said}\nall else in generated/, README.md and docs/ is up to date\n"
    assert said in run("generate").stderr


def test_all_three_words_the_diff_and_the_remedy(run: Run, checkout: Path) -> None:
    (checkout / UNIT).write_text((checkout / UNIT).read_text().replace("kHeadSize = 256", "kHeadSize = 64"))
    (checkout / UNIT.replace("256", "128")).unlink()
    (checkout / "generated" / "gfx900").mkdir()
    (checkout / "generated" / "gfx900" / "old.hip").write_text("")
    result = run("check")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:3] == ["orphan generated/gfx900/old.hip", f"missing {UNIT.replace('256', '128')}", f"changed {UNIT}"]
    assert any(line.startswith("-") and line.endswith("kHeadSize = 64;") for line in lines)
    assert any(line.startswith("+") and line.endswith("kHeadSize = 256;") for line in lines)
    assert "3 files" in result.stderr
    assert "fix: octave-gen generate" in result.stderr
    as_json = run("check", "--json")
    assert as_json.exit_code == 1
    assert [(found["word"], found["path"]) for found in json.loads(as_json.stdout)] == [
        tuple(line.split()) for line in lines[:3]
    ]


def test_the_output_is_bounded(run: Run, checkout: Path) -> None:
    for path in (checkout / "generated").rglob("*.hip"):
        path.write_text("nothing\n" * 1000)
    result = run("check")
    units = len(list((checkout / "generated").rglob("*.hip")))
    assert result.stdout.count("changed generated/") == units
    assert len(result.stdout.splitlines()) < units + 200


def test_generate_puts_it_right(run: Run, checkout: Path) -> None:
    text = (checkout / UNIT).read_text()
    (checkout / UNIT).unlink()
    (checkout / "generated" / "old.hip").write_text("")
    dry = run("generate", "--dry-run")
    assert (dry.exit_code, dry.stdout) == (0, f"write {UNIT}\nremove generated/old.hip\n")
    assert dry.stderr == "2 files would change\n"
    assert not (checkout / UNIT).exists()
    done = run("generate")
    assert (done.exit_code, done.stdout, done.stderr) == (0, dry.stdout, "2 files changed\n")
    assert (checkout / UNIT).read_text() == text
    assert run("check").exit_code == 0
    (checkout / UNIT).unlink()
    assert "say: 1 file; fix" in run("check").stderr
    assert run("generate").stderr == "1 file changed\n"
    assert run("generate").stdout == ""


@pytest.mark.parametrize("command", ["check", "generate"])
def test_the_wrong_tree_and_no_tree(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "not inside a checkout" in result.stderr
    (tmp_path / "octave_gen").mkdir()
    (tmp_path / "octave_gen" / "paths.py").write_text("")
    (tmp_path / "templates" / "hip").mkdir(parents=True)
    result = run(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "python -m octave_gen" in result.stderr
