"""list-variants."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from octave_gen import manifest, paths, plan, spec
from octave_gen.build import drift
from octave_gen.kernels import KINDS

Run = Callable[..., Result]

NAME = "rotate_h256_f16_portable_gfx942"
EMPTY = ("--out", "no-such-folder")
"""Nothing built: what lies in the checkout's own build folder may be of another version."""


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()]


def test_every_variant_has_one_line(run: Run) -> None:
    result = run("list-variants", *EMPTY)
    planned = plan.variants(spec.shipped())
    assert names(result.stdout) == [variant.name for variant in planned]
    assert result.stderr == f"{len(planned)} variants\n"


def test_a_chip_on_request_is_listed_when_it_is_named(run: Run) -> None:
    result = run("list-variants", "--arch", "gfx950", "--filter", "rotate_h256_*", *EMPTY)
    assert names(result.stdout) == ["rotate_h256_bf16_portable_gfx950", "rotate_h256_f16_portable_gfx950"]
    assert "evidence=interpreted" in result.stdout


def test_a_line_says_what_is_known_and_built(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    line = next(x for x in run("list-variants", "--out", built[0]).stdout.splitlines() if x.startswith(NAME))
    assert line.split() == [NAME, "slot=-", "evidence=interpreted", "built=yes", "not", "verified"]
    name = "decode_octave_k3v4_h256r64_g6_q1_f16_portable_*942"
    decode = run("list-variants", "--out", built[0], "--filter", name).stdout
    assert decode.split()[1:] == ["slot=248", "evidence=interpreted", "built=no"]
    assert "built=yes" not in run("list-variants", "--out", tmp_path).stdout


def copy_of(built: tuple[Path, Result], folder: Path) -> Path:
    shutil.copytree(built[0], folder / "out")
    return folder / "out"


def states(run: Run, out: Path) -> tuple[str, str, str, str]:
    """``built=`` of NAME in the lines and in the JSON, the word that show leads its answer with, and stderr."""
    text = run("list-variants", "--out", out, "--filter", NAME)
    (line,) = text.stdout.splitlines()
    (record,) = json.loads(run("list-variants", "--out", out, "--filter", NAME, "--json").stdout)
    shown = run("show", NAME, "--out", out).stdout
    said = re.search("^  built +([a-z ]+): ", shown, re.MULTILINE)
    return line.partition("built=")[2].split()[0], record["built"], said[1] if said else "yes", text.stderr


def test_a_library_of_today(run: Run, built: tuple[Path, Result]) -> None:
    assert states(run, built[0]) == ("yes", "yes", "yes", "1 variant\n")
    spec_file = next(paths.SPECS.glob("*h256*.toml"))
    alone = run("list-variants", "--out", built[0], "--filter", NAME, "--spec", spec_file)
    assert "built=yes" in alone.stdout


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped"])
def test_a_library_that_cannot_be_loaded_is_not_built(
    run: Run, built: tuple[Path, Result], tmp_path: Path, damage: str
) -> None:
    out = copy_of(built, tmp_path)
    (library,) = (out / "gfx942").glob("*.so")
    data = bytearray(library.read_bytes())
    if damage == "missing":
        library.unlink()
    else:
        data[-1] ^= 1
        library.write_bytes(data if damage == "flipped" else data[:-1])
    *words, stderr = states(run, out)
    assert words == ["no", "no", "not usable"]
    assert stderr.startswith(f"not usable: {library}: ")
    assert stderr.endswith("\n1 variant\n")


def test_a_library_of_other_templates_is_stale(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    out = copy_of(built, tmp_path)
    path = out / "gfx942" / "manifest.json"
    made = manifest.read(path)
    for record in made["variants"]:
        record["templates"][0]["sha256"] = "0" * 64
    path.write_text(manifest.dump(made))
    assert states(run, out) == ("stale", "stale", "stale", "1 variant\n")


@pytest.mark.parametrize("command", [["list-variants"], ["list-variants", "--json"], ["show", NAME]])
@pytest.mark.parametrize("wrong", ["generated", "gfx1100", "deep"])
def test_a_manifest_of_something_else(
    run: Run, built: tuple[Path, Result], tmp_path: Path, command: list[str], wrong: str
) -> None:
    out = copy_of(built, tmp_path)
    path = out / "gfx942" / "manifest.json"
    made = manifest.read(path)
    if wrong == "deep":
        path.write_text("[" * 100_000)
    else:
        path.write_text(manifest.dump({**made, **({"stage": wrong} if wrong == "generated" else {"arch": wrong})}))
    result = run(*command, "--out", out)
    assert (result.exit_code, result.stdout) == (1, "")
    what = {"generated": "it describes sources", "gfx1100": "it is of gfx1100", "deep": "nested too deeply"}[wrong]
    assert result.stderr.startswith(f"error: {path}: ")
    assert what in result.stderr


def test_arch_and_filter(run: Run) -> None:
    result = run("list-variants", "--arch", "gfx1100", "--filter", "rotate_*_f16_*", *EMPTY)
    assert names(result.stdout) == [f"rotate_h{head}_f16_portable_gfx1100" for head in (128, 256, 512)]
    two = run("list-variants", "--arch", "gfx1100", "--arch", "gfx942", "--filter", "rotate_h128_f16_*", *EMPTY)
    assert len(names(two.stdout)) == 2


def test_json_is_an_array_of_the_records_of_the_manifest(run: Run, tmp_path: Path) -> None:
    result = run("list-variants", "--json", "--filter", "r*_h256*_f16_*gfx942", "--out", tmp_path)
    records = json.loads(result.stdout)
    planned = plan.variants(spec.shipped())
    units = plan.units(variant for variant in planned if variant.kind.name != "decode")
    expected = json.loads(drift.expected(units, lambda unit: "")["manifest.json"])["variants"]
    chosen = {variant.name for variant in plan.select(planned, "r*_h256*_f16_*gfx942")}
    assert records == [{**record, "built": "no"} for record in expected if record["name"] in chosen]
    assert result.stdout == manifest.dump(records)


def test_json_has_the_order_of_the_lines(run: Run) -> None:
    """Also where the variants of a unit are no neighbours: names sort by query dtype before they do by tier."""
    choice = ("list-variants", "--filter", "decode_octave_k3v4_h128r64_g6_*_gfx942", *EMPTY)
    lines = names(run(*choice).stdout)
    assert [name.split("_")[-3:-1] for name in lines[:3]] == [["bf16", tier] for tier in ("flydsl", "mfma", "portable")]
    assert [record["name"] for record in json.loads(run(*choice, "--json").stdout)] == lines


def test_a_filter_without_match_exits_2_with_near_names(run: Run) -> None:
    for more in ([], ["--json"]):
        result = run("list-variants", "--filter", "rotat_h256_f16_portable_gfx942", *more)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"did you mean {NAME}" in result.stderr


def test_a_damaged_manifest_is_not_taken_for_nothing_built(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gfx942").mkdir()
    (tmp_path / "gfx942" / "manifest.json").write_text("{")
    result = run("list-variants", "--out", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no JSON" in result.stderr


OWN_SPEC = """
edition = 1
family = "octave"
cache_dtypes = ["octave_k3v3"]
encoders = ["plain"]
head_size = 256
rotary_dims = 64
gqa_groups = [5]
query_groups = [1]
query_dtypes = ["fp16"]
archs = ["gfx942"]
"""
BUDGET = """
[[budget]]
kernel = "{kernel}"
arch = "gfx942"
vgprs = 256
agprs = 0
sgprs = 102
lds_bytes = 65536
occupancy = 1
"""


@pytest.fixture
def own_spec(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(OWN_SPEC + "".join(BUDGET.format(kernel=kernel) for kernel in KINDS))
    return path


def test_a_spec_of_ones_own_takes_the_place_of_the_shipped_ones(run: Run, own_spec: Path) -> None:
    records = json.loads(run("list-variants", "--spec", own_spec, "--json", *EMPTY).stdout)
    assert [record["name"] for record in records if record["tier"] == "portable"] == [
        "store_octave_k3v3_h256r64_plain_f16_portable_gfx942",
        NAME,
        "decode_octave_k3v3_h256r64_g5_q1_f16_portable_gfx942",
        "reduce_h256_f16_portable_gfx942",
    ]
    assert {tuple(record["specs"]) for record in records} == {("mine.toml",)}
    two = run(
        "list-variants", "--spec", own_spec, "--spec", next(paths.SPECS.glob("*h128*.toml")), "--arch", "gfx942", *EMPTY
    )
    assert {name.split("_h")[1][:3] for name in names(two.stdout)} == {"128", "256"}


def test_a_broken_spec_exits_2(run: Run, own_spec: Path) -> None:
    own_spec.write_text(own_spec.read_text().replace("head_size = 256", "head_size = 100"))
    result = run("list-variants", "--spec", own_spec, *EMPTY)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "head_size" in result.stderr
