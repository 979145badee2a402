"""Running a chunk of workgroups: batches of waves, lowest address first, merged where they meet.

All waves at one address run as one batch. A branch that waves disagree on splits the batch; the part at the lowest
address goes on, and parts that reach the same address become one again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import length_hint
from typing import TYPE_CHECKING

import numpy as np

from octave_gen.errors import OctaveError
from octave_gen.isa.faults import InstructionError, fault
from octave_gen.isa.registers import Batch

if TYPE_CHECKING:
    from octave_gen.isa.counters import Tally
    from octave_gen.isa.decode import Instruction
    from octave_gen.isa.elf import CodeObject
    from octave_gen.isa.lds import LocalMemory
    from octave_gen.isa.memory import AddressSpace
    from octave_gen.isa.program import Block, Program


@dataclass(frozen=True)
class Options:
    """How a launch is run.

    step_limit: instructions that one wave may execute. seed: of the junk in registers, LDS and scratch memory.
    check_races: LDS races between barriers are faults. relaxed_half_waves: WMMA takes rows of A of parity h from lane
    half h alone, for kernels that declare it. lanes_per_chunk: how many lanes run side by side; it decides speed alone.
    """

    step_limit: int = 10_000_000
    seed: int = 1
    check_races: bool = True
    relaxed_half_waves: bool = False
    lanes_per_chunk: int = 1 << 14
    watch: Callable[[Batch, Block], None] | None = None


@dataclass(eq=False)
class Chunk:
    """What the waves of a chunk share. code: address of the code object's image; first: its first workgroup."""

    space: AddressSpace
    local: LocalMemory
    counters: Tally
    options: Options
    code: int
    first: int


class Runner:
    """Executes one kernel's chunks and counts the instructions."""

    def __init__(self, code_object: CodeObject, program: Program, symbol: str, options: Options) -> None:
        self._code_object = code_object
        self._program = program
        self._symbol = symbol
        self._entry = code_object.kernels[symbol].entry
        self._limit = options.step_limit
        self._watch = options.watch
        self._executed: dict[Block, int] = {}

    def executed(self) -> dict[Instruction, tuple[str, int]]:
        """Per instruction its class and how many waves executed it."""
        counts: dict[Instruction, int] = {}
        for block, waves in self._executed.items():
            for instruction in block.instructions:
                counts[instruction] = counts.get(instruction, 0) + waves
        return {instruction: (self._program.class_of(instruction), count) for instruction, count in counts.items()}

    def run(self, start: Batch) -> None:
        """Runs all waves of ``start`` to their end; raises OctaveError at the first fault."""
        ready, waiting = [start], list[Batch]()
        with np.errstate(all="ignore"):
            while ready or waiting:
                if not ready:
                    ready, waiting = self._release(waiting), []
                lowest = min(batch.pc for batch in ready)
                batch = Batch.join([other for other in ready if other.pc == lowest])
                ready = [other for other in ready if other.pc != lowest]
                stop = min((other.pc for other in ready), default=1 << 62)
                outcome = self._advance(batch, stop)
                ready += outcome
                if not outcome and batch.pc >= 0:
                    waiting.append(batch)

    def _advance(self, batch: Batch, stop: int) -> list[Batch]:
        """Runs a batch until it reaches ``stop``, splits, waits or ends; ``pc`` is -1 after the end."""
        while batch.pc < stop:
            block = self._block(batch)
            self._steps(batch, block)
            self._executed[block] = self._executed.get(block, 0) + batch.waves
            if self._watch is not None:
                self._watch(batch, block)
            batch.steps += len(block.instructions)
            if batch.steps > self._limit:
                raise self._fault(
                    batch, block.instructions[-1], "step_limit", f"a wave executed more than {self._limit} instructions"
                )
            end = block.end
            if end.kind == "end":
                batch.pc = -1
                return []
            if end.kind == "barrier":
                batch.pc = block.following
                return []
            if end.kind == "jump" and end.jump is not None:
                parts = self._jump(batch, block, end.jump(batch))
                if len(parts) > 1:
                    return parts
                continue
            if end.kind == "next" or end.condition is None:
                batch.pc = end.target
                continue
            taken = end.condition(batch)
            if taken.all():
                batch.pc = end.target
            elif not taken.any():
                batch.pc = block.following
            else:
                parts = [batch.take(np.nonzero(taken)[0]), batch.take(np.nonzero(~taken)[0])]
                parts[0].pc, parts[1].pc = end.target, block.following
                return parts
        return [batch]

    def _block(self, batch: Batch) -> Block:
        try:
            return self._program.block(batch.pc)
        except KeyError:
            raise fault(
                "wild_jump", self._symbol, batch.pc - self._entry, "?", batch.pc, "no instruction is there"
            ) from None

    def _steps(self, batch: Batch, block: Block) -> None:
        remaining = iter(block.steps)
        try:
            for step in remaining:
                step(batch)
        except InstructionError as error:
            instruction = block.step_instructions[len(block.steps) - length_hint(remaining) - 1]
            raise self._fault(batch, instruction, error.kind, error.detail, error.address, error.hint) from error
        except (IndexError, ValueError, TypeError, AttributeError, KeyError) as error:
            instruction = block.step_instructions[len(block.steps) - length_hint(remaining) - 1]
            detail, hint = f"{type(error).__name__}: {error}", "this is a bug of the interpreter: report it"
            raise self._fault(batch, instruction, "internal", detail, hint=hint) from error

    def _jump(self, batch: Batch, block: Block, targets: np.typing.NDArray[np.uint64]) -> list[Batch]:
        places = (targets - np.uint64(batch.chunk.code)).view(np.int64)
        distinct = np.unique(places)
        for place in distinct.tolist():
            if place not in self._program.instructions:
                raise self._fault(batch, block.instructions[-1], "wild_jump", "no instruction is there", place)
        if len(distinct) == 1:
            batch.pc = int(distinct[0])
            return [batch]
        parts = []
        for place in distinct.tolist():
            part = batch.take(np.nonzero(places == place)[0])
            part.pc = place
            parts.append(part)
        return parts

    def _release(self, waiting: list[Batch]) -> list[Batch]:
        """Lets all waves past their barrier; raises OctaveError when one workgroup's waves wait at different ones."""
        at: dict[int, set[int]] = {}
        for batch in waiting:
            for workgroup in np.unique(batch.workgroup).tolist():
                at.setdefault(workgroup, set()).add(batch.pc)
        for workgroup, places in at.items():
            if len(places) > 1:
                offsets = ", ".join(f"{place - 4 - self._entry:#x}" for place in sorted(places))
                first = next(batch for batch in waiting if batch.pc == min(places))
                detail = f"workgroup {first.chunk.first + workgroup} waits at code offsets {offsets}"
                instruction = self._program.instructions[min(places) - 4]
                raise self._fault(
                    first,
                    instruction,
                    "barrier_divergence",
                    detail,
                    hint="let all waves reach the same __syncthreads()",
                )
        races = waiting[0].chunk.local.races
        if races is not None:
            races.interval[list(at)] += 1
        return waiting

    def _fault(
        self,
        batch: Batch,
        instruction: Instruction,
        kind: str,
        detail: str,
        address: int | None = None,
        hint: str | None = None,
    ) -> OctaveError:
        where = f"workgroups {_listed(batch.chunk.first + batch.workgroup)}, waves {_listed(batch.wave)}"
        function = self._code_object.kernel_at(instruction.address)
        offset = instruction.address - self._code_object.symbols.get(function, 0)
        return fault(kind, self._symbol, offset, instruction.text, address, f"{detail} ({where})", hint, function)


def _listed(numbers: Iterable[int]) -> str:
    unique = sorted({int(number) for number in numbers})
    return ", ".join(map(str, unique[:4])) + (", ..." if len(unique) > 4 else "")
