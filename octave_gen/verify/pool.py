"""Processes that run the cases of variants. One process, and a GPU, work in this process."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import torch

from octave_gen import __version__, isa
from octave_gen.errors import OctaveError
from octave_gen.verify import built, record
from octave_gen.verify.built import Built
from octave_gen.verify.cases import Case
from octave_gen.verify.checks import Checked, check
from octave_gen.verify.executor import Interpreter
from octave_gen.verify.operators import Executor, Interpreted

STEP_LIMIT = 1_000_000
"""Instructions of one wave: ten times what the longest case of a shipped kernel takes."""


@dataclass(frozen=True)
class Task:
    """One variant and the cases to run."""

    arch: str
    name: str
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Finished:
    """executor: what ran it, in words for the record; seconds: how long it took."""

    checked: Checked
    executor: Mapping[str, str]
    seconds: float


@dataclass
class Bench:
    """Where variants run in one process. outs: the output folder of each arch; libraries are read when first needed.

    seed: of the random inputs, and of the junk that registers and LDS begin with.
    """

    outs: Mapping[str, Path]
    executor: str
    seed: int
    _ready: dict[str, tuple[Built, Executor, Mapping[str, str]]] = field(default_factory=dict)

    def run(self, task: Task) -> Finished:
        """Runs the cases; raises OctaveError where the library or the executor is not there."""
        start = time.monotonic()
        if task.arch not in self._ready:
            self._ready[task.arch] = self._prepare(task.arch)
        library, executor, described = self._ready[task.arch]
        checked = check(library.subject(task.name), task.cases, self.seed, executor)
        return Finished(checked, described, time.monotonic() - start)

    def _prepare(self, arch: str) -> tuple[Built, Executor, Mapping[str, str]]:
        library = built.read(self.outs[arch], arch)
        if self.executor == record.GPU:
            from octave_gen.verify.gpu import Gpu

            gpu = Gpu.of(library)
            return library, gpu, gpu.described
        interpreter = Interpreter(isa.Options(seed=self.seed, step_limit=STEP_LIMIT))
        described = {"name": record.INTERPRETER, "version": __version__}
        return library, Interpreted(library.code_objects, interpreter), described


def run(
    tasks: Sequence[Task], outs: Mapping[str, Path], executor: str, seed: int, jobs: int
) -> Generator[tuple[Task, Finished], None, None]:
    """Runs ``tasks`` in up to ``jobs`` processes and yields each when it is done.

    When the caller stops (an interrupt included), so do the processes. Raises OctaveError when one of them dies.
    """
    processes = min(jobs, len(tasks))
    if processes <= 1 or executor == record.GPU:
        bench = Bench(outs, executor, seed)
        yield from ((task, bench.run(task)) for task in tasks)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # torch is imported once
    pool = ProcessPoolExecutor(processes, context, initializer=_start, initargs=(outs, executor, seed))
    others = set(multiprocessing.active_children())
    try:
        futures = {pool.submit(_work, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise OctaveError(
            "a process that ran a variant died", where="verify", hint="is there enough memory? try fewer --jobs"
        ) from error
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_bench: Bench | None = None


def _start(outs: Mapping[str, Path], executor: str, seed: int) -> None:
    global _bench
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt ends the process, without a traceback
    torch.set_num_threads(1)
    _bench = Bench(outs, executor, seed)


def _work(task: Task) -> Finished:
    assert _bench is not None
    return _bench.run(task)
