from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_units import BODY, BUDGET, Built, Workshop, make_workshop, pretended_link, source, tiny_text, tiny_unit

from octave_gen import manifest
from octave_gen.build import bundle, files, link, pipeline, resources, toolchain
from octave_gen.build.bundle import unbundle
from octave_gen.build.target import Source, Target
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.plan import Unit

BAD = BODY.replace("scale", "scael")


def read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def linked(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Spares the host half of the libraries of this test; the archs that were linked."""
    archs: list[str] = []
    monkeypatch.setattr(link, "link", pretended_link(archs.append))
    return archs


def test_manifest_describes_what_lies_beside_it(built: Built, code_object: Callable[[Unit], bytes]) -> None:
    for arch, made in built.libraries.items():
        described = manifest.read(made.manifest)
        data = made.library.read_bytes()
        assert described["stage"] == "built"
        assert described["arch"] == arch
        assert described["library"]["file"] == made.library.name == f"liboctave_{arch}-{sha256(data)[:16]}.so"
        assert described["library"]["size"] == len(data)
        assert described["library"]["sha256"] == sha256(data)
        assert described["compiler"]["identity"] == toolchain.find("ziglang").identity
        units = [s.unit for s in built.sources[arch]]
        assert [r["symbol"] for r in described["variants"]] == [v.name for unit in units for v in unit.variants]
        for unit in units:
            for record in described["variants"]:
                if record["unit"] == unit.name:
                    assert record["code_object"]["sha256"] == sha256(code_object(unit))
                    assert record["code_object"]["size"] == len(code_object(unit))
                    assert record["resources"]["vgprs"] > 0
        assert (made.variants, made.compiled, made.unchanged) == (2 * len(units), len(units), False)
        assert names(made.library.parent) == sorted([".lock", "manifest.json", made.library.name])


def test_library_holds_the_bundles_that_the_manifest_hashes(built: Built) -> None:
    made = built.libraries["gfx942"]
    described = read(made.manifest)["bundle"]
    found = bundle.code_objects(made.library)
    assert set(found) == {record["symbol"] for record in read(made.manifest)["variants"]}
    parts = [bundle.bundle(bundle.TargetId("gfx942"), found[s.unit.first.name]) for s in built.sources["gfx942"]]
    blob, _ = bundle.concatenate((part, {}) for part in parts)
    assert (described["size"], described["sha256"]) == (len(blob), sha256(blob))
    assert [entry.target for entry in unbundle(parts[0])] == [None, bundle.TargetId("gfx942")]


def test_builds_in_two_folders_are_the_same(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another output folder, another cache, another folder of headers, other hashes of nothing."""
    workshop = make_workshop(tmp_path / "elsewhere", monkeypatch)
    (made,) = workshop.build(built.sources["gfx942"], "other", jobs=1)
    first = built.libraries["gfx942"]
    assert made.compiled == 2
    assert made.library.name == first.library.name
    assert made.library.read_bytes() == first.library.read_bytes()
    assert made.manifest.read_bytes() == first.manifest.read_bytes()


def test_second_build_does_nothing(workshop: Workshop, linked: list[str]) -> None:
    sources = [source(tiny_unit())]
    (first,) = workshop.build(sources)
    stamps = [path.stat() for path in (first.library, first.manifest)]
    (second,) = workshop.build(sources)
    assert second == replace(first, compiled=0, unchanged=True)
    assert any(line.startswith("1 unit: 0 in the cache, 1 to compile, ") for line in workshop.lines)
    assert "gfx942: linking 1 code object" in workshop.lines
    assert f"gfx942: built, 1 unit compiled: {first.library}" in workshop.lines
    assert [path.stat().st_mtime_ns for path in (first.library, first.manifest)] == [s.st_mtime_ns for s in stamps]
    assert linked == ["gfx942"]
    assert "up to date" in workshop.lines[-1]


@pytest.mark.parametrize("damage", ["library changed", "library gone", "manifest changed", "manifest gone", "all gone"])
def test_damaged_folder_is_restored_from_the_cache(workshop: Workshop, linked: list[str], damage: str) -> None:
    sources = [source(tiny_unit())]
    (first,) = workshop.build(sources)
    whole = (first.library.read_bytes(), first.manifest.read_bytes())
    if damage == "library changed":
        first.library.write_bytes(whole[0][:-1])
    if damage == "manifest changed":
        first.manifest.write_text("{}")
    if damage in ("library gone", "all gone"):
        first.library.unlink()
    if damage in ("manifest gone", "all gone"):
        first.manifest.unlink()
    (second,) = workshop.build(sources)
    assert second == replace(first, compiled=0)
    assert (second.library.read_bytes(), second.manifest.read_bytes()) == whole
    assert linked == ["gfx942"]


def test_changed_unit_alone_is_compiled(workshop: Workshop, linked: list[str]) -> None:
    units = [tiny_unit(64), tiny_unit(128)]
    (first,) = workshop.build([source(unit) for unit in units])
    changed = source(units[1], tiny_text(units[1], BODY.replace("TINY", "2.0f")))
    (second,) = workshop.build([source(units[0]), changed])
    assert (first.compiled, second.compiled) == (2, 1)
    assert second.library != first.library
    assert names(second.library.parent) == sorted([".lock", "manifest.json", second.library.name])
    assert [r["unit"] for r in read(second.manifest)["variants"][::2]] == [units[0].name, units[1].name]


def test_changed_header_is_noticed(workshop: Workshop, linked: list[str]) -> None:
    unit = tiny_unit()
    (first,) = workshop.build([source(unit)])
    (workshop.tools.include / "tiny.h").write_text("#define TINY 3.0f\n")
    (second,) = workshop.build([source(unit, header="changed")])
    assert second.compiled == 1
    assert second.library != first.library


def test_foreign_files_in_the_folder_are_left_alone(workshop: Workshop, linked: list[str]) -> None:
    folder = workshop.folder / "out" / "gfx942"
    folder.mkdir(parents=True)
    for name in ("liboctave_gfx942-old.so", "liboctave_gfx1100-old.so", "notes.txt", ".a.0123.tmp"):
        (folder / name).write_text("")
    (made,) = workshop.build([source(tiny_unit())])
    left = sorted([".lock", "manifest.json", "liboctave_gfx1100-old.so", "notes.txt", made.library.name])
    assert names(folder) == left


def test_several_archs_in_one_command(workshop: Workshop, linked: list[str]) -> None:
    units = [tiny_unit(arch="gfx1100"), tiny_unit(arch="gfx942")]
    made = workshop.build([source(unit) for unit in units])
    assert [library.arch for library in made] == ["gfx1100", "gfx942"]
    assert [names(workshop.folder / "out"), sorted(linked)] == [["gfx1100", "gfx942"]] * 2
    assert any(line.startswith("2 units: 0 in the cache, 2 to compile, ") for line in workshop.lines)
    assert any(line.startswith("[2/2] tiny_h64_portable_") for line in workshop.lines)


def test_tightened_budget_fails_a_warm_build(workshop: Workshop, linked: list[str]) -> None:
    (first,) = workshop.build([source(tiny_unit())])
    tight = tiny_unit(budget=replace(BUDGET, vgprs=1, sgprs=1))
    with pytest.raises(OctaveError, match="4 problems") as caught:
        workshop.build([source(tight)])
    for variant in tight.variants:
        for field in ("vgprs", "sgprs"):
            assert f"{variant.name}: {field} is " in caught.value.what
    assert "at most 1 allowed (tiny.toml)" in caught.value.what
    folder = first.library.parent
    assert names(folder / "failed") == [f"{tight.name}.hip", f"{tight.name}.hsaco"]
    resources.read((folder / "failed" / f"{tight.name}.hsaco").read_bytes(), "kept")
    assert first.library.exists()  # the last good build stays in place
    workshop.build([source(tiny_unit())])
    assert first.library.exists()


def test_arch_without_problems_is_built_beside_one_with(workshop: Workshop, linked: list[str]) -> None:
    tight = tiny_unit(arch="gfx1100", budget=replace(BUDGET, vgprs=1))
    with pytest.raises(OctaveError, match="gfx1100: vgprs"):
        workshop.build([source(tight), source(tiny_unit())], keep_going=True)
    assert linked == ["gfx942"]
    assert "manifest.json" in names(workshop.folder / "out" / "gfx942")
    assert names(workshop.folder / "out" / "gfx1100") == [".lock", "failed"]


def test_failed_compile_is_reported_with_all_that_helps(workshop: Workshop, linked: list[str]) -> None:
    good, bad = tiny_unit(64), tiny_unit(128)
    with pytest.raises(OctaveError, match="1 problem:") as caught:
        workshop.build([source(good), source(bad, tiny_text(bad, BAD))], jobs=1)
    failed = workshop.folder / "out" / "gfx942" / "failed"
    first, log, reproduce = (line.strip() for line in caught.value.what.splitlines()[1:4])
    assert first.startswith(f"{bad.name}: {bad.name}.hip:6:")
    assert "error: use of undeclared identifier 'scael'" in first
    assert log == f"log: {failed / bad.name}.log"
    assert "errors generated" in (failed / f"{bad.name}.log").read_text()
    assert (failed / f"{bad.name}.hip").read_text() == tiny_text(bad, BAD)
    again = subprocess.run(reproduce.removeprefix("reproduce: "), shell=True, capture_output=True, text=True)
    assert again.returncode == 1
    assert again.stderr == (failed / f"{bad.name}.log").read_text()
    assert linked == []
    assert not (failed.parent / "manifest.json").exists()

    (failed / f"{bad.name}.hip").write_text(tiny_text(bad))
    mended = subprocess.run(reproduce.removeprefix("reproduce: "), shell=True, capture_output=True, text=True)
    assert (mended.returncode, mended.stderr) == (0, "")
    (made,) = workshop.build([source(good), source(bad)])
    assert made.compiled == 1  # the unit that compiled was kept
    assert not failed.exists()


def test_keep_going_reports_every_failure(workshop: Workshop, linked: list[str]) -> None:
    units = [tiny_unit(64), tiny_unit(128), tiny_unit(256), tiny_unit(64, "gfx1100")]
    bodies = [BAD, BODY, BAD, BODY]
    sources = [source(unit, tiny_text(unit, body)) for unit, body in zip(units, bodies, strict=True)]
    with pytest.raises(OctaveError, match="2 problems") as caught:
        workshop.build(sources, keep_going=True, jobs=1)
    for unit, body in zip(units, bodies, strict=True):
        assert (f"{unit.name}.hip:" in caught.value.what) == (body == BAD)
    assert linked == ["gfx1100"]
    sources = [source(unit) for unit in units]
    assert [made.compiled for made in workshop.build(sources)] == [0, 2]


def test_killed_compiler_is_told_as_such(workshop: Workshop) -> None:
    killed = replace(workshop.tools.device, command=("sh", "-c", "kill -9 $$"), identity="killed")
    workshop.tools = replace(workshop.tools, device=killed)
    with pytest.raises(OctaveError, match="killed by signal 9"):
        workshop.build([source(tiny_unit())])


def test_missing_symbol_is_an_error(workshop: Workshop, linked: list[str]) -> None:
    unit = tiny_unit()
    text = tiny_text(replace(unit, variants=unit.variants[:1]))
    with pytest.raises(OctaveError, match=f"{unit.variants[1].name}: the code object has no such symbol"):
        workshop.build([source(unit, text)])
    assert linked == []


@pytest.mark.parametrize("place", ["under a file", "/proc/octave"])
def test_unwritable_output_is_noticed_before_compiling(workshop: Workshop, place: str) -> None:
    (workshop.folder / "file").write_text("")
    out = workshop.folder / "file" / "out" if place == "under a file" else Path(place)
    with pytest.raises(OctaveError, match="the output folder cannot be written") as caught:
        workshop.build([source(tiny_unit())], out)
    assert "--out" in str(caught.value.hint)
    assert workshop.lines == []


@pytest.mark.parametrize("place", ["file/cache", "/proc/octave"])
def test_unwritable_cache_is_named(workshop: Workshop, place: str) -> None:
    (workshop.folder / "file").write_text("")
    workshop.cache_at(place)
    with pytest.raises(OctaveError, match="the compile cache cannot be") as caught:
        workshop.build([source(tiny_unit())])
    assert "OCTAVE_CACHE_DIR" in str(caught.value.hint)
    assert not list(workshop.folder.rglob("*.so"))


@pytest.mark.parametrize("refused", [".so", "manifest.json"])
def test_full_output_leaves_the_old_build(
    workshop: Workshop, linked: list[str], monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    (first,) = workshop.build([source(tiny_unit())])
    before = {path.name: path.read_bytes() for path in first.library.parent.iterdir()}
    original = files.write_atomically

    def write(path: Path, data: bytes, scratch: Path | None = None) -> None:
        if path.name.endswith(refused):
            raise OSError(28, "No space left on device", str(path))
        original(path, data, scratch)

    monkeypatch.setattr(files, "write_atomically", write)
    other = tiny_unit()
    with pytest.raises(OctaveError, match="No space left") as caught:
        workshop.build([source(other, tiny_text(other, BODY.replace("TINY", "2.0f")))])
    assert "--out" in str(caught.value.hint)
    after = {path.name: path.read_bytes() for path in first.library.parent.iterdir()}
    assert {**after, ".lock": b""} == {**before, ".lock": b""}


def test_damaged_cache_entry_is_made_again(workshop: Workshop, linked: list[str]) -> None:
    cache_folder = workshop.folder / "cache"
    (first,) = workshop.build([source(tiny_unit())])
    for entry in (cache_folder / "entries").rglob("*"):
        if entry.is_file():
            entry.write_bytes(entry.read_bytes()[:-1])
    (second,) = workshop.build([source(tiny_unit())], "other")
    assert second.compiled == 1
    assert second.library.read_bytes() == first.library.read_bytes()
    assert len(names(cache_folder / "quarantine")) >= 2


def test_what_the_key_of_a_code_object_names(workshop: Workshop) -> None:
    def key(made: Source, tools: pipeline.Tools = workshop.tools) -> str:
        return Target(made.unit.first.arch.name, workshop.folder, (made,), tools).jobs[0].key

    unit, other = tiny_unit(), replace(workshop.tools.device, identity="other")
    moved = replace(workshop.tools.device, command=("/elsewhere/zig", "clang"))
    keys = [
        key(source(unit)),
        key(source(unit, tiny_text(unit) + "\n")),
        key(source(unit, header="changed")),
        key(source(tiny_unit(arch="gfx1100"))),
        key(source(unit), replace(workshop.tools, device=other)),
    ]
    assert len(set(keys)) == len(keys)
    assert key(source(tiny_unit(budget=replace(BUDGET, vgprs=1)))) == keys[0]
    assert key(source(unit), replace(workshop.tools, device=moved)) == keys[0]


@pytest.mark.parametrize("jobs", [0, -1])
def test_wrong_number_of_jobs(workshop: Workshop, jobs: int) -> None:
    with pytest.raises(OctaveError, match="at least 1 job") as caught:
        workshop.build([source(tiny_unit())], jobs=jobs)
    assert caught.value.exit_code == WRONG_REQUEST


def test_empty_build(workshop: Workshop) -> None:
    with pytest.raises(OctaveError, match="nothing to build"):
        workshop.build([])


def test_missing_ninja_fails_the_build(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ninja", None)
    with pytest.raises(OctaveError, match="ninja is not installed"):
        workshop.build([source(tiny_unit())])
