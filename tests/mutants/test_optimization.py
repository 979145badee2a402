"""The same kernels compiled at every optimisation level pass the same checks: what passes does not hang on -O3."""

from __future__ import annotations

import pytest
from mutants import DECODE_ONE, REDUCE, ROTATE, STORE_K3V3
from workbench import Workbench, check_all

ARCHS = ("gfx942", "gfx1100")


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize("unit", [STORE_K3V3, ROTATE, REDUCE, DECODE_ONE])
@pytest.mark.parametrize("arch", ARCHS)
def test_kernels_pass_at_every_level(bench: Workbench, unit: str, arch: str, level: str) -> None:
    built = bench.build(f"{unit}_{arch}", level=level)
    assert list(check_all(built, bench.merge_for(unit, arch), ("quick",))) == []


@pytest.mark.parametrize("arch", ARCHS)
def test_levels_give_different_code(bench: Workbench, arch: str) -> None:
    unit = f"{ROTATE}_{arch}"
    assert len({bench.build(unit, level=level).code_object for level in ("-O0", "-O1", "-O3")}) == 3
