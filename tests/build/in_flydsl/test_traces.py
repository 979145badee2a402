"""generated/ with units in FlyDSL, with and without flydsl."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import ClassVar

import pytest
from blank_documents import DOCUMENTS, write_documents
from fly_units import KERNELS, fly_unit

from octave_gen import paths, plan, spec
from octave_gen.build import drift
from octave_gen.build.flydsl import sources, tool, trace
from octave_gen.errors import OctaveError
from octave_gen.plan import Unit

SOUND = "generated/gfx942/sound_h64_flydsl_gfx942.flydsl"


def planned(monkeypatch: pytest.MonkeyPatch, *units: Unit) -> None:
    variants = [variant for unit in units for variant in unit.variants]
    monkeypatch.setattr(plan, "variants", lambda specs, archs=(): variants)
    monkeypatch.setattr(spec, "shipped", list)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def root(flydsl: None, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A generated checkout of two units in FlyDSL."""
    planned(monkeypatch, fly_unit("sound"), fly_unit("matrix"))
    monkeypatch.setenv("OCTAVE_CACHE_DIR", str(cache))
    write_documents(tmp_path)
    drift.generate(tmp_path)
    return tmp_path


def words(root: Path, lines: list[str] | None = None) -> list[tuple[str, str]]:
    said = [] if lines is None else lines
    return [(difference.word, difference.path) for difference in drift.compare(root, said.append)]


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "installed", lambda: None)


def test_the_file_is_the_text_and_the_trace(root: Path) -> None:
    text = (root / SOUND).read_text()
    assert text.startswith(sources.text(fly_unit("sound")) + "\ntraced sound_h64_bf16_flydsl_gfx942\nsha256 ")
    assert "\n     1 scf.if\n" in text
    assert text.endswith("\n")
    assert str(paths.PACKAGE.parent) not in text


def test_the_second_check_compiles_nothing(root: Path) -> None:
    lines: list[str] = []
    assert words(root, lines) == []
    assert lines == []
    assert drift.skipped() is None


def test_a_kernel_that_changes_is_seen(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another body, the same constants: hash and histogram differ, and the manifest's hash of the module."""
    original, named = sources.module_file, sources.relative_name
    changed = root / "sound.py"
    changed.write_text((KERNELS / "sound.py").read_text().replace("* scale", "* scale + 1.0"))
    monkeypatch.setattr(sources, "module_file", lambda unit: changed if "sound" in unit.name else original(unit))
    monkeypatch.setattr(sources, "relative_name", lambda file: named(KERNELS / "sound.py" if file == changed else file))
    lines: list[str] = []
    assert words(root, lines) == [("changed", SOUND), ("changed", "generated/manifest.json")]
    assert lines[0].startswith("1 of 2 units to trace")
    (difference, _) = drift.compare(root)
    assert "+     1 arith.addf" in difference.diff
    assert "+sha256 " in difference.diff
    without(monkeypatch)
    assert words(root) == [("changed", "generated/manifest.json")]


def test_a_trace_that_was_tampered_with(root: Path) -> None:
    text = (root / SOUND).read_text()
    (root / SOUND).write_text(text.replace("     1 scf.if", "     2 scf.if", 1))
    assert words(root) == [("changed", SOUND)]
    drift.generate(root)
    assert (root / SOUND).read_text() == text


def test_without_flydsl_all_else_is_checked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch)
    assert words(root) == []
    assert drift.skipped() == (
        "not looked at: what flydsl traces for 2 units, because flydsl is not installed; "
        "install it with `pip install 'octave-gen[flydsl]'`"
    )
    text = (root / SOUND).read_text()
    (root / SOUND).write_text(text.replace("kRows = 3", "kRows = 4", 1))
    (root / "generated" / "gfx942" / "left.hip").write_text("")
    assert words(root) == [("orphan", "generated/gfx942/left.hip"), ("changed", SOUND)]
    (root / SOUND).unlink()
    assert ("missing", SOUND) in words(root)


def test_without_flydsl_what_has_not_changed_is_generated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch)
    (root / "README.md").write_text(DOCUMENTS["README.md"])
    (root / "generated" / "gfx942" / "left.hip").write_text("")
    trace_there = (root / SOUND).read_bytes()
    assert {difference.path for difference in drift.generate(root)} == {"README.md", "generated/gfx942/left.hip"}
    assert (root / SOUND).read_bytes() == trace_there


@pytest.mark.parametrize("change", ["text", "missing", "sources", "manifest"])
def test_without_flydsl_what_has_changed_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    without(monkeypatch)
    path = root / "generated" / "manifest.json"
    if change == "text":
        planned(monkeypatch, fly_unit("sound", 128), fly_unit("matrix"))
    elif change == "missing":
        (root / SOUND).unlink()
    elif change == "sources":
        described = json.loads(path.read_text())
        described["variants"][0]["templates"][0]["sha256"] = "0" * 64
        path.write_text(json.dumps(described))
    else:
        path.write_text("no JSON")
    (root / "README.md").write_text(DOCUMENTS["README.md"])
    with pytest.raises(OctaveError, match="in FlyDSL have changed, and flydsl is not installed") as raised:
        drift.generate(root)
    assert "pip install" in str(raised.value.hint)
    assert (root / "README.md").read_text() == DOCUMENTS["README.md"]


def test_a_unit_that_does_not_compile_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned(monkeypatch, fly_unit("raises"), fly_unit("sound"))
    with pytest.raises(OctaveError, match="units in FlyDSL do not compile:\n  raises_h64_flydsl_gfx942: ValueError"):
        drift.compare(root)


def test_text_of_a_trace() -> None:
    class Kernel:
        text = "gpu.func"
        operations: ClassVar = {"scf.if": 2, "arith.addi": 1234567}

    paragraph = f"sha256 {hashlib.sha256(b'gpu.func').hexdigest()}\n1234567 arith.addi\n     2 scf.if\n"
    assert trace.text({"b": Kernel(), "a": Kernel()}) == f"traced a\n{paragraph}\ntraced b\n{paragraph}"
