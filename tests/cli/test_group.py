"""The command line as a whole: help, errors, exit codes, start-up, completion."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from octave_gen import __version__, paths
from octave_gen.cli import group as cli
from octave_gen.errors import OctaveError, wrong_request

Run = Callable[..., Result]

START_UP_CPU_SECONDS = 0.3
EMPTY = ("--out", "no-such-folder")
"""Nothing built: what lies in the checkout's own build folder may be of another version."""
LIGHT_COMMANDS = (
    ["--help"],
    ["list-variants", *EMPTY],
    ["list-variants", "--json", *EMPTY],
    ["show", "rotate_h256_f16_portable_gfx942", *EMPTY],
)


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "octave_gen", *arguments]
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent), **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env)


def test_help_names_every_command_and_exit_code(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name in cli.COMMANDS:
        assert f"\n  {name} " in result.output
        assert run(name, "--help").exit_code == 0
    assert "Exit codes: 0 done; 1" in result.output


def test_help_has_a_whole_line_for_every_command(run: Run) -> None:
    lines = run("--help").output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == list(cli.COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("biuld", " (did you mean build?)"),
        ("list", " (did you mean list-variants?)"),
        ("c", " (did you mean check, clean?)"),
        ("quux", ""),
    ],
)
def test_a_command_that_does_not_exist(run: Run, word: str, near: str) -> None:
    result = run(word)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: No such command '{word}'{near}.\n")


def test_every_command_module_is_listed() -> None:
    shared = {"__init__", "group", "options", "standing"}
    modules = {path.stem.replace("_", "-") for path in (paths.PACKAGE / "cli").glob("*.py") if path.stem not in shared}
    assert modules == set(cli.COMMANDS)


def test_version(run: Run) -> None:
    assert run("--version").output == f"octave-gen, version {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [("built",), ("build", "--nope"), ("list-variants", "extra"), ("show",), ("build", "--jobs", "0")]
)
def test_wrong_usage_exits_2(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage: octave-gen" in result.output


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(cli, "import_module", lambda name: SimpleNamespace(command=command))


@pytest.mark.parametrize(
    ("error", "exit_code"), [(OctaveError("it broke", where="here", hint="mend it"), 1), (wrong_request("no such"), 2)]
)
def test_an_error_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, error: OctaveError, exit_code: int
) -> None:
    raising(monkeypatch, error)
    result = CliRunner().invoke(cli.group, ["doctor"])
    assert result.exit_code == exit_code
    assert result.stderr == f"error: {error}\n"
    assert result.stdout == ""


def test_an_interrupt_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    result = CliRunner().invoke(cli.group, ["doctor"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_what_nobody_expected_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ZeroDivisionError())
    assert isinstance(CliRunner().invoke(cli.group, ["doctor"]).exception, ZeroDivisionError)


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m octave_gen list-variants --json {' '.join(EMPTY)} | head -c 100"
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=env)
    assert done.stdout.startswith("[\n  {\n")
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", LIGHT_COMMANDS)
def test_torch_is_not_imported(arguments: list[str]) -> None:
    done = process(*arguments, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "octave_gen.cli.group" in imported
    assert not imported & {"torch", "numpy"}
    if arguments == ["--help"]:
        assert not imported & {"jinja2", "octave_gen.build.pipeline"}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_start_up_is_quick(option: str) -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert process(option).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # processor time: others that run at the same time lengthen it far less than the time on the wall
    assert any(cpu_seconds() < START_UP_CPU_SECONDS for _ in range(10))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The program as it is installed."""
    path = tmp_path / "octave-gen"
    path.write_text(f"#!{sys.executable}\nfrom octave_gen.cli import main\nmain()\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["list-variants", *EMPTY],
        ["show", "rotate_h256_f16_portable_gfx942", "--json", *EMPTY],
    ],
)
def test_output_that_cannot_be_written(script: Path, arguments: list[str]) -> None:
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([script, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: standard output cannot be written: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "generate"])
def test_a_current_folder_that_is_gone(script: Path, tmp_path: Path, command: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    text = f"mkdir gone && cd gone && rmdir ../gone && {script} {command}"
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ("error: the current folder does not exist any more\n  hint: change into one that does\n")


def test_another_error_of_the_system_names_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, PermissionError(13, "Permission denied", "/some/file"))
    result = CliRunner().invoke(cli.group, ["doctor"])
    assert (result.exit_code, result.stderr) == (1, "error: /some/file: Permission denied\n")


def test_completion_script(script: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent), "_OCTAVE_GEN_COMPLETE": "bash_source"}
    done = subprocess.run([script], capture_output=True, text=True, env=env)
    assert done.returncode == 0
    assert "complete -o nosort -F _octave_gen_completion octave-gen" in done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("octave-gen li", ["list-variants"]),
        ("octave-gen build --arch gfx9", ["gfx942", "gfx950"]),
        ("octave-gen list-variants --arch ", ["gfx942", "gfx1100", "gfx950"]),
        (
            "octave-gen show rotate_h256_f16_portable_gfx9",
            [f"rotate_h256_f16_portable_{arch}" for arch in ("gfx942", "gfx950")],
        ),
        ("octave-gen build --compiler cl", ["clang-22"]),
    ],
)
def test_completion(words: str, found: list[str]) -> None:
    done = process(_OCTAVE_GEN_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == found
