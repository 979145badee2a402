"""docs/flydsl.md: its example, its ways to look inside, and what it says that no check sees."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fly_units import KERNELS, Shop, fly_unit
from tiny_units import BUDGET

from octave_gen import isa, paths
from octave_gen.build import resources
from octave_gen.build.flydsl import tool
from octave_gen.kernels.base import pack_arguments
from octave_gen.plan import Unit

DOCS = (paths.PACKAGE.parent / "docs" / "flydsl.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
MFMA = (("v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x16_bf16"),)
GRAM = fly_unit("gram", budget=replace(BUDGET, lds_bytes=4096), mnemonics=MFMA, threads=256)
LOSES_STATE = fly_unit("loses_state")


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    if tool.problem() is not None:
        pytest.skip(str(tool.problem()))
    compiled = Shop(tmp_path_factory.mktemp("docs")).compile([GRAM, LOSES_STATE])
    assert compiled.failures == ()
    return dict(compiled.code_objects)


def executed(unit: Unit, code: bytes, x: np.ndarray, count: int) -> np.ndarray:
    """y of 256 floats, 7 before the launch; x: fp16 [16, stride]."""
    variant = next(variant for variant in unit.variants if variant.shape.scalar == "f16")
    memory, y = isa.Memory(), np.full(256, 7, np.float32)
    places = {"x": memory.add("x", x.reshape(-1).view(np.uint8)), "y": memory.add("y", y.view(np.uint8))}
    scalars = {"count": count, "stride": x.shape[1], "scale": 0.5}
    kernargs = pack_arguments(variant.tier.arguments, {**places, **scalars})
    threads = variant.geometry.threads
    isa.execute(isa.load(code), variant.name, grid=(1, 1, 1), threads=threads, kernargs=kernargs, memory=memory)
    return y


def test_the_example_is_the_kernel_that_is_tested() -> None:
    assert (KERNELS / "gram.py").read_text() in EXAMPLES


@pytest.mark.parametrize("count", [0, 4, 16, 60, 64, 100, 256])
def test_the_example_computes_what_it_says(codes: dict[str, bytes], count: int) -> None:
    """Columns behind ``count`` are NaN."""
    assert resources.gate(GRAM, codes[GRAM.name]).problems == ()
    x = np.full((16, 260), np.nan, np.float16)
    x[:, :count] = np.random.default_rng(count).integers(-8, 8, (16, count))
    exact = x[:, :count].astype(np.float64) @ x[:, :count].T / 2
    assert (executed(GRAM, codes[GRAM.name], x, count) == exact.reshape(-1)).all()


def test_state_that_a_loop_does_not_carry_is_seen_by_comparison_alone(codes: dict[str, bytes]) -> None:
    """3 steps are 1: neither flydsl nor a check of the build says so."""
    assert resources.gate(LOSES_STATE, codes[LOSES_STATE.name]).problems == ()
    y = executed(LOSES_STATE, codes[LOSES_STATE.name], np.zeros((16, 4), np.float16), 3)
    assert (y[:64] == 1).all()


def test_the_stages_of_a_kernel(flydsl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = (example for example in EXAMPLES if "FLYDSL_DUMP_IR" in example)
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    stages = {path.name for path in Path("stages/launcher").iterdir()}
    assert {"00_origin.mlir", "21_llvm_ir.ll", "22_final_isa.s"} <= stages
    assert all(name in DOCS for name in ("00_origin.mlir", "21_llvm_ir.ll", "22_final_isa.s"))
    assert "v_mfma_i32_16x16x32_i8" in Path("stages/launcher/22_final_isa.s").read_text()


def test_every_test_that_is_named_is_there() -> None:
    there = {
        name for file in KERNELS.parent.glob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    named = set(re.findall(r"`(test_\w+)`", DOCS))
    assert len(named) > 10
    assert named <= there
