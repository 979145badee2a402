"""profile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from octave_gen import paths
from octave_gen.profile.table import COLUMNS

Run = Callable[..., Result]

NAME = "rotate_h256_f16_portable_gfx942"


@pytest.fixture(scope="module")
def tight_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped spec with a counted budget that no rotation can keep."""
    text = (paths.SPECS / "octave_h256r64.toml").read_text()
    tight, count = re.subn(r'(kernel = "rotate", arch = "gfx942".* valu_per_vector = )[0-9.]+', r"\g<1>7.5", text)
    assert count == 1
    file = tmp_path_factory.mktemp("spec") / "tight.toml"
    file.write_text(tight)
    return file


def test_a_table_goes_to_stdout_and_progress_to_stderr(run: Run, built: tuple[Path, Result]) -> None:
    result = run("profile", NAME, "--out", built[0])
    assert result.exit_code == 0
    notes = [line for line in result.stdout.splitlines() if line.startswith("#")]
    assert "not timing" in notes[0]
    heads, row = (line.split() for line in result.stdout.splitlines() if not line.startswith("#"))
    assert heads == ["variant", *COLUMNS]
    assert row[:2] == [NAME, "vector"]
    assert float(row[1 + heads.index("valu") - 1]) > 0
    assert result.stderr.startswith(f"[1/1] {NAME} ")


def test_the_budgets_are_without_a_center(run: Run, built: tuple[Path, Result]) -> None:
    result = run("profile", NAME, "--out", built[0], "--center")
    assert result.exit_code == 0
    assert "# store and rotate subtract a center" in result.stdout
    result = run("profile", NAME, "--out", built[0], "--center", "--budget")
    assert result.exit_code == 2
    assert "leave out --center" in result.stderr


def test_json_and_html_of_a_filter(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("profile", "--filter", "rotate_h256_*_gfx942", "--out", built[0], "--json", "--html", page)
    assert result.exit_code == 0
    read = json.loads(result.stdout)
    assert [variant["name"] for variant in read["variants"]] == [NAME.replace("f16", "bf16"), NAME]
    assert read["variants"][1]["clocks"]["hbm"] == pytest.approx(1024 / read["model"]["archs"]["gfx942"]["hbm_bytes"])
    assert page.read_text().count(f"<h3>{NAME}</h3>") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_the_shipped_budget_of_what_is_executed_holds(run: Run, built: tuple[Path, Result]) -> None:
    result = run("profile", NAME, "--out", built[0], "--budget")
    assert result.exit_code == 0
    assert result.stderr.endswith("1 of 1 kernels have a counted budget, and none exceeds it\n")


def test_budgets_that_are_exceeded_exit_1_with_the_table_shown(
    run: Run, built: tuple[Path, Result], tight_spec: Path
) -> None:
    arguments = ("profile", "--filter", "rotate_*gfx942", "--spec", tight_spec, "--out", built[0])
    assert run(*arguments).exit_code == 0
    result = run(*arguments, "--budget")
    assert result.exit_code == 1
    assert f"\n{NAME} " in result.stdout
    assert "error: 2 counted budgets are exceeded:\n" in result.stderr
    for scalar in ("f16", "bf16"):
        line = next(x for x in result.stderr.splitlines() if x.startswith(f"  {NAME.replace('f16', scalar)}: "))
        assert "valu_per_vector is " in line
        assert line.endswith(", at most 7.5 allowed (tight.toml)")


def test_without_an_arch_what_is_built_is_taken(run: Run, built: tuple[Path, Result]) -> None:
    result = run("profile", "--filter", "rotate_h256_f16_*", "--out", built[0], "--json")
    assert result.exit_code == 0
    assert [variant["name"] for variant in json.loads(result.stdout)["variants"]] == [NAME]
    other = run("profile", "--filter", "rotate_h256_f16_*gfx1100", "--out", built[0])
    assert (other.exit_code, other.stdout) == (2, "")
    assert "octave-gen build --arch gfx1100" in other.stderr


def test_nothing_built(run: Run, tmp_path: Path) -> None:
    result = run("profile", "--out", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing is built here" in result.stderr


def test_what_is_not_built_exits_2_with_the_command(run: Run, tmp_path: Path) -> None:
    result = run("profile", NAME, "--out", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"1 of 1 kernels are not built, or from other sources: {NAME}" in result.stderr
    assert "octave-gen build --arch gfx942" in result.stderr


def test_an_unknown_variant_exits_2_with_the_reason(run: Run) -> None:
    result = run("profile", "rotate_h256_f32_portable_gfx942")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: there is no variant rotate_h256_f32_portable_gfx942\n  because there is no")
    assert NAME in result.stderr


@pytest.mark.parametrize("option", [("--arch", "gfx942"), ("--filter", "rotate*")])
def test_one_variant_needs_no_filter(option: tuple[str, str], run: Run) -> None:
    result = run("profile", NAME, *option)
    assert result.exit_code == 2
    assert "leave out --arch and --filter" in result.stderr


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("192", "is not two numbers"),
        ("192,384,576", "is not two numbers"),
        ("a,b", "is not two numbers"),
        ("192,-384", "is not two numbers"),
        ("192,1e3", "is not two numbers"),
        ("384,192", "the second more"),
        ("192,192", "the second more"),
        ("15,192", "at least 16"),
    ],
)
def test_wrong_lengths_exit_2(value: str, message: str, run: Run) -> None:
    result = run("profile", NAME, "--tokens", value)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_page_that_cannot_be_written_exits_1(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    result = run("profile", NAME, "--out", built[0], "--html", tmp_path / "none" / "page.html")
    assert result.exit_code == 1
    assert "the page cannot be written" in result.stderr
