"""Builds where flydsl is missing, is another one, or does not know the chip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_units
from fly_units import fly_unit
from tiny_units import Workshop, pretended_link, tiny_unit

from octave_gen import paths, plan, spec
from octave_gen.build import link, pipeline, preview
from octave_gen.build.flydsl import left_out, tool
from octave_gen.errors import WORK_FAILED, OctaveError
from octave_gen.isa import disassembly
from octave_gen.plan import Variant

IN_FLYDSL = [variant for name in ("sound", "matrix") for variant in fly_unit(name).variants]
INSTALL = "install it with `pip install 'octave-gen[flydsl]'`"


@pytest.fixture(scope="module")
def rotate() -> list[Variant]:
    return plan.select(plan.variants(spec.shipped(), ["gfx942"]), "rotate_h128_*")


def gone(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tool, "installed", lambda: None)
    return "flydsl is not installed"


def older(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tool, "installed", lambda: "0.4.9")
    return "flydsl 0.4.9 is installed, and the kernels are written for 0.5.0"


def no_disassembler(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tool, "installed", lambda: tool.VERSION)
    monkeypatch.setattr(disassembly, "available", list)
    return "the disassembler that its kernels are checked with is not installed"


Reason = Callable[[pytest.MonkeyPatch], str]
REASONS = pytest.mark.parametrize("reason", [gone, older, no_disassembler])


@REASONS
def test_the_rest_is_built_and_it_is_said(
    reason: Reason, rotate: list[Variant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why, lines = reason(monkeypatch), []
    steps = preview.preview([*IN_FLYDSL, *rotate], out=tmp_path, compiler="ziglang", progress=lines.append)
    assert {step.unit for step in steps} == {variant.unit for variant in rotate}
    shown = ", ".join(variant.name for variant in IN_FLYDSL[:3])
    assert lines == [f"gfx942: left out 4 of {4 + len(rotate)} variants ({shown}, ...): {why}; {INSTALL}"]


@REASONS
def test_a_build_of_nothing_else_fails(reason: Reason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = reason(monkeypatch)
    with pytest.raises(OctaveError) as raised:
        pipeline.build(IN_FLYDSL, out=tmp_path, progress=print)
    assert raised.value.what == f"{why}, and all 4 variants need it"
    assert raised.value.hint == INSTALL
    assert raised.value.exit_code == WORK_FAILED
    assert IN_FLYDSL[0].name in str(raised.value.where)
    assert list(tmp_path.iterdir()) == []


def test_a_chip_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "installed", lambda: tool.VERSION)
    other = list(fly_unit(arch="gfx1201").variants)
    lines: list[str] = []
    assert left_out.without([*IN_FLYDSL, *other], lines.append) == IN_FLYDSL
    (line,) = lines
    assert line.startswith("gfx1201: left out 2 of 6 variants (sound_h64_bf16_flydsl_gfx1201, ")
    assert line.endswith(
        "flydsl 0.5.0 is not known to compile for gfx1201 (only for gfx942, gfx950, gfx1100); "
        "build the other tiers of this chip"
    )


def test_nothing_is_said_where_nothing_is_left_out(rotate: list[Variant], monkeypatch: pytest.MonkeyPatch) -> None:
    gone(monkeypatch)
    assert left_out.without(rotate, pytest.fail) == rotate
    monkeypatch.undo()
    if tool.problem() is None:
        assert left_out.without([*rotate, *IN_FLYDSL], pytest.fail) == [*rotate, *IN_FLYDSL]


def test_what_is_missing_is_not_looked_for_by_importing_it() -> None:
    """Neither to list variants nor to say that flydsl is there."""
    code = (
        "import sys; from octave_gen.build.flydsl import tool; tool.problem()\n"
        "print({'flydsl', 'torch', 'numpy'} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "set()\n"


def test_the_extra_pins_the_version() -> None:
    text = (paths.PACKAGE.parent / "pyproject.toml").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("flydsl = "))
    assert f'"flydsl=={tool.VERSION}"' in line
    assert "rocm-llvm-python==" in line
    assert "[flydsl,verify,test,lint]" in (paths.PACKAGE.parent / "Makefile").read_text()


def test_a_larger_library_is_not_replaced_by_what_is_left(
    rotate: list[Variant], workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the default folder, where a library with kernels in FlyDSL is, and flydsl is no longer installed."""
    monkeypatch.setattr(link, "link", pretended_link(lambda arch: None))
    out = workshop.folder / "out"
    monkeypatch.setattr(paths, "default_out", lambda: out)
    (made,) = workshop.build([tiny_units.source(tiny_unit(head)) for head in (64, 128)])
    assert len(rotate) < made.variants
    before = made.library.read_bytes(), made.manifest.read_bytes()
    gone(monkeypatch)
    lines: list[str] = []
    with pytest.raises(OctaveError, match=f"this build has {len(rotate)} variants, and would replace a library of 4"):
        pipeline.build([*rotate, *IN_FLYDSL], out=out, progress=lines.append)
    assert "left out 4 of " in lines[0]
    assert (made.library.read_bytes(), made.manifest.read_bytes()) == before
