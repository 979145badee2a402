"""verify."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from click.testing import Result

from octave_gen import manifest, paths, plan
from octave_gen.build import pipeline
from octave_gen.spec.model import Spec
from octave_gen.verify import record
from octave_gen.verify.cases import FULL

Run = Callable[..., Result]

ROTATE = "rotate_h128_f16_portable_gfx942"
REDUCE = "reduce_h128_f16_portable_gfx1100"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def out(small_build: Path, tmp_path: Path) -> Path:
    shutil.copytree(small_build, tmp_path / "out")
    return tmp_path / "out"


def test_what_passes(run: Run, out: Path) -> None:
    result = run("verify", "--out", out, "--filter", "r*_f16_*", "--seed", 9, "--jobs", 1)
    assert result.exit_code == 0
    progress = result.stderr.splitlines()
    assert progress[0] == "seed 9"
    assert progress[1].startswith(f"[1/4] {ROTATE} ")
    assert progress[-1] == "4 of 4 variants passed: executed and checked in an interpreter (0.1.0)"
    assert [line.split()[:3] for line in result.stdout.splitlines()] == [
        ["kernel", "variants", "passed"],
        ["rotate", "2", "2"],
        ["reduce", "2", "2"],
    ]
    known = record.read(out / "gfx1100")
    (entries,) = [entries for names in known.values() for name, entries in names.items() if name == REDUCE]
    assert (entries["interpreter"]["seed"], entries["interpreter"]["level"]) == (9, "full")


def test_the_second_time_nothing_is_run(run: Run, out: Path) -> None:
    choice = ("verify", "--out", out, "--filter", ROTATE, "--jobs", 1)
    run(*choice)
    again = run(*choice)
    assert again.exit_code == 0
    assert "1 of 1 passed before and are unchanged; --again runs them too" in again.stderr
    assert "[1/1]" not in again.stderr
    assert "[1/1]" in run(*choice, "--again").stderr


def test_seeds_are_new_unless_given(run: Run, out: Path) -> None:
    choice = ("verify", "--out", out, "--filter", ROTATE, "--quick", "--again", "--jobs", 1)
    seeds = {run(*choice).stderr.splitlines()[0] for _ in range(3)}
    assert len(seeds) > 1
    assert all(line.startswith("seed ") for line in seeds)


def test_json(run: Run, out: Path) -> None:
    result = run("verify", "--out", out, "--arch", "gfx1100", "--filter", "reduce*", "--quick", "--json", "--jobs", 1)
    data = json.loads(result.stdout)
    assert result.stdout == manifest.dump(data)
    assert [(item["name"], item["arch"], item["status"], item["fresh"]) for item in data] == [
        (REDUCE.replace("_f16", "_bf16"), "gfx1100", "passed", True),
        (REDUCE, "gfx1100", "passed", True),
    ]
    assert all(0 < item["errors"]["output, share of the allowance"] <= 1 for item in data)


def test_listings_tell_it(run: Run, built: tuple[Path, Result], tmp_path: Path) -> None:
    shutil.copytree(built[0], tmp_path / "out")
    choice = ("--out", tmp_path / "out")
    name = "rotate_h256_f16_portable_gfx942"

    def listed() -> str:
        return run("list-variants", "--filter", name, *choice).stdout.split("built=")[1].strip()

    assert listed() == "yes  not verified"
    assert run("verify", *choice, "--filter", name, "--quick", "--jobs", 1).exit_code == 0
    assert listed() == "yes  interpreted: passed (quick)"
    assert run("verify", *choice, "--filter", name, "--seed", 3, "--jobs", 1).exit_code == 0
    assert listed() == "yes  interpreted: passed"
    shown = run("show", name, *choice).stdout
    assert "verified     interpreted: passed\n" in shown
    assert f"{len(FULL['rotate'])} cases, seed 3, interpreter 0.1.0" in shown
    known = json.loads(run("show", name, "--json", *choice).stdout)["verification"]
    assert known["interpreter"]["status"] == "passed"
    assert json.loads(run("list-variants", "--filter", name, "--json", *choice).stdout)[0]["verification"] == known
    made = manifest.read(tmp_path / "out" / "gfx942" / "manifest.json")
    for entry in made["variants"]:
        entry["code_object"]["sha256"] = "0" * 64
    (tmp_path / "out" / "gfx942" / "manifest.json").write_text(manifest.dump(made))
    assert listed() == "yes  not verified"


@pytest.fixture
def broken(small_spec: Callable[..., Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build whose rotate kernel leaves the last token alone."""
    templates = tmp_path / "templates"
    shutil.copytree(paths.templates(), templates)
    header = templates / "include" / "octave" / "rotate.h"
    right, wrong = "if (token >= num_tokens) return;", "if (token + 1 >= num_tokens) return;"
    assert right in header.read_text()
    header.write_text(header.read_text().replace(right, wrong))
    monkeypatch.setattr(paths, "templates", lambda: templates)
    planned = plan.select(plan.variants([small_spec(archs=("gfx942",))]), "rotate*")
    pipeline.build(planned, out=tmp_path / "out", progress=lambda line: None)
    return tmp_path / "out"


def test_a_failure_shows_the_smallest_case_and_the_command_that_repeats_it(run: Run, broken: Path) -> None:
    result = run("verify", "--out", broken, "--filter", "*_f16_*", "--seed", 4, "--jobs", 1)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    case = "tokens=1 heads=1 k_layout=0 inverse=0 signs=own memory=dense values=gaussian center=absent"
    assert lines[:2] == [f"FAILED {ROTATE}", f"  case {case}"]
    assert lines[2].startswith("  x: 128 of 128 values are wrong, the first at [0, 0, 0]: ")
    assert lines[4].split()[:1] == ["kernel"]
    assert lines[5].split()[:3] == ["rotate", "1", "0"]
    assert result.stderr.splitlines()[1].endswith("s  FAILED")
    assert result.stderr.splitlines()[-1].startswith("0 of 1 variants passed")
    words = shlex.split(lines[3].removeprefix("  again: "))
    assert words[0] == "octave-gen"
    repeated = run(*words[1:], "--jobs", 1)
    assert repeated.exit_code == 1
    assert repeated.stdout.splitlines()[:4] == lines[:4]
    assert record.words(next(iter(record.read(broken / "gfx942").values()))[ROTATE]) == "interpreted: failed"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--filter", "rotat_h128_f16_portable_gfx942"], 2, f"did you mean {ROTATE}"),
        (["--arch", "gfx906"], 2, "gfx906"),
        (["--filter", "r*", "--case", "tokens=1"], 2, "one kind of kernel"),
        (["--filter", ROTATE, "--case", "token=1"], 2, "did you mean tokens"),
        (["--filter", "prefill_prefix_*_f16_mfma_*", "--case", "block_size=20"], 2, "takes multiples of 16"),
        (["--filter", "reduce_*", "--case", "splits=1025"], 2, "at most 1024"),
        (["--filter", ROTATE, "--seed", "-1"], 2, "--seed"),
        (["--filter", ROTATE, "--jobs", "0"], 2, "--jobs"),
        (["--filter", ROTATE, "--executor", "gpu"], 2, "there is no GPU here"),
        (["--filter", ROTATE, "--executor", "simulator"], 2, "simulator"),
    ],
)
def test_requests_that_cannot_be_met(
    run: Run, small_build: Path, arguments: list[str], code: int, message: str
) -> None:
    result = run("verify", "--out", small_build, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert not list(small_build.rglob(record.FILE_NAME))


def test_the_help_says_which_chips_are_taken(run: Run) -> None:
    text = " ".join(run("verify", "--help").output.split())
    assert "Default: every chip that a library is there for." in text


def test_nothing_built(run: Run, tmp_path: Path) -> None:
    result = run("verify", "--out", tmp_path)
    assert result.exit_code == 2
    assert "nothing is built here" in result.stderr
    one = run("verify", "--out", tmp_path, "--arch", "gfx942")
    assert one.exit_code == 2
    assert f"octave-gen build --arch gfx942 --out {tmp_path}" in one.stderr


def test_a_damaged_library(run: Run, out: Path) -> None:
    library = next((out / "gfx942").glob("*.so"))
    library.write_bytes(library.read_bytes()[:1000])
    result = run("verify", "--out", out, "--arch", "gfx942")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "truncated or replaced" in result.stderr


def test_a_spec_chooses_what_it_asks_for(run: Run, out: Path) -> None:
    shipped = next(paths.SPECS.glob("*h256*.toml"))
    result = run("verify", "--out", out, "--arch", "gfx942", "--spec", shipped, "--filter", "rotate*")
    assert result.exit_code == 2
    assert "not built: rotate_h256_bf16_portable_gfx942, rotate_h256_f16_portable_gfx942" in result.stderr
    other = next(paths.SPECS.glob("*h128*.toml"))
    result = run("verify", "--out", out, "--arch", "gfx942", "--spec", other, "--filter", "rotate*", "--jobs", 1)
    assert result.exit_code == 0
    assert "2 of 2 variants passed" in result.stderr


def test_an_interrupt_is_clean_and_keeps_what_was_done(out: Path) -> None:
    count = sum(len(manifest.read(file)["variants"]) for file in out.glob("*/manifest.json"))
    command = [sys.executable, "-m", "octave_gen", "verify", "--out", str(out), "--jobs", "2"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stderr.readline().startswith("seed ")
            first = process.stderr.readline()
            assert first.startswith(f"[1/{count}] ")
            os.killpg(process.pid, signal.SIGINT)
            rest, output = process.stderr.read(), process.stdout.read()
            assert process.wait(timeout=30) == 130
        finally:
            process.kill()
    assert rest.splitlines()[-1] == "interrupted"
    assert "Traceback" not in rest
    assert output == ""
    recorded = {name for folder in out.iterdir() for names in record.read(folder).values() for name in names}
    assert first.split()[1] in recorded
    deadline = time.monotonic() + 10
    while _group_is_alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _group_is_alive(process.pid)


def _group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
