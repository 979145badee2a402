"""The tables as a whole: names, what the kernels need, purity."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from values import OPERATIONS, TABLES, pairs, words

from octave_gen.isa import control, decode, lanes, types
from octave_gen.isa.operands import Chip
from octave_gen.isa.program import compile_instruction, vector_operations

ROOM = Path(types.__file__).parent
EXAMPLES = [
    tuple(line.split(" ", 1))
    for line in (Path(__file__).parent / "kernel_instructions.txt").read_text().splitlines()
    if not line.startswith("#")
]
ENGINE = ("s_load_", "s_buffer_load_", "s_set_gpr_idx_", "v_mfma_", "v_wmma_")
"""Beginnings of what the engine executes without a table."""


def of_the_engine(instruction: decode.Instruction) -> bool:
    name = instruction.base
    if name in control.BUILDERS or name in lanes.BUILDERS or name.startswith(ENGINE):
        return True
    return control.end_of(instruction) is not None


def test_no_instruction_stands_in_two_tables() -> None:
    assert sum(len(table) for table in TABLES) == len(OPERATIONS)
    assert not {*control.BUILDERS, *lanes.BUILDERS} & set(OPERATIONS)


@pytest.mark.parametrize("module", ["scalar", "vector_integer", "vector_float", "convert", "compare", "packed"])
def test_no_name_is_written_twice(module: str) -> None:
    rows = re.findall(r'^ +f?"((?:[sv]_\w+ ?)+)":', (ROOM / f"{module}.py").read_text(), re.MULTILINE)
    names = [name for row in rows for name in row.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("arch", "text"), EXAMPLES, ids=lambda x: x.split()[0])
def test_instructions_of_the_kernels_are_known(arch: str, text: str) -> None:
    instruction = decode.parse(text)
    known = instruction.base in OPERATIONS or instruction.base in vector_operations()
    assert known or of_the_engine(instruction)
    if known:
        chip = Chip(arch == "gfx942", 64 if arch == "gfx942" else 32)
        assert compile_instruction(instruction, chip) is not None


def test_the_examples_cover_both_chips() -> None:
    assert {arch for arch, _ in EXAMPLES} == {"gfx942", "gfx1100"}
    assert sum(decode.parse(text).base in OPERATIONS for _, text in EXAMPLES) > 300


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_operands_stay_as_they_are_and_results_are_typed(name: str) -> None:
    operation = OPERATIONS[name]
    kinds = [*operation.operands]
    if operation.reads_destination:
        assert operation.result is not None
        kinds.append(operation.result)
    values = pairs(kinds, count=40)
    if operation.carry_in or operation.reads_scc:
        values.append(np.random.default_rng(0).random(values[-1].shape[:2]) < 0.5)
    before = [words(v).copy() if v.dtype != np.bool_ else v.copy() for v in values]
    for value in values:
        value.flags.writeable = False
    options = {"signed": (True, False)} if operation.sign_flags else {}
    with np.errstate(all="ignore"):
        result = operation.function(*values, **options)
    for value, bits in zip(values, before, strict=True):
        assert ((words(value) if value.dtype != np.bool_ else value) == bits).all()
    two = operation.carry_out or (operation.scc == "returned" and operation.result is not None)
    value, mask = result if two else (result, result)
    if two or operation.result is None:
        assert mask.dtype == np.bool_
        assert mask.shape == values[0].shape[:2]
    if operation.result is not None:
        kind = operation.result
        assert value.dtype == kind.dtype
        assert value.shape == (*values[0].shape[:2], *((2,) if kind.elements == 2 else ()))
