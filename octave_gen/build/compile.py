"""Compiles units to code objects: ninja over the units that the cache lacks, each stored as soon as it is done."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from octave_gen import settings
from octave_gen.build import files, process
from octave_gen.build.cache import Session
from octave_gen.build.locks import Progress
from octave_gen.build.toolchain import DeviceCompiler, device_flags
from octave_gen.errors import OctaveError
from octave_gen.kernels.base import HIP, Language

PEAK_BYTES = 160 << 20
"""Memory that one compile of a unit may take: half more than the 103 MiB measured with the largest unit."""

_LINKER_FOLDER = "bin"
_MARK = "\x1f"
SCRATCH_HINT = "set OCTAVE_CACHE_DIR to a folder that can be written"


@dataclass(frozen=True)
class Job:
    """One unit to compile. ``name`` is also the stem of its files; ``key`` is its key in the cache."""

    name: str
    text: str
    arch: str
    key: str

    @property
    def language(self) -> Language:
        """Also the suffix of its source."""
        return HIP


@dataclass(frozen=True)
class Failure:
    """A unit that did not compile: what the compiler printed, and its exit status as a shell shows it."""

    job: Job
    log: str
    status: int


@dataclass(frozen=True)
class Compiled:
    """Code objects by unit, and the units that failed; a unit that was not started is in neither."""

    code_objects: dict[str, bytes]
    failures: tuple[Failure, ...]

    def __add__(self, other: Compiled) -> Compiled:
        return Compiled(self.code_objects | other.code_objects, self.failures + other.failures)


def default_jobs(each: int = PEAK_BYTES, beside: int = 0) -> int:
    """As many compiles at once as there are cores for this process and as the free memory holds.

    each: bytes that one takes; beside: bytes that all of them share.
    """
    return max(1, min(len(os.sched_getaffinity(0)), (_available_memory() - beside) // each))


def _available_memory() -> int:
    """Bytes that this process may still use: of the machine, and of its control group where that is limited."""
    group = Path("/sys/fs/cgroup")
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) << 10
    try:
        limit = int((group / "memory.max").read_text())
        return min(available, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no control group, or no limit ("max")
        return available


def ninja_program() -> Path:
    """The ninja of the Python package of that name; raises OctaveError when it is not installed."""
    hint = "install the Python package ninja, which octave-gen depends on"
    try:
        import ninja
    except ImportError:
        raise OctaveError("ninja is not installed", hint=hint) from None
    program = Path(ninja.BIN_DIR) / "ninja"
    if not program.is_file():
        raise OctaveError("the Python package ninja has no program", where=str(program), hint=hint)
    return program


def call(compiler: DeviceCompiler, arch: str, include: Path, name: str) -> tuple[str, ...]:
    """The command that compiles ``<name>.hip`` to ``<name>.hsaco`` in a folder that :func:`write_linker` prepared.

    No path of the machine gets into the code object.
    """
    linker = () if compiler.linker is None else (f"-B{_LINKER_FOLDER}",)
    headers = (f"-I{include}", f"-ffile-prefix-map={include}=include")
    return (*compiler.command, *device_flags(arch), *linker, *headers, f"{name}.hip", "-o", f"{name}.hsaco")


def write_linker(folder: Path, compiler: DeviceCompiler) -> None:
    """Puts the program ``lld`` into ``folder`` where the compiler, which looks for one, does not bring its own."""
    if compiler.linker is None:
        return
    script = folder / _LINKER_FOLDER / "lld"
    script.parent.mkdir(parents=True, exist_ok=True)
    # clang names the flavour of a generic lld first; this one has no other.
    script.write_text(f'#!/bin/sh\nif [ "$1" = -flavor ]; then shift 2; fi\nexec {shlex.join(compiler.linker)} "$@"\n')
    script.chmod(0o755)


def compile_units(
    jobs: Sequence[Job],
    *,
    compiler: DeviceCompiler,
    include: Path,
    session: Session,
    parallel: int,
    keep_going: bool,
    progress: Progress,
) -> Compiled:
    """Compiles ``jobs``, ``parallel`` at once; every code object is in the cache before the next one is reported.

    keep_going: after a failure compile the rest all the same. Raises OctaveError when ninja is missing or the scratch
    folder cannot be written; what the compiler refuses is returned, not raised.
    """
    if not jobs:
        return Compiled({}, ())
    program = ninja_program()
    scratch = session.scratch
    with files.explained("the compile cache cannot be written", scratch, SCRATCH_HINT):
        write_linker(scratch, compiler)
        for job in jobs:
            (scratch / f"{job.name}.hip").write_text(job.text)
        (scratch / "build.ninja").write_text(_ninja_file(jobs, compiler, include))
    environment = settings.tool_environment()
    environment |= {"NINJA_STATUS": f"{_MARK}%f{_MARK}%t{_MARK}", "TMPDIR": str(scratch)}
    command = [str(program), "-j", str(parallel), "-k", "0" if keep_going else "1"]
    by_name = {job.name: job for job in jobs}
    done: dict[str, bytes] = {}
    remarks: list[str] = []
    with closing(process.lines(command, scratch, environment)) as lines:
        for line in lines:
            if not line.startswith(_MARK):
                remarks.append(line)
                continue
            _, count, total, name = line.split(_MARK)
            result = _result(scratch, name)
            if result is not None:
                session.put(by_name[name].key, result)
                done[name] = result
            outcome = "" if result is not None else " FAILED"
            progress(f"[{count}/{total}] {name} {_seconds(scratch, name):.1f} s{outcome}")
    failures = tuple(_failures(scratch, (job for job in jobs if job.name not in done)))
    if failures or remarks:
        session.check_space([failure.log for failure in failures])
    if len(done) < len(jobs) and not failures:
        raise OctaveError("ninja failed:\n  " + "\n  ".join(remarks[-5:]), where=str(program))
    return Compiled(done, failures)


def _ninja_file(jobs: Sequence[Job], compiler: DeviceCompiler, include: Path) -> str:
    lines = ["rule unit", "  command = $run", "  description = $name"]
    for job in jobs:
        name = job.name
        command = shlex.join(call(compiler, job.arch, include, name))
        # The exit status in a file tells a finished code object from one that a killed linker left behind.
        run = f": >{name}.begin; {command} >{name}.log 2>&1; r=$?; echo $r >{name}.status; exit $r"
        lines += [f"build {name}.hsaco: unit {name}.hip", f"  name = {name}", f"  run = {run.replace('$', '$$')}"]
    return "\n".join(lines) + "\n"


def _status(scratch: Path, name: str) -> int | None:
    try:
        return int((scratch / f"{name}.status").read_text())
    except (OSError, ValueError):
        return None


def _result(scratch: Path, name: str) -> bytes | None:
    return (scratch / f"{name}.hsaco").read_bytes() if _status(scratch, name) == 0 else None


def _failures(scratch: Path, unfinished: Iterable[Job]) -> Iterator[Failure]:
    for job in unfinished:
        status = _status(scratch, job.name)
        if status is not None:
            yield Failure(job, (scratch / f"{job.name}.log").read_text(errors="replace"), status)


def _seconds(scratch: Path, name: str) -> float:
    """Wall time of a compile, by the files that its start and its end wrote; 0 for one that could not write them."""
    try:
        begin, end = ((scratch / f"{name}.{part}").stat().st_mtime for part in ("begin", "status"))
    except OSError:
        return 0.0
    return end - begin
