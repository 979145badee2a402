"""What FlyDSL does wrong with exit status 0, and what says so here: each is an error, at one place at least."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fly_units import Batch, Shop, Unchecked, fly_unit
from tiny_units import THREADS

from octave_gen import isa
from octave_gen.build import resources
from octave_gen.build.flydsl import protocol, tool
from octave_gen.kernels.base import pack_arguments
from octave_gen.plan import Unit

COUNT = 40
ROOM = 64


def executed(code: bytes, unit: Unit) -> np.ndarray:
    """y of 64 floats, 7 before the launch, of a workgroup that is told that there are 40."""
    variant = unit.variants[1]
    assert variant.shape.scalar == "f16"
    memory, y = isa.Memory(), np.full(ROOM, 7, np.float32)
    x = memory.add("x", np.arange(ROOM, dtype=np.float16).view(np.uint8))
    place = memory.add("y", y.view(np.uint8))
    kernargs = pack_arguments(variant.tier.arguments, {"x": x, "y": place, "count": COUNT, "stride": 1, "scale": 0.5})
    isa.execute(isa.load(code), variant.name, grid=(1, 1, 1), threads=THREADS, kernargs=kernargs, memory=memory)
    return y


def problems(unit: Unit, code: bytes) -> str:
    return "\n".join(resources.gate(unit, code).problems)


def test_a_code_object_of_version_6_is_executed(batch: Batch) -> None:
    y = executed(batch.code("sound"), batch.units["sound"])
    assert (y == np.where(np.arange(ROOM) < COUNT, np.arange(ROOM) / 2, 7)).all()


def test_without_the_lint_all_lanes_would_store(unchecked: Unchecked) -> None:
    unit = fly_unit("drops_return")
    assert problems(unit, unchecked.code(unit)) == ""
    assert (executed(unchecked.code(unit), unit) == np.arange(ROOM) / 2).all()


def test_sound_kernels_pass(batch: Batch) -> None:
    for name in ("sound", "matrix"):
        assert resources.gate(batch.units[name], batch.code(name)).problems == ()


@pytest.mark.parametrize(("name", "place"), [("drops_return", "18 in kernel"), ("drops_return_in_helper", "16 in put")])
def test_a_return_under_control_flow(batch: Batch, name: str, place: str) -> None:
    status, log = batch.failure(name)
    assert status == protocol.FAILED
    assert f"FlyDSL drops `return` under control flow:\n  {name}.py:{place}" in log


def test_lds_over_the_limit(batch: Batch, unchecked: Unchecked) -> None:
    status, log = batch.failure("too_much_lds")
    assert status == protocol.SPOKE
    assert "local memory (131072) exceeds limit (65536)" in log
    unit = batch.units["too_much_lds"]
    said = "lds_bytes is 131072, more than the 65536 that a workgroup of gfx942 can have"
    assert said in problems(unit, unchecked.code(unit))


def test_a_math_function_without_a_libcall(batch: Batch, unchecked: Unchecked) -> None:
    status, log = batch.failure("no_libcall")
    assert status == protocol.SPOKE
    assert "no libcall available for ftanh" in log
    unit = batch.units["no_libcall"]
    assert "its body is empty: the compiler left out what it could not compile" in problems(unit, unchecked.code(unit))


def test_flydsl_says_nothing_by_its_exit_status(unchecked: Unchecked) -> None:
    """The four that compile do so with status 0; the checks are needed."""
    assert unchecked.status == 0
    assert (unchecked.folder / f"{fly_unit('drops_return').name}.hsaco").stat().st_size > 0


def test_an_arch_that_flydsl_takes_for_gfx942(batch: Batch, unchecked: Unchecked) -> None:
    status, log = batch.failure("sound on sm_90")
    assert (status, log) == (
        protocol.FAILED,
        "error: flydsl 0.5.0 is not known to compile for sm_90 (only for gfx942, gfx950, gfx1100)\n",
    )
    known = "known: gfx942, gfx950, gfx1100"
    assert unchecked.raised == {
        "sound_h64_flydsl_gfx950": f"flydsl compiles for gfx942, the unit is for gfx950; {known}",
        "sound_h128_flydsl_sm_90": f"flydsl compiles for gfx942, the unit is for sm_90; {known}",
        "sound_h192_flydsl_gfx1100": f"flydsl compiles for gfx942, the unit is for gfx1100; {known}",
    }


def test_the_child_is_always_told_the_arch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FLYDSL_GPU_ARCH", "HSA_OVERRIDE_GFX_VERSION", "ARCH", "COMPILE_ONLY", "FLYDSL_COMPILE_OPT_LEVEL"):
        monkeypatch.setenv(name, "sm_90")
    made = tool.environment("gfx942", tmp_path)
    assert made["FLYDSL_GPU_ARCH"] == "gfx942"
    assert made["FLYDSL_RUNTIME_ENABLE_CACHE"] == "0"
    assert "sm_90" not in made.values()


def test_a_code_object_of_another_arch(batch: Batch) -> None:
    assert "not for gfx1100" in problems(fly_unit("sound", arch="gfx1100"), batch.code("sound"))


def test_a_matrix_instruction_that_the_chip_lacks(batch: Batch) -> None:
    status, log = batch.failure("matrix on gfx1100")
    assert status == 128 + 6  # SIGABRT, of this unit alone: the others are there
    assert "Cannot select: intrinsic %llvm.amdgcn.mfma.i32.16x16x32.i8" in log
    assert "sound_h64_flydsl_gfx942" in batch.compiled.code_objects


def test_no_linker(flydsl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "write_linker", lambda folder, found: None)
    shop = Shop(tmp_path)
    (failure,) = shop.compile([fly_unit()]).failures
    assert failure.status == protocol.FAILED
    assert "lld" in failure.log


def test_a_mnemonic_that_is_expected(batch: Batch) -> None:
    wanted = (("v_mfma_i32_16x16x32_i8", "v_mfma_i32_16x16x64_i8"),)
    assert problems(fly_unit("matrix", mnemonics=wanted), batch.code("matrix")) == ""
    said = "its body has no v_mfma_i32_16x16x32_i8 or v_mfma_i32_16x16x64_i8"
    assert said in problems(fly_unit("sound", mnemonics=wanted), batch.code("sound"))


def test_spills(batch: Batch) -> None:
    said = problems(batch.units["spills"], batch.code("spills"))
    assert "vgpr_spills is" in said
    assert "scratch_bytes is" in said


@pytest.mark.parametrize("name", ["speaks", "tells"])
def test_anything_that_is_printed(batch: Batch, name: str) -> None:
    """On stderr and on stdout."""
    status, log = batch.failure(name)
    assert status == protocol.SPOKE
    assert log.startswith("warning: half of it was left out\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [("raises", "ValueError: this kernel cannot be traced"), ("other_arguments", "TypeError: too many positional")],
)
def test_an_exception(batch: Batch, name: str, said: str) -> None:
    status, log = batch.failure(name)
    assert status == protocol.FAILED
    assert said in log
