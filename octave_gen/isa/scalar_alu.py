"""Scalar instructions out of the table: one value per wave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from octave_gen.isa.decode import Instruction
from octave_gen.isa.operands import Step, UnknownError, reader, scalar_writer
from octave_gen.isa.types import Operation
from octave_gen.isa.vector_alu import compose

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch


def build(instruction: Instruction, operation: Operation) -> Step:
    """One step for the launch loop; raises UnknownError for a form that is not executed."""
    if instruction.modifiers:
        raise UnknownError(f"{instruction.mnemonic}: modifier {next(iter(instruction.modifiers))}")
    first = 0 if operation.result is None else 1
    sources = instruction.operands[first:]
    if len(sources) != len(operation.operands):
        raise UnknownError(f"{instruction.mnemonic} with {len(instruction.operands)} operands")
    readers = [reader(operand, type_, scalar=True) for operand, type_ in zip(sources, operation.operands, strict=True)]
    if operation.reads_destination and operation.result is not None:
        readers.append(reader(instruction.operands[0], operation.result, scalar=True))
    if operation.reads_scc:
        readers.append(lambda b: b.scc)
    compute = compose(operation.function, readers)
    if operation.result is None:

        def compare(b: Batch) -> None:
            b.scc[...] = compute(b)

        return compare
    write = scalar_writer(instruction.operands[0], operation.result)
    if operation.scc is None:
        return lambda b: write(b, compute(b))
    if operation.scc == "result_nonzero":

        def with_result(b: Batch) -> None:
            value: Any = compute(b)
            write(b, value)
            np.not_equal(value, 0, out=b.scc)

        return with_result

    def with_scc(b: Batch) -> None:
        value, scc = compute(b)
        write(b, value)
        b.scc[...] = scc

    return with_scc
