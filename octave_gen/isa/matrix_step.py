"""MFMA and WMMA as steps: registers in and out of :mod:`octave_gen.isa.matrix`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from octave_gen.isa.decode import Instruction, Operand
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.matrix import MATRIX, MatrixInstruction, Registers
from octave_gen.isa.operands import Chip, Step, UnknownError, constant_bits
from octave_gen.isa.transfers import register_file
from octave_gen.isa.types import F16, F32, I32

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch

_TYPES = {"f32": F32, "i32": I32, "f16": F16}


def build(instruction: Instruction, chip: Chip) -> Step:
    """One matrix instruction; raises UnknownError for another shape, modifier or operand."""
    matrix = MATRIX.get(instruction.base)
    if matrix is None or chip.arch not in matrix.layout.archs or matrix.layout.wave_size != chip.lanes:
        raise UnknownError(instruction.mnemonic)
    refused = matrix.refusal(instruction.modifiers)
    if refused is not None:
        raise UnknownError(f"{instruction.mnemonic} {refused}")
    target, a, b, c = instruction.operands
    if any(operand.kind not in ("v", "a") for operand in (target, a, b)):
        raise UnknownError(instruction.text)
    registers, results = matrix.layout.operand_registers, matrix.layout.result_registers
    signs = instruction.flags("neg_lo", (0, 0, 0))
    signed = (bool(signs[0]), bool(signs[1]))
    high = bool(instruction.flags("op_sel", (0, 0, 0))[2])
    constant = _constant(c, matrix)

    def step(batch: Batch) -> None:
        left, right = _rows(batch, a, registers), _rows(batch, b, registers)
        relaxed = batch.chunk.options.relaxed_half_waves
        if not matrix.ignores_exec:
            _check(batch, matrix, left, right, relaxed)
        old = _rows(batch, target, results)
        addend = _rows(batch, c, results) if constant is None else np.full(old.shape, constant, np.uint32)
        old[...] = matrix.execute(left, right, addend, old, signed=signed, high=high, relaxed=relaxed)

    return step


def _rows(batch: Batch, operand: Operand, count: int) -> Registers:
    rows: Registers = register_file(batch, operand).u32[operand.index : operand.index + count]
    return rows


def _constant(operand: Operand, matrix: MatrixInstruction) -> np.uint32 | None:
    if operand.kind in ("v", "a"):
        return None
    if operand.kind != "constant":
        raise UnknownError(f"{matrix.layout.mnemonic}: addend {operand.text}")
    bits = constant_bits(operand.text, _TYPES[matrix.layout.result])
    value: np.uint32 = np.uint32(bits | bits << 16 if matrix.layout.result == "f16" else bits)
    return value


def _check(batch: Batch, matrix: MatrixInstruction, a: Registers, b: Registers, relaxed: bool) -> None:
    if not batch.full:
        off = int((~batch.exec).any(axis=1).sum())
        raise InstructionError(
            "partial_exec", f"{off} waves have lanes switched off", hint="let no lane branch away around the WMMA"
        )
    unequal = matrix.unequal_halves(a, b, relaxed)
    if unequal is not None:
        raise InstructionError(
            "matrix_operands",
            unequal,
            hint="lanes 16-31 must hold the A and B of lanes 0-15 (a variant may declare otherwise)",
        )
