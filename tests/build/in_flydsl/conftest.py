from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # fly_units

from fly_units import Batch, Shop, Unchecked, fly_unit, job

from octave_gen.build.flydsl import tool


@pytest.fixture
def flydsl() -> None:
    """Skips a test that compiles where flydsl is not installed, which `make` installs."""
    if tool.problem() is not None:
        pytest.skip(str(tool.problem()))


BATCH = (
    *("sound", "drops_return", "drops_return_in_helper", "too_much_lds", "no_libcall"),
    *("matrix", "spills", "raises", "speaks", "tells", "leaves", "other_arguments"),
)


@pytest.fixture(scope="session")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """Every kernel of the folder that ends, compiled once for all tests."""
    if tool.problem() is not None:
        pytest.skip(str(tool.problem()))
    units = {name: fly_unit(name) for name in BATCH}
    units |= {
        f"{name} on {arch}": fly_unit(name, arch=arch) for name, arch in (("matrix", "gfx1100"), ("sound", "sm_90"))
    }
    shop = Shop(tmp_path_factory.mktemp("batch"))
    return Batch(units, shop.compile(list(units.values())), shop)


UNCHECKED = """
import json, os, sys
from octave_gen.build.flydsl import unit
for job in json.load(open(sys.argv[1])):
    os.environ["FLYDSL_GPU_ARCH"] = job.pop("told")
    try:
        unit.compile_unit(job)
    except Exception as error:
        print(json.dumps([job["name"], str(error)]))
"""


@pytest.fixture(scope="session")
def unchecked(tmp_path_factory: pytest.TempPathFactory) -> Unchecked:
    if tool.problem() is not None:
        pytest.skip(str(tool.problem()))
    folder = tmp_path_factory.mktemp("unchecked")
    tool.write_linker(folder, tool.find())
    jobs = [
        {**json.loads(job(fly_unit(name)).request), "told": "gfx942"}
        for name in ("too_much_lds", "no_libcall", "drops_return")
    ]
    jobs += [
        {**json.loads(job(fly_unit("sound", head, arch)).request), "told": told}
        for head, arch, told in ((64, "gfx950", "sm_90"), (128, "sm_90", "sm_90"), (192, "gfx1100", "gfx942"))
    ]
    (folder / "jobs.json").write_text(json.dumps(jobs))
    done = subprocess.run(
        [sys.executable, "-c", UNCHECKED, "jobs.json"],
        cwd=folder,
        env=tool.environment("gfx942", folder),
        capture_output=True,
        text=True,
        check=False,
    )
    raised = dict(json.loads(line) for line in done.stdout.splitlines())
    return Unchecked(folder, done.stderr, done.returncode, raised)
