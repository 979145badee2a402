"""show."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from octave_gen import manifest, paths

Run = Callable[..., Result]

NAME = "rotate_h256_f16_portable_gfx942"
DECODE = "decode_octave_k3v3_h256r64_g6_q4_f16_portable_gfx942"


def test_everything_known_of_what_is_not_built(run: Run, tmp_path: Path) -> None:
    result = run("show", DECODE, "--out", tmp_path)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == DECODE
    facts = dict(line.split(None, 1) for line in lines[1:] if len(line.split()) > 1)
    assert (facts["slot_bytes"], facts["gqa_group"], facts["query_dtype"]) == ("216", "6", "fp16")
    assert facts["evidence"] == "executed and checked in an interpreter"
    assert facts["grid"] == "ceil(queries / 4) x kv_heads x kv_splits"
    assert facts["workgroup"] == "256 threads, waves of 64"
    assert facts["source"].startswith("gfx942/decode_octave_k3v3_h256r64_g6_q4_portable_gfx942.hip sha256 ")
    build = f"octave-gen build --arch gfx942 --out {tmp_path}"
    assert facts["built"] == f"no: no library in {tmp_path / 'gfx942'} holds it; to build it: {build}"
    assert any(line.split() == ["156", "4", "float", "sm_scale", "(by_value)"] for line in lines)
    assert [line.split()[-1] for line in lines if line.split()[0] == "vgprs"] == ["-"]


def test_a_variant_of_a_chip_on_request(run: Run, tmp_path: Path) -> None:
    result = run("show", DECODE.replace("gfx942", "gfx950"), "--out", tmp_path)
    assert result.exit_code == 0
    assert "executed and checked in an interpreter; built with --allow-unvalidated only" in result.stdout
    assert "octave-gen build --arch gfx950 --allow-unvalidated" in result.stdout


def test_what_is_built_is_told_too(run: Run, built: tuple[Path, Result]) -> None:
    made = manifest.read(built[0] / "gfx942" / "manifest.json")
    record = next(record for record in made["variants"] if record["name"] == NAME)
    result = run("show", NAME, "--out", built[0])
    assert record["code_object"]["sha256"] in result.stdout
    assert made["library"]["file"] in result.stdout
    vgprs = next(line.split() for line in result.stdout.splitlines() if line.split()[0] == "vgprs")
    assert vgprs == ["vgprs", "<=", str(record["budget"]["vgprs"]), str(record["resources"]["vgprs"])]
    occupancy = next(line.split() for line in result.stdout.splitlines() if line.split()[0] == "occupancy")
    assert occupancy[1] == ">="


def test_json_of_what_is_built(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    made = manifest.read(built[0] / "gfx942" / "manifest.json")
    record = next(record for record in made["variants"] if record["name"] == NAME)
    known = json.loads(run("show", NAME, "--out", built[0], "--json").stdout)
    whole = {key: made[key] for key in ("bundle", "compiler", "host", "library", "torch")}
    assert known == {**record, **whole}
    unbuilt = json.loads(run("show", NAME, "--out", tmp_path, "--json").stdout)
    of_the_build = ("code_object", "resources", "wide_resources")
    assert unbuilt == {key: value for key, value in record.items() if key not in of_the_build}


def test_a_library_of_other_sources_is_not_this_one(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    made = manifest.read(built[0] / "gfx942" / "manifest.json")
    for record in made["variants"]:
        record["source"]["sha256"] = "0" * 64
    shutil.copytree(built[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / "gfx942" / "manifest.json").write_text(manifest.dump(made))
    result = run("show", NAME, "--out", tmp_path)
    assert result.exit_code == 0
    assert f"  built        stale: {tmp_path / 'gfx942'} holds another kernel of that name" in result.stdout


def test_the_build_that_is_named_has_the_specs(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "my model.toml"
    shutil.copy(next(paths.SPECS.glob("*h256*.toml")), mine)
    result = run("show", NAME, "--spec", mine, "--out", tmp_path)
    build = f"octave-gen build --arch gfx942 --spec '{mine}' --out {tmp_path}\n"
    assert f"; to build it: {build}" in result.stdout


def test_a_damaged_manifest(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gfx942").mkdir()
    (tmp_path / "gfx942" / "manifest.json").write_text('{"schema_version": "2.0"}')
    result = run("show", NAME, "--out", tmp_path)
    assert result.exit_code == 1
    assert "schema version is 2.0" in result.stderr


@pytest.mark.parametrize(
    ("name", "because", "nearest"),
    [
        (DECODE.replace("g6", "g5"), "gqa group 5, and the specs have 1, 2, 3, 4, 6, 8, 16", DECODE),
        (DECODE.replace("portable", "scalar"), "decode has no tier 'scalar'", DECODE),
        (DECODE.replace("gfx942", "gfx90a"), "gfx90a is not supported: CDNA2", DECODE),
        (DECODE.replace("h256r64", "h256r256"), "full rotary", DECODE),
        (DECODE.replace("_f16", ""), "names a source file", DECODE),
        ("decode", "no variant name", "decode_"),
    ],
)
def test_why_not_and_what_is_nearest(run: Run, name: str, because: str, nearest: str) -> None:
    result = run("show", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: there is no variant {name}" in result.stderr
    assert because in result.stderr
    assert f"\n    {nearest}" in result.stderr
    miss = json.loads(run("show", name, "--json").stdout)
    assert miss["name"] == name
    assert because in "; ".join(miss["reasons"])
    assert any(found.startswith(nearest) for found in miss["nearest"])
