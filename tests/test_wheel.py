"""The wheel works away from the checkout: installed into an environment of its own, it builds a user's spec."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from octave_gen import plan, spec
from octave_gen.kernels import KINDS

ROOT = Path(__file__).parents[1]

SPEC = """\
edition = 1
family = "octave"
cache_dtypes = ["octave_k3v3"]
encoders = ["plain"]
head_size = 128
rotary_dims = 64
gqa_groups = [5]
query_groups = [2]
query_dtypes = ["fp16"]
archs = ["gfx1100"]
"""
BUDGET = """
[[budget]]
kernel = "{kernel}"
arch = "gfx1100"
vgprs = 256
agprs = 0
sgprs = 100
lds_bytes = 32768
occupancy = 1
"""
VARIANT = "decode_octave_k3v3_h128r64_g5_q2_f16_portable_gfx1100"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel; dependencies come from this one's."""
    folder = tmp_path_factory.mktemp("wheel")
    run = [sys.executable, "-m"]
    subprocess.run(
        [*run, "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT], check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*run, "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    install = ["pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*run, *install], check=True)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    # A folder that a .pth file names is searched, but its own .pth files are not read: the checkout stays out of sight.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (python.parent / "ninja").symlink_to(Path(sysconfig.get_path("scripts")) / "ninja")
    return python


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCTAVE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "mine.toml").write_text(SPEC + "".join(BUDGET.format(kernel=kernel) for kernel in KINDS))
    return tmp_path


def _octave_gen(python: Path, *arguments: str) -> str:
    done = subprocess.run([python, "-m", "octave_gen", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_builds_a_users_spec(python: Path, away: Path) -> None:
    where = subprocess.run(
        [python, "-c", "import octave_gen; print(octave_gen.__file__)"], check=True, capture_output=True, text=True
    ).stdout
    assert Path(where).is_relative_to(python.parents[1])
    library, manifest = _octave_gen(python, "build", "--spec", "mine.toml", "--out", "out").split()
    assert Path(library).stat().st_size > 0
    built = json.loads(Path(manifest).read_text())
    assert VARIANT in [record["name"] for record in built["variants"]]
    choice = ("--spec", "mine.toml", "--filter", "decode_*_portable_*")
    shown = json.loads(_octave_gen(python, "list-variants", *choice, "--json"))
    assert [record["name"] for record in shown] == [VARIANT]


def test_an_installed_wheel_has_the_shipped_specs(python: Path, away: Path) -> None:
    listed = [line.split()[0] for line in _octave_gen(python, "list-variants", "--arch", "gfx942").splitlines()]
    assert listed == [variant.name for variant in plan.variants(spec.shipped(), ["gfx942"])]
