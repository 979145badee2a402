"""Profiles of kernels: counted at two lengths, then put through the issue model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from octave_gen import isa
from octave_gen.profile.built import Kernel
from octave_gen.profile.counts import Counted, Counts, by_difference
from octave_gen.profile.latency import LoneWaveEstimate, estimate
from octave_gen.profile.model import Clocks, clocks
from octave_gen.profile.workload import CENTERED, METHODS, Workload
from octave_gen.spec.fields import WORK
from octave_gen.verify.executor import Interpreter, written
from octave_gen.verify.subject import Subject


@dataclass(frozen=True)
class Profile:
    """What one kernel takes for one unit of work; ``alone``: a wave that has its SIMD to itself, where it was asked for
    and the kernel loops over its work; ``centered``: of launches that subtract a center."""

    kernel: Kernel
    lengths: tuple[int, int]
    counted: Counted
    clocks: Clocks
    alone: LoneWaveEstimate | None = None
    centered: bool = False

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def work(self) -> str:
        """The unit of work: ``token`` of context and kv head, ``slot``, ``vector``, ``split`` of a row, or ``key``."""
        return WORK[self.kernel.variant.kind.name]


def profiles(
    kernels: Sequence[Kernel],
    *,
    tokens: tuple[int, int] | None = None,
    latency: int | None = None,
    center: bool = False,
    progress: Callable[[str], None],
) -> list[Profile]:
    """The profile of each kernel, in order.

    tokens: the two context lengths that decode and prefill's prefix are counted at, the shorter first, at least 16
    (default: of :data:`METHODS`); latency: of memory, in clocks, for the estimate of a lone wave; None: there is none;
    center: store and rotate subtract one.
    """
    decoded: dict[bytes, isa.CodeObject] = {}
    made: list[Profile] = []
    for number, kernel in enumerate(kernels, 1):
        begin = time.perf_counter()
        if kernel.code_object not in decoded:
            decoded = {kernel.code_object: isa.load(kernel.code_object)}
        code_object = decoded[kernel.code_object]
        found = profile(kernel, code_object, tokens, center)
        made.append(found if latency is None else replace(found, alone=estimate(kernel, code_object, latency)))
        seconds = time.perf_counter() - begin
        progress(f"[{number}/{len(kernels)}] {kernel.name} {seconds:.1f} s")
    return made


def profile(
    kernel: Kernel, code_object: isa.CodeObject, tokens: tuple[int, int] | None = None, center: bool = False
) -> Profile:
    """The profile of one kernel; ``code_object`` holds its symbol. tokens, center: as in :func:`profiles`."""
    variant, method = kernel.variant, METHODS[kernel.variant.kind.name]
    lengths = tokens if tokens and WORK[variant.kind.name] == "token" else method.lengths
    centered = CENTERED.get(variant.kind.name) if center else None
    counted = count(kernel, code_object, centered or method.workload, lengths)
    terms = clocks(counted.each, method.least_bytes(kernel.subject), variant.arch.costs)
    return Profile(kernel, lengths, counted, terms, centered=centered is not None)


def count(
    kernel: Kernel,
    code_object: isa.CodeObject,
    workload: Callable[[Subject, int], Workload],
    lengths: tuple[int, int],
) -> Counted:
    """What launches of two lengths execute for a unit of work, and besides."""
    interpreter = Interpreter(isa.Options(check_races=False))
    outputs = written(kernel.subject.variant.arguments)
    counts, works = [], []
    for length in lengths:
        made = workload(kernel.subject, length)
        counts.append(Counts.of(interpreter.run(code_object, made.launch, made.tensors, outputs)))
        works.append(made.work)
    return by_difference(counts[0], counts[1], (works[0], works[1]))
