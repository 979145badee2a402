"""build: options, output, and one real build."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from octave_gen import manifest, paths
from octave_gen.build import pipeline, toolchain
from octave_gen.build.locks import Progress
from octave_gen.build.target import BuiltLibrary
from octave_gen.cli.build import COMPILERS
from octave_gen.errors import OctaveError
from octave_gen.plan import Variant

Run = Callable[..., Result]

NAME = "rotate_h256_f16_portable_gfx942"
UNIT = "rotate_h256_portable_gfx942"
SIBLINGS = {NAME, NAME.replace("_f16_", "_bf16_")}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """The calls of the pipeline, which builds nothing."""
    made: list[dict[str, Any]] = []

    def build(planned: list[Variant], *, progress: Progress, **options: Any) -> list[BuiltLibrary]:
        progress("building")
        made.append({"names": {variant.name for variant in planned}, **options})
        return [BuiltLibrary("gfx942", tmp_path / "x.so", tmp_path / "manifest.json", 2, 1, False)]

    monkeypatch.setattr(pipeline, "build", build)
    return made


def test_the_compilers_are_those_that_exist() -> None:
    assert tuple(toolchain.COMPILERS) == COMPILERS


def test_a_build_prints_paths_and_leaves_progress_to_stderr(built: tuple[Path, Result]) -> None:
    out, result = built
    assert result.exit_code == 0
    library, described = map(Path, result.stdout.splitlines())
    assert library.parent == described.parent == out / "gfx942"
    made = manifest.read(described)
    assert {record["name"] for record in made["variants"]} == SIBLINGS
    assert manifest.sha256(library.read_bytes()) == made["library"]["sha256"]
    assert f"[1/1] {UNIT}" in result.stderr


def test_json_summary(run: Run, built: tuple[Path, Result]) -> None:
    out, first = built
    result = run("build", "--filter", NAME, "--out", out, "--json")
    (summary,) = json.loads(result.stdout)
    library = manifest.read(out / "gfx942" / "manifest.json")["library"]
    assert summary == {
        "arch": "gfx942",
        "library": first.stdout.splitlines()[0],
        "manifest": first.stdout.splitlines()[1],
        "variants": 2,
        "compiled": 0,
        "unchanged": True,
        "size": library["size"],
        "sha256": library["sha256"],
        "namespace": library["namespace"],
    }


def test_a_dry_run_says_what_is_there(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    out, _ = built
    here = run("build", "--filter", NAME, "--out", out, "--dry-run")
    assert here.stdout == f"up-to-date {UNIT}\n"
    elsewhere = run("build", "--filter", "rotate_h*_gfx942", "--out", tmp_path / "new", "--dry-run")
    assert elsewhere.stdout == (
        f"compile    rotate_h128_portable_gfx942\ncached     {UNIT}\ncompile    rotate_h512_portable_gfx942\n"
    )
    assert elsewhere.stderr == "1 cached, 2 compile\n"
    assert not (tmp_path / "new").exists()
    as_json = run("build", "--filter", NAME, "--out", tmp_path / "new", "--dry-run", "--json")
    assert json.loads(as_json.stdout) == [{"arch": "gfx942", "unit": UNIT, "action": "cached"}]


def test_options_reach_the_pipeline(run: Run, calls: list[dict[str, Any]], tmp_path: Path) -> None:
    result = run(
        *("build", "--arch", "gfx942", "--filter", NAME, "--out", tmp_path, "--compiler", "clang-22"),
        *("--jobs", "3", "--keep-going"),
    )
    assert result.exit_code == 0
    assert calls == [{"names": SIBLINGS, "out": tmp_path, "compiler": "clang-22", "jobs": 3, "keep_going": True}]
    assert result.stdout == f"{tmp_path / 'x.so'}\n{tmp_path / 'manifest.json'}\n"
    assert result.stderr == "building\n"


def test_defaults(run: Run, calls: list[dict[str, Any]]) -> None:
    assert run("build", "--arch", "gfx942").exit_code == 0
    assert {name.rpartition("_")[2] for name in calls[0].pop("names")} == {"gfx942"}
    root = paths.checkout()
    assert root is not None
    assert calls == [{"out": root / "build", "compiler": "ziglang", "jobs": None, "keep_going": False}]


def test_without_arch_every_arch_of_the_specs_is_built(run: Run, calls: list[dict[str, Any]]) -> None:
    assert run("build").exit_code == 0
    assert {name.rpartition("_")[2] for name in calls[0]["names"]} == {"gfx942", "gfx1100"}


def test_a_chip_on_request_is_built_when_named_and_allowed(run: Run, calls: list[dict[str, Any]]) -> None:
    assert run("build", "--arch", "gfx950", "--allow-unvalidated").exit_code == 0
    assert {name.rpartition("_")[2] for name in calls[0]["names"]} == {"gfx950"}
    assert run("build", "--allow-unvalidated").exit_code == 0
    assert {name.rpartition("_")[2] for name in calls[1]["names"]} == {"gfx942", "gfx1100"}


def test_an_installed_package_builds_into_the_cache(
    run: Run, calls: list[dict[str, Any]], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "checkout", lambda: None)
    assert run("build").exit_code == 0
    assert calls[0]["out"] == cache / "build"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arch", "gfx90a"], "gfx90a is not supported: CDNA2"),
        (["--arch", "gfx943"], "did you mean gfx942, gfx950?"),
        (["--arch", "gfx950"], "kernels for gfx950 are built on request only: no kernel was launched on it"),
        (["--arch", "gfx942", "--arch", "gfx950"], "pass --allow-unvalidated to build them all the same"),
        (["--arch", "gfx950", "--dry-run"], "on request only"),
        (["--filter", "*_gfx950"], "no variant matches"),
        (["--filter", "decoed_*_g6_*"], "no variant matches 'decoed_*_g6_*' (did you mean decode_"),
        (["--spec", "/nowhere/spec.toml"], "/nowhere/spec.toml"),
        (["--compiler", "clang-19"], "'clang-19' is not one of"),
        (["--out", __file__], "is a file"),
    ],
)
def test_wrong_requests_exit_2(run: Run, calls: list[dict[str, Any]], arguments: list[str], message: str) -> None:
    result = run("build", *arguments)
    assert (result.exit_code, result.stdout, calls) == (2, "", [])
    assert message in result.stderr


def test_a_failed_build_exits_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(planned: object, **options: object) -> None:
        raise OctaveError("the build failed with 1 problem:\n  decode: over budget", hint="look")

    monkeypatch.setattr(pipeline, "build", build)
    result = run("build")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: the build failed with 1 problem:\n  decode: over budget\n  hint: look\n"
