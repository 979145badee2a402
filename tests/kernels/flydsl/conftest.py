from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # flydsl_bench
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))  # workbench

from flydsl_bench import FlyBench
from workbench import Workbench

from octave_gen.build.flydsl import tool


@pytest.fixture(scope="session")
def fly_bench(tmp_path_factory: pytest.TempPathFactory) -> FlyBench:
    """Skips where flydsl is not installed, which `make build` installs."""
    if tool.problem() is not None:
        pytest.skip(str(tool.problem()))
    folder = tmp_path_factory.mktemp("flydsl")
    return FlyBench(folder / "flydsl", Workbench.at(folder / "hip"))
