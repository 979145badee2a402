"""From decoded instructions to steps and blocks, and the coverage pass over a whole code object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from octave_gen import arch
from octave_gen.errors import OctaveError
from octave_gen.isa import (
    atomics,
    buffers,
    control,
    counters,
    dual,
    lanes,
    lds,
    lds_direct,
    matrix_step,
    scalar_alu,
    scalar_memory,
    vector_alu,
    vector_memory,
)
from octave_gen.isa.control import End, branch_target, end_of
from octave_gen.isa.decode import Instruction
from octave_gen.isa.indexed import IndexMode
from octave_gen.isa.operands import Chip, Step, UnknownError
from octave_gen.isa.types import Operation

if TYPE_CHECKING:
    from octave_gen.isa.elf import CodeObject

EXECUTED: Final = ("gfx942", "gfx950", "gfx1100")
"""The chips whose instructions have tables."""


@cache
def scalar_operations() -> Mapping[str, Operation]:
    """The tables of scalar instructions."""
    from octave_gen.isa import scalar

    return scalar.OPERATIONS


@cache
def vector_operations() -> dict[str, Operation]:
    """The tables of vector instructions, ``v_cmpx_*`` included."""
    from octave_gen.isa import cdna4, compare, convert, packed, transcendental, vector_float, vector_integer

    found: dict[str, Operation] = {}
    for module in (vector_integer, vector_float, transcendental, convert, compare, packed, cdna4):
        found.update(module.OPERATIONS)
    exec_forms = {name.replace("v_cmp_", "v_cmpx_", 1): found[name] for name in found if name.startswith("v_cmp_")}
    return exec_forms | found


def compile_instruction(instruction: Instruction, chip: Chip) -> Step | None:
    """The step of one instruction; None when it changes no state. Raises UnknownError when it has no semantics here."""
    name = instruction.base
    if instruction.second is not None:
        return dual.build(instruction, vector_operations(), chip)
    if name in control.BUILDERS:
        return control.BUILDERS[name](instruction, chip)
    if name in lanes.BUILDERS:
        return lanes.BUILDERS[name](instruction, chip)
    if name in scalar_operations():
        return scalar_alu.build(instruction, scalar_operations()[name])
    if name in vector_operations():
        return vector_alu.build(instruction, vector_operations()[name], chip)
    if name.startswith(("v_mfma_", "v_wmma_")):
        return matrix_step.build(instruction, chip)
    if name.startswith(("global_atomic_", "flat_atomic_")):
        return atomics.build_memory(instruction, chip)
    if name.startswith("global_load_lds_"):
        return lds_direct.build_global(instruction, chip)
    if name.startswith(("global_", "flat_", "scratch_")):
        return vector_memory.build(instruction, chip)
    if name.startswith("buffer_"):
        return buffers.build(instruction, chip)
    if name.startswith("ds_read_b") and "_tr_b" in name:
        return lds_direct.build_transposed(instruction, chip)
    if name.startswith(("ds_read", "ds_write", "ds_load", "ds_store")) and "xchg" not in name:
        return lds.build(instruction, chip)
    if name.startswith("ds_"):
        return atomics.build_local(instruction, chip)
    if name.startswith(("s_load_", "s_buffer_load_")):
        return scalar_memory.build(instruction, chip)
    raise UnknownError(instruction.mnemonic)


@dataclass(frozen=True, eq=False)
class Block:
    """Instructions that always run one after the other. steps: those of ``instructions`` that change state."""

    instructions: tuple[Instruction, ...]
    steps: tuple[Step, ...]
    step_instructions: tuple[Instruction, ...]
    end: End
    following: int


class Program:
    """A code object's blocks, compiled when they are first reached."""

    def __init__(self, code_object: CodeObject) -> None:
        if code_object.arch not in EXECUTED:
            raise OctaveError(f"{code_object.arch} has no tables of instructions", hint=f"known: {', '.join(EXECUTED)}")
        self.instructions = code_object.instructions
        gfx9 = arch.get(code_object.arch).gfx9
        self.chip = Chip(gfx9, code_object.wave_size, code_object.arch == "gfx950")
        targets = (branch_target(instruction) for instruction in self.instructions.values())
        self._leaders = {target for target in targets if target is not None}
        self._blocks: dict[int, Block] = {}
        self._steps: dict[Instruction, Step | None] = {}

    def block(self, address: int) -> Block:
        """The block that begins at ``address``; raises KeyError where no instruction is."""
        found = self._blocks.get(address)
        if found is None:
            found = self._blocks[address] = self._compile(address)
        return found

    def _compile(self, address: int) -> Block:
        inside: list[Instruction] = []
        steps: list[tuple[Step, Instruction]] = []
        indexing = IndexMode()
        while True:
            instruction = self.instructions[address]
            inside.append(instruction)
            address += instruction.size
            end = end_of(instruction)
            if end is not None:
                break
            step = self._step(instruction, indexing)
            if step is not None:
                steps.append((step, instruction))
            if address in self._leaders or address not in self.instructions:
                end = End("next", address)
                break
        return Block(tuple(inside), tuple(s for s, _ in steps), tuple(i for _, i in steps), end, address)

    def _step(self, instruction: Instruction, indexing: IndexMode) -> Step | None:
        if instruction not in self._steps:
            step = indexing.compile(instruction) or compile_instruction(instruction, self.chip)
            self._steps[instruction] = step
        return self._steps[instruction]

    def class_of(self, instruction: Instruction) -> str:
        """The class that the instruction is counted in."""
        operation = vector_operations().get(instruction.base)
        return counters.class_of(instruction, operation is not None and operation.transcendental)

    def unknown(self) -> list[tuple[Instruction, str]]:
        """Instructions without semantics, with what is not known of them."""
        found = []
        indexing = IndexMode()
        for instruction in self.instructions.values():
            try:
                if end_of(instruction) is None:
                    self._step(instruction, indexing)
            except UnknownError as error:
                found.append((instruction, str(error)))
            except (IndexError, ValueError, KeyError, AttributeError) as error:
                found.append((instruction, f"{instruction.mnemonic}: {type(error).__name__} {error}"))
        return found


def program_of(code_object: CodeObject) -> Program:
    """The program of a code object, made once."""
    programs = code_object.programs
    if "program" not in programs:
        programs["program"] = Program(code_object)
    program: Program = programs["program"]
    return program


def uncovered(code_object: CodeObject) -> list[str]:
    """Every instruction of the code object that has no semantics here, with its kernel and place."""
    programs = code_object.programs
    if "uncovered" not in programs:
        found = []
        for instruction, reason in program_of(code_object).unknown():
            kernel = code_object.kernel_at(instruction.address)
            offset = instruction.address - code_object.symbols.get(kernel, 0)
            note = "" if reason == instruction.mnemonic else f" ({reason})"
            found.append(f"{kernel}+{offset:#x}: {instruction.text}{note}")
        programs["uncovered"] = found
    listed: list[str] = programs["uncovered"]
    return list(listed)


def require_covered(code_object: CodeObject) -> None:
    """Raises OctaveError listing what :func:`uncovered` finds, if anything."""
    missing = uncovered(code_object)
    if missing:
        raise OctaveError(
            f"{len(missing)} instructions have no semantics in the interpreter:\n  " + "\n  ".join(missing[:20]),
            where=next(iter(code_object.kernels)),
            hint="write the kernel without them, or add them to octave_gen/isa",
        )
