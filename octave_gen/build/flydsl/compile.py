"""Compiles units in FlyDSL to code objects and traces, each stored in the cache as soon as it is done."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from octave_gen.build import compile as compiling
from octave_gen.build import files, process
from octave_gen.build.cache import Session
from octave_gen.build.compile import SCRATCH_HINT, Compiled, Failure, Job
from octave_gen.build.flydsl import lint, protocol, tool
from octave_gen.build.flydsl.tool import FlyDSL
from octave_gen.build.locks import Progress
from octave_gen.errors import OctaveError
from octave_gen.kernels.base import FLYDSL, Language

CHILD_BYTES: Final = 304 << 20
"""Memory of the child that has imported flydsl; its forks share it."""
FORK_BYTES: Final = 280 << 20
"""Memory that a fork may take of its own: half more than the 183 MiB measured with the largest unit."""

UNIT_SECONDS: Final = 600
"""Processor time that a unit may take, so that a kernel whose trace never ends does not hold up a build for ever: the
largest takes 10 s."""

_JOBS = "jobs.json"
_CODE_OBJECT, _TRACE = "hsaco", "trace"
_SHOWN = 5


@dataclass(frozen=True)
class FlyJob(Job):
    """A unit in FlyDSL. request: the child's job, as JSON; sources: of its kernels; trace_key: of its trace in the
    cache."""

    request: str
    sources: tuple[Path, ...]
    trace_key: str

    @property
    def language(self) -> Language:
        return FLYDSL


def default_jobs() -> int:
    """As many compiles at once as cores and memory allow."""
    return compiling.default_jobs(FORK_BYTES, CHILD_BYTES)


def compile_units(
    jobs: Sequence[FlyJob],
    *,
    flydsl: FlyDSL,
    session: Session,
    parallel: int,
    keep_going: bool,
    progress: Progress,
) -> Compiled:
    """Compiles ``jobs``, ``parallel`` at once; every code object is in the cache before the next one is reported.

    keep_going: after a failure compile the rest all the same. Raises OctaveError when the scratch folder cannot be
    written or the child cannot run; what cannot be compiled is returned, not raised.
    """
    report = _Report(len(jobs), progress)
    done: dict[str, bytes] = {}
    failures: list[Failure] = []
    sound: dict[str, list[FlyJob]] = {}
    for job in jobs:
        if failures and not keep_going:
            break
        problem = _refusal(job)
        if problem is None:
            sound.setdefault(job.arch, []).append(job)
        else:
            report.ended(job.name, 0.0, failed=True)
            failures.append(Failure(job, problem, protocol.FAILED))
    for arch, group in sound.items():
        if failures and not keep_going:
            break
        by_name = {job.name: job for job in group}
        scratch = session.scratch / f"flydsl-{arch}"
        for ended in _ended(arch, group, flydsl, scratch, parallel, keep_going):
            job = by_name[ended.name]
            failure = _failure(job, ended, scratch)
            if failure is None:
                done[job.name] = (scratch / f"{job.name}.{_CODE_OBJECT}").read_bytes()
                session.put(job.trace_key, (scratch / f"{job.name}.{_TRACE}").read_bytes())
                session.put(job.key, done[job.name])
            else:
                failures.append(failure)
            report.ended(job.name, ended.seconds, failed=failure is not None)
    if failures:
        session.check_space([failure.log for failure in failures])
    return Compiled(done, tuple(failures))


@dataclass
class _Report:
    total: int
    progress: Progress
    count: int = 0

    def ended(self, name: str, seconds: float, *, failed: bool) -> None:
        self.count += 1
        self.progress(f"[{self.count}/{self.total}] {name} {seconds:.1f} s{' FAILED' if failed else ''}")


def _refusal(job: FlyJob) -> str | None:
    """Why a job is not given to flydsl, which would say nothing of it or worse."""
    if job.arch not in tool.ARCHS:
        return f"error: {tool.problem(job.arch)}\n"
    try:
        lint.check(job.sources)
    except OctaveError as error:
        return f"error: {error}\n"
    return None


def _failure(job: FlyJob, ended: protocol.Ended, scratch: Path) -> Failure | None:
    """What went wrong with a unit that ended, if anything did."""
    log = scratch / f"{job.name}.log"
    said = log.read_text(errors="replace") if log.is_file() else ""
    if ended.status == protocol.SIGNALLED + signal.SIGXCPU:
        said += f"error: it took more than {UNIT_SECONDS} s of processor time\n"
    elif ended.status == 0:
        if all((scratch / f"{job.name}.{end}").is_file() for end in (_CODE_OBJECT, _TRACE)):
            return None
        said += "error: the compile ended with status 0 and made no code object\n"
    return Failure(job, said, ended.status or protocol.FAILED)


def _ended(
    arch: str, jobs: Sequence[FlyJob], flydsl: FlyDSL, scratch: Path, parallel: int, keep_going: bool
) -> Iterator[protocol.Ended]:
    """The units as they end; raises OctaveError when the child stops before its work is done."""
    with files.explained("the compile cache cannot be written", scratch, SCRATCH_HINT):
        scratch.mkdir(exist_ok=True)
        tool.write_linker(scratch, flydsl)
        (scratch / _JOBS).write_text(f"[{', '.join(job.request for job in jobs)}]")
    command = tool.child("child", _JOBS, str(parallel), str(int(keep_going)), str(UNIT_SECONDS))
    count, failed = 0, False
    remarks: list[str] = []
    with closing(process.lines(command, scratch, tool.environment(arch, scratch))) as lines:
        for line in lines:
            ended = protocol.parse(line)
            if ended is None:
                remarks.append(line)
                continue
            count += 1
            failed = failed or ended.status != 0
            yield ended
    if count < len(jobs) and (keep_going or not failed):
        what = f"flydsl's process failed after {count} of {len(jobs)} units"
        if not remarks:
            hint = "if memory was short, use fewer --jobs"
            raise OctaveError(f"{what}: it ended without a word", where="flydsl", hint=hint)
        raise OctaveError("\n  ".join([f"{what}:", *remarks[-_SHOWN:]]), where="flydsl", hint=tool.REMEDY)
