"""Running commands in this process, with a compile cache of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from octave_gen.cli.group import PROGRAM, group

Run = Callable[..., Result]

NAME = "rotate_h256_f16_portable_gfx942"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the compile cache for all commands that these tests run."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "OCTAVE_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def run() -> Run:
    """``run("show", NAME)``: the result with ``exit_code``, ``stdout`` and ``stderr``."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(group, [str(argument) for argument in arguments], prog_name=PROGRAM)

    return run


@pytest.fixture(scope="session")
def built(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The unit of ``NAME`` built for real: its ``--out`` folder, to be read only, and what the build printed."""
    out = tmp_path_factory.mktemp("out")
    return out, run("build", "--filter", NAME, "--out", out)
