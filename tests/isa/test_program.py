"""Blocks and the coverage pass, on this project's own kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Compile, Launcher

from octave_gen import isa
from octave_gen.build.bundle import code_objects
from octave_gen.errors import OctaveError
from octave_gen.isa.control import branch_target
from octave_gen.isa.program import Program, program_of


def test_every_instruction_of_the_kernels_is_covered(arch: str, small_build: Path) -> None:
    for data in set(code_objects(next((small_build / arch).glob("*.so"))).values()):
        assert isa.uncovered(isa.load(data)) == []


def test_blocks_begin_where_branches_lead(arch: str, small_build: Path) -> None:
    code_object = isa.load(sorted(code_objects(next((small_build / arch).glob("*.so"))).values())[0])
    program = program_of(code_object)
    assert program_of(code_object) is program
    targets = {target for one in code_object.instructions.values() if (target := branch_target(one)) is not None}
    assert len(targets) > 10
    for target in targets:
        block = program.block(target)
        assert block.instructions[0].address == target
        assert not targets & {one.address for one in block.instructions[1:]}
        assert len(block.steps) == len(block.step_instructions) <= len(block.instructions)
    with pytest.raises(KeyError):
        program.block(2)


def test_a_chip_without_tables_is_refused(arch: str, small_build: Path) -> None:
    code_object = isa.load(sorted(code_objects(next((small_build / arch).glob("*.so"))).values())[0])
    with pytest.raises(OctaveError, match="gfx1200 has no tables of instructions"):
        Program(replace(code_object, arch="gfx1200"))


def test_a_fault_is_put_to_the_right_instruction(arch: str, compile_kernels: Compile) -> None:
    """Steps that change nothing are left out of a block; the faulting one is still found."""
    text = """
    KERNEL(64) k(const u32* a, const u32* b, u32* out) {
      u32 sum = 0;
      for (int i = 0; i < 8; ++i) sum += a[thread() * 8 + i] * b[thread() + i * 64];
      out[thread()] = sum;
    }
    """
    launch = Launcher(compile_kernels(arch, text))
    for short in (0, 1):
        sizes = [512 - 500 * (short == 0), 512 - 500 * (short == 1)]
        with pytest.raises(OctaveError) as raised:
            launch("k", np.zeros(sizes[0], np.uint32), np.zeros(sizes[1], np.uint32), np.zeros(64, np.uint32))
        assert isinstance(raised.value.where, isa.Place)
        assert raised.value.where.instruction.startswith("global_load")
        assert f"argument {short} (48 bytes" in raised.value.what
