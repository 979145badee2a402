"""record: verification.json is whole, checked, merged and worded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from octave_gen import manifest
from octave_gen.errors import OctaveError
from octave_gen.verify import record

ONE, TWO = "1" * 64, "2" * 64


def entry(**changes: Any) -> record.Entry:
    return {
        "status": "passed",
        "level": "full",
        "cases": ["tokens=1"],
        "seed": 4,
        "checks": "0123456789abcdef",
        "executor": {"name": "interpreter", "version": "0.1.0"},
        "merged_by": None,
        "errors": {"output": 0.5},
        "counts": {"codes": 0},
        "failure": None,
        **changes,
    }


def put(folder: Path, new: record.CodeObjects, held: tuple[str, ...] = (ONE, TWO), **more: Any) -> Path:
    return record.update(folder, "gfx942", new, held, timeout=1, progress=print, **more)


def test_no_file_is_nothing_verified(tmp_path: Path) -> None:
    assert record.read(tmp_path) == {}


def test_the_schema_is_one_and_the_files_fit_it(tmp_path: Path) -> None:
    schema = json.loads(record.SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    failed = entry(
        status="failed", failure={"case": "tokens=1", "problems": ["x"]}, merged_by={"name": "r", "sha256": TWO}
    )
    gpu = entry(executor={"name": "gpu", "version": "6", "device": "MI300X", "when": "2025-01-31"})
    path = put(tmp_path, {ONE: {"a": {"interpreter": failed, "gpu": gpu}}})
    loaded = json.loads(path.read_text())
    jsonschema.validate(loaded, schema)
    assert path.read_text() == manifest.dump(loaded)
    assert record.read(tmp_path) == loaded["code_objects"]
    whole = path.read_text()
    for key in entry():
        broken = json.loads(whole)
        del broken["code_objects"][ONE]["a"]["gpu"][key]
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)
        path.write_text(json.dumps(broken))
        with pytest.raises(OctaveError, match=rf"gpu\.{key} is missing"):
            record.read(tmp_path)


def test_what_does_not_fit_is_not_written(tmp_path: Path) -> None:
    put(tmp_path, {ONE: {"a": {"interpreter": entry()}}})
    for wrong in ({"status": "fine"}, {"errors": {"output": "0.5"}}, {"seed": -1}, {"counts": {"codes": 0.5}}):
        with pytest.raises(OctaveError, match="would not fit its schema"):
            put(tmp_path, {ONE: {"a": {"interpreter": entry(**wrong)}}})
    assert record.read(tmp_path) == {ONE: {"a": {"interpreter": entry()}}}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", record.FILE_NAME]


def test_entries_of_others_stay_and_those_of_code_objects_that_are_gone_go(tmp_path: Path) -> None:
    put(tmp_path, {ONE: {"a": {"interpreter": entry(seed=1)}}})
    put(tmp_path, {TWO: {"b": {"gpu": entry()}}, ONE: {"a": {"gpu": entry(seed=2)}}})
    both = {"interpreter": entry(seed=1), "gpu": entry(seed=2)}
    assert record.read(tmp_path) == {ONE: {"a": both}, TWO: {"b": {"gpu": entry()}}}
    put(tmp_path, {TWO: {"b": {"gpu": entry(seed=3)}}}, held=(TWO,))
    assert record.read(tmp_path) == {TWO: {"b": {"gpu": entry(seed=3)}}}


def test_a_known_entry_may_be_preferred(tmp_path: Path) -> None:
    put(tmp_path, {ONE: {"a": {"interpreter": entry(seed=1)}}})
    put(tmp_path, {ONE: {"a": {"interpreter": entry(seed=2)}}}, keep=lambda known, new: known["seed"] < new["seed"])
    assert record.read(tmp_path)[ONE]["a"]["interpreter"]["seed"] == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no JSON"),
        ("[]", "schema version is None"),
        ('{"schema_version": "2.0"}', "schema version is '2.0'; this octave-gen reads 1.x"),
        ('{"schema_version": "1.3"}', "the record is damaged"),
    ],
)
def test_a_file_that_cannot_be_understood(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / record.FILE_NAME).write_text(text)
    with pytest.raises(OctaveError, match=problem) as error:
        record.read(tmp_path)
    assert record.FILE_NAME in str(error.value.where)
    with pytest.raises(OctaveError, match=problem):
        put(tmp_path, {ONE: {"a": {"interpreter": entry()}}})
    assert (tmp_path / record.FILE_NAME).read_text() == text


def test_a_newer_minor_version_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, {ONE: {"a": {"interpreter": entry()}}})
    path.write_text(path.read_text().replace('"schema_version": "1.0"', '"schema_version": "1.7", "more": 1'))
    assert record.read(tmp_path)[ONE]["a"]["interpreter"] == entry()


def test_words() -> None:
    gpu = {"name": "gpu", "version": "6", "device": "MI300X", "when": "2025-01-31"}
    assert record.words({}) == "not verified"
    assert record.words({"interpreter": entry()}) == "interpreted: passed"
    assert record.words({"interpreter": entry(level="quick")}) == "interpreted: passed (quick)"
    assert record.words({"interpreter": entry(status="failed")}) == "interpreted: failed"
    assert (
        record.words({"gpu": entry(executor=gpu), "interpreter": entry()})
        == "interpreted: passed, hardware: passed (MI300X, 2025-01-31)"
    )


def test_entries_belong_to_the_bytes_of_a_code_object() -> None:
    known = {ONE: {"a": {"interpreter": entry()}}}
    assert record.entries_of(known, {"name": "a", "code_object": {"sha256": ONE}}) == {"interpreter": entry()}
    assert record.entries_of(known, {"name": "a", "code_object": {"sha256": TWO}}) == {}
    assert record.entries_of(known, {"name": "b", "code_object": {"sha256": ONE}}) == {}
