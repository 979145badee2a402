"""missing, changed, orphan: how they are found, shown and put right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blank_documents import DOCUMENTS, write_documents

from octave_gen import manifest, paths, plan, spec
from octave_gen.build import drift, files
from octave_gen.build.flydsl import tool, trace, traces
from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS
from octave_gen.spec.model import Budget, BudgetRule, Spec

SMALL = Spec(
    source="small.toml",
    family="octave",
    cache_dtypes=("octave_k3v3",),
    encoders=("plain",),
    head_size=256,
    rotary_dims=64,
    gqa_groups=(6,),
    query_groups=(4,),
    query_dtypes=("fp16", "bf16"),
    archs=("gfx942",),
    budgets=tuple(BudgetRule(kernel, "gfx942", Budget(128, 0, 102, 65536, 2)) for kernel in KINDS),
)
DECODE = "generated/gfx942/decode_octave_k3v3_h256r64_g6_q4_portable_gfx942.hip"
PAGE = "docs/formats/octave.md"


@pytest.fixture(autouse=True)
def not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled here; what flydsl traces is another test's (in_flydsl)."""
    monkeypatch.setattr(tool, "installed", lambda: tool.VERSION)
    monkeypatch.setattr(traces, "traces", lambda units, progress: {u.name: f"{trace.BEGIN}{u.name}\n" for u in units})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A generated checkout of one small spec."""
    monkeypatch.setattr(spec, "shipped", lambda: [SMALL])
    write_documents(tmp_path)
    drift.generate(tmp_path)
    return tmp_path


def words(root: Path) -> list[tuple[str, str]]:
    return [(difference.word, difference.path) for difference in drift.compare(root)]


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_generate_makes_what_compare_expects(root: Path) -> None:
    assert words(root) == []
    units = plan.units(plan.variants([SMALL]))
    sources = {f"generated/{unit.source}" for unit in units}
    assert set(snapshot(root)) == sources | {"generated/manifest.json"} | set(DOCUMENTS)
    assert drift.generate(root) == []


def test_a_fresh_checkout_lacks_everything(root: Path) -> None:
    whole = snapshot(root)
    for path in whole:
        if path not in DOCUMENTS:
            (root / path).unlink()
    write_documents(root)
    found = words(root)
    assert ("missing", DECODE) in found
    assert {path for word, path in found if word == "changed"} == set(DOCUMENTS)
    assert len(found) == len(whole)
    drift.generate(root)
    assert snapshot(root) == whole


def test_the_manifest_describes_the_sources(root: Path) -> None:
    found = manifest.read(root / "generated" / "manifest.json")
    assert found["stage"] == "generated"
    assert {record["name"] for record in found["variants"]} == {v.name for v in plan.variants([SMALL])}
    for record in found["variants"]:
        text, _, _ = (root / "generated" / record["source"]["path"]).read_text().partition(f"\n{trace.BEGIN}")
        assert manifest.sha256(text) == record["source"]["sha256"]
        top = paths.PACKAGE.parent if record["language"] == "flydsl" else paths.templates()
        for file in record["templates"]:
            assert manifest.sha256((top / file["path"]).read_bytes()) == file["sha256"]


def test_nothing_of_the_machine_is_generated(root: Path) -> None:
    for name, data in snapshot(root).items():
        for folder in (str(paths.PACKAGE.parent), str(root), str(Path.home()) + "/"):
            assert folder.encode() not in data, name


def test_generating_twice_gives_the_same_bytes(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write_documents(other)
    drift.generate(other)
    assert snapshot(other) == snapshot(root)


def test_a_changed_file_is_shown_and_put_right(root: Path) -> None:
    text = (root / DECODE).read_text()
    (root / DECODE).write_text(text.replace("kHeadSize = 256", "kHeadSize = 255", 1))
    (difference,) = drift.compare(root)
    assert (difference.word, difference.path) == ("changed", DECODE)
    removed = [line for line in difference.diff.splitlines() if line.startswith("-  ")]
    added = [line for line in difference.diff.splitlines() if line.startswith("+  ")]
    assert [line.partition("kHeadSize")[2] for line in removed] == [" = 255;"]
    assert [line.partition("kHeadSize")[2] for line in added] == [" = 256;"]
    assert drift.generate(root) == [difference]
    assert (root / DECODE).read_text() == text


@pytest.mark.parametrize("damage", [lambda b: b.replace(b"\n", b"\r\n"), lambda b: b[:-1], lambda b: b + b"\n"])
def test_line_ends_count(root: Path, damage: object) -> None:
    data = (root / DECODE).read_bytes()
    (root / DECODE).write_bytes(damage(data))  # type: ignore[operator]
    (difference,) = drift.compare(root)
    assert difference.word == "changed"
    assert difference.diff
    drift.generate(root)
    assert (root / DECODE).read_bytes() == data


def test_the_diff_of_a_long_file_begins_where_it_differs_and_ends(root: Path) -> None:
    path = root / "generated" / "manifest.json"
    lines = path.read_text().splitlines()
    assert len(lines) > 500 + 2 * drift.DIFF_LINES
    path.write_text("\n".join(lines[:500] + [line + " " for line in lines[500:]]) + "\n")
    (difference,) = drift.compare(root)
    head, _, _, *shown, more = difference.diff.splitlines()
    assert head == "--- generated/manifest.json (is), lines from 498"
    assert [line.strip() for line in shown[:4]] == [*(line.strip() for line in lines[497:500]), f"-{lines[500]}"]
    assert len(shown) == 3 + 2 * drift.DIFF_LINES
    assert more == f"... and more of generated/manifest.json from line {501 + drift.DIFF_LINES} on"


def test_bytes_that_are_no_text(root: Path) -> None:
    (root / DECODE).write_bytes(b"\xff\xfe\x00")
    (difference,) = drift.compare(root)
    assert "\\xff\\xfe" in difference.diff
    drift.generate(root)
    assert words(root) == []


def test_a_missing_file(root: Path) -> None:
    (root / DECODE).unlink()
    assert words(root) == [("missing", DECODE)]
    drift.generate(root)
    assert words(root) == []


@pytest.mark.parametrize("path", ["old.hip", "gfx942/.hidden", "gfx900/deep/er/file", "gfx942/x.hip.tmp"])
def test_an_orphan_goes_with_the_folders_it_leaves_empty(root: Path, path: str) -> None:
    whole = snapshot(root)
    orphan = root / "generated" / path
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_text("x")
    assert words(root) == [("orphan", f"generated/{path}")]
    drift.generate(root)
    assert snapshot(root) == whole
    assert sorted(p.name for p in (root / "generated").iterdir()) == ["gfx942", "manifest.json"]


def test_what_a_link_points_to_is_left_alone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious").write_text("x")
    (root / "generated" / "link").symlink_to(elsewhere)
    (root / "generated" / "dangling").symlink_to(elsewhere / "nothing")
    assert words(root) == [("orphan", "generated/dangling"), ("orphan", "generated/link")]
    drift.generate(root)
    assert words(root) == []
    assert (elsewhere / "precious").read_text() == "x"


def test_a_folder_of_sources_that_is_a_link_becomes_a_folder(root: Path) -> None:
    (root / "generated" / "gfx942").rename(root / "moved")
    (root / "generated" / "gfx942").symlink_to(root / "moved")
    drift.generate(root)
    assert not (root / "generated" / "gfx942").is_symlink()
    assert words(root) == []


def test_a_folder_in_the_place_of_a_file(root: Path) -> None:
    (root / DECODE).unlink()
    (root / DECODE).mkdir()
    assert words(root) == [("missing", DECODE)]
    (root / DECODE / "inside").write_text("x")
    assert words(root) == [("missing", DECODE), ("orphan", DECODE + "/inside")]
    drift.generate(root)
    assert words(root) == []


def test_files_outside_generated_are_no_orphans(root: Path) -> None:
    (root / "notes.txt").write_text("x")
    (root / "build").mkdir()
    assert words(root) == []
    drift.generate(root)
    assert (root / "notes.txt").exists()


@pytest.mark.parametrize(("path", "made"), [("README.md", "| decode |"), (PAGE, "V scale, fp16")])
def test_blocks_of_documents_are_checked_and_the_rest_is_the_authors(root: Path, path: str, made: str) -> None:
    text = (root / path).read_text()
    assert made in text
    (root / path).write_text(text.replace(made, "something").replace("# Mine", "# My own\n\nwords"))
    (difference,) = drift.compare(root)
    assert (difference.word, difference.path) == ("changed", path)
    drift.generate(root)
    assert (root / path).read_text() == text.replace("# Mine", "# My own\n\nwords")


@pytest.mark.parametrize("path", ["README.md", PAGE])
@pytest.mark.parametrize("damage", ["marker", "file", "encoding"])
def test_nothing_is_written_when_a_document_has_no_place(root: Path, path: str, damage: str) -> None:
    (root / DECODE).unlink()
    if damage == "marker":
        (root / path).write_text("# Mine\n")
    elif damage == "file":
        (root / path).unlink()
    else:
        (root / path).write_bytes(b"\xff")
    before = snapshot(root)
    for action in (drift.compare, drift.generate):
        with pytest.raises(OctaveError, match=f"^{path}"):
            action(root)
    assert snapshot(root) == before


def test_a_dry_run_touches_nothing(root: Path) -> None:
    (root / DECODE).unlink()
    (root / "generated" / "old.hip").write_text("x")
    (root / "README.md").write_text(DOCUMENTS["README.md"])
    before = snapshot(root)
    found = drift.generate(root, dry_run=True)
    assert [difference.word for difference in found] == ["changed", "missing", "orphan"]
    assert snapshot(root) == before


def test_files_are_replaced_whole_or_not_at_all(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = snapshot(root)
    for path in whole:
        if path.endswith(".hip"):
            (root / path).write_text("stale")
    write, succeeds = files.write_atomically, iter([True])

    def full_disk(path: Path, data: bytes, scratch: Path | None = None) -> None:
        if next(succeeds, False):
            return write(path, data, scratch)
        raise OSError(28, os.strerror(28), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", full_disk)
        with pytest.raises(OctaveError, match="No space left on device") as error:
            drift.generate(root)
    assert drift.FIX in str(error.value)
    assert set(snapshot(root)) == set(whole)
    assert all(data in (b"stale", whole[path]) for path, data in snapshot(root).items())
    drift.generate(root)
    assert snapshot(root) == whole


def test_an_excerpt_is_bounded(root: Path) -> None:
    long = [drift.Difference("changed", f"f{i}", "\n".join(f"{i}.{n}" for n in range(100))) for i in range(9)]
    shown = drift.excerpt([drift.Difference("orphan", "o"), *long], files=2, lines=3).splitlines()
    assert shown == [
        *("0.0", "0.1", "0.2", "... and more of f0"),
        *("1.0", "1.1", "1.2", "... and more of f1"),
        "... 7 more changed files",
    ]
    assert drift.excerpt([drift.Difference("missing", "m")]) == ""


def other_checkout(folder: Path) -> Path:
    (folder / "octave_gen").mkdir(parents=True)
    (folder / "octave_gen" / "paths.py").write_text("")
    (folder / "templates" / "hip").mkdir(parents=True)
    return folder


def test_the_wrong_tree_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = other_checkout(tmp_path / "other")
    monkeypatch.chdir(other / "templates")
    with pytest.raises(OctaveError, match="not this checkout's own") as error:
        drift.own_checkout()
    assert error.value.exit_code == 2
    assert f"run `python -m octave_gen` in {other}" in str(error.value)


def test_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OctaveError, match="not inside a checkout"):
        drift.own_checkout()


def test_the_own_checkout_is_found_from_a_folder_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    root = paths.checkout()
    assert root is not None
    monkeypatch.chdir(root / "templates" / "hip")
    assert drift.own_checkout() == root


@pytest.mark.parametrize("what", ["file", "broken link"])
def test_a_file_in_the_place_of_the_folder_is_named(root: Path, what: str) -> None:
    folder = root / "generated"
    folder.rename(root / "moved")
    if what == "file":
        folder.write_text("mine")
    else:
        folder.symlink_to(root / "nowhere")
    for action in (drift.compare, drift.generate):
        with pytest.raises(OctaveError, match=r"^generated: this is no folder") as caught:
            action(root)
        assert "remove it" in str(caught.value.hint)
    assert folder.is_symlink() == (what == "broken link")
