"""Runs cases of a variant, and looks for the smallest one that fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from octave_gen.errors import OctaveError
from octave_gen.verify import check_decode, check_prefill, check_reduce, check_rotate, check_store
from octave_gen.verify.cases import Case, smaller
from octave_gen.verify.compare import Measured
from octave_gen.verify.operators import Executor
from octave_gen.verify.subject import Subject

SHRINK_SECONDS: Final = 20.0

_CHECKS: dict[str, Callable[[Subject, Any, int, Executor], Measured]] = {
    "store": check_store.check,
    "rotate": check_rotate.check,
    "decode": check_decode.check,
    "reduce": check_reduce.check,
    "prefill_prefix": check_prefill.check_prefix,
    "prefill_chunk": check_prefill.check_chunk,
}


@dataclass(frozen=True)
class Failure:
    """The smallest case found that fails, and what is wrong with it."""

    case: Case
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """What the cases of a variant gave; the cases behind one that failed were not run."""

    cases: tuple[Case, ...]
    measured: Measured
    failure: Failure | None


def check(
    subject: Subject, cases: Iterable[Case], seed: int, executor: Executor, *, seconds: float = SHRINK_SECONDS
) -> Checked:
    """Runs ``cases`` until one fails, then takes up to ``seconds`` to make it small."""
    done: list[Case] = []
    total = Measured()
    for case in cases:
        done.append(case)
        measured = run(subject, case, seed, executor)
        total = total.joined(measured)
        if measured.problems:
            return Checked(tuple(done), total, _shrunk(subject, case, measured, seed, executor, seconds))
    return Checked(tuple(done), total, None)


def run(subject: Subject, case: Case, seed: int, executor: Executor) -> Measured:
    """One case, by each of the variant's kernels; what the executor reports (a fault, a launch that fails) is a problem
    like a wrong result."""
    measured = []
    for kernel in subject.variant.kernels:
        try:
            found = _CHECKS[subject.kind](replace(subject, variant=kernel), case, seed, executor)
        except OctaveError as error:
            found = Measured(problems=(str(error),))
        of = "" if kernel.symbol == subject.variant.symbol else f"{kernel.symbol}: "
        measured.append(replace(found, problems=tuple(of + problem for problem in found.problems)))
    return Measured.of(measured)


def _shrunk(subject: Subject, case: Case, measured: Measured, seed: int, executor: Executor, seconds: float) -> Failure:
    """Takes the first smaller case that fails too, and again from there, until none does or time is up."""
    deadline = time.monotonic() + seconds
    found = True
    while found:
        found = False
        for candidate in smaller(case):
            if time.monotonic() > deadline:
                break
            problems = run(subject, candidate, seed, executor)
            if problems.problems:
                case, measured, found = candidate, problems, True
                break
    return Failure(case, measured.problems)
