"""Profiles of kernels: counted at two lengths, then put through the issue model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from octave_gen import isa
from octave_gen.profile.built import Kernel
from octave_gen.profile.counts import Counted, Counts, by_difference
from octave_gen.profile.model import Clocks, clocks
from octave_gen.profile.workload import METHODS
from octave_gen.spec.fields import WORK
from octave_gen.verify.executor import Interpreter, written


@dataclass(frozen=True)
class Profile:
    """What one kernel takes for one unit of work."""

    kernel: Kernel
    lengths: tuple[int, int]
    counted: Counted
    clocks: Clocks

    @property
    def name(self) -> str:
        return self.kernel.variant.name

    @property
    def work(self) -> str:
        """The unit of work: ``token`` of context and kv head, ``slot``, ``vector``, ``split`` of a row, or ``key``."""
        return WORK[self.kernel.variant.kind.name]


def profiles(
    kernels: Sequence[Kernel], *, tokens: tuple[int, int] | None = None, progress: Callable[[str], None]
) -> list[Profile]:
    """The profile of each kernel, in order.

    tokens: the two context lengths that decode and prefill's prefix are counted at, the shorter first, at least 16
    (default: of :data:`METHODS`).
    """
    decoded: dict[bytes, isa.CodeObject] = {}
    made: list[Profile] = []
    for number, kernel in enumerate(kernels, 1):
        begin = time.perf_counter()
        if kernel.code_object not in decoded:
            decoded = {kernel.code_object: isa.load(kernel.code_object)}
        made.append(profile(kernel, decoded[kernel.code_object], tokens))
        seconds = time.perf_counter() - begin
        progress(f"[{number}/{len(kernels)}] {kernel.variant.name} {seconds:.1f} s")
    return made


def profile(kernel: Kernel, code_object: isa.CodeObject, tokens: tuple[int, int] | None = None) -> Profile:
    """The profile of one kernel; ``code_object`` holds its symbol. tokens: as in :func:`profiles`."""
    variant, method = kernel.variant, METHODS[kernel.variant.kind.name]
    lengths = tokens if tokens and WORK[variant.kind.name] == "token" else method.lengths
    (shorter, work), (longer, more) = (_count(kernel, code_object, length) for length in lengths)
    counted = by_difference(shorter, longer, (work, more))
    return Profile(
        kernel, lengths, counted, clocks(counted.each, method.least_bytes(kernel.subject), variant.arch.costs)
    )


def _count(kernel: Kernel, code_object: isa.CodeObject, length: int) -> tuple[Counts, int]:
    """What a launch of ``length`` executes, and the units of work in it."""
    workload = METHODS[kernel.variant.kind.name].workload(kernel.subject, length)
    interpreter = Interpreter(isa.Options(check_races=False))
    outputs = written(kernel.subject.variant.arguments)
    counters = interpreter.run(code_object, workload.launch, workload.tensors, outputs)
    return Counts.of(counters), workload.work
