"""What is kept of a unit that failed: source, log and a command that reproduces it, in ``<out>/<arch>/failed/``."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

from octave_gen.build import compile as compiling
from octave_gen.build import files
from octave_gen.build.compile import Failure
from octave_gen.build.flydsl import tool
from octave_gen.build.flydsl.compile import FlyJob
from octave_gen.build.flydsl.tool import FlyDSL
from octave_gen.build.toolchain import DeviceCompiler
from octave_gen.plan import Unit

FOLDER = "failed"
_SIGNALLED = 128
_RAISED = re.compile(r"[\w.]*(Error|Exception)(: |$)")
"""How a traceback of Python ends."""


def keep_failure(
    folder: Path, failure: Failure, compiler: DeviceCompiler, include: Path, flydsl: FlyDSL | None = None
) -> str:
    """Writes source, log and script of a failed compile into ``folder``; returns what to tell of it."""
    name = failure.job.name
    folder.mkdir(parents=True, exist_ok=True)
    files.write_atomically(folder / f"{name}.{failure.job.language}", failure.job.text.encode())
    files.write_atomically(folder / f"{name}.log", failure.log.encode())
    if isinstance(failure.job, FlyJob):
        assert flydsl is not None
        command = _flydsl_command(folder, failure.job, flydsl)
    else:
        compiling.write_linker(folder, compiler)
        command = shlex.join(compiling.call(compiler, failure.job.arch, include, name))
    script = folder / f"{name}.sh"
    files.write_atomically(script, f'#!/bin/sh\ncd "$(dirname "$0")" || exit 1\nexec {command}\n'.encode())
    return f"{name}: {first_error(failure)}\n    log: {folder / name}.log\n    reproduce: sh {shlex.quote(str(script))}"


def _flydsl_command(folder: Path, job: FlyJob, flydsl: FlyDSL) -> str:
    tool.write_linker(folder, flydsl)
    files.write_atomically(folder / f"{job.name}.json", json.dumps(json.loads(job.request), indent=2).encode())
    fixed = tool.fixed_environment(job.arch, Path())
    settings = [f"{name}={value}" for name, value in fixed.items()]
    return shlex.join(["env", *settings, *tool.child("unit", f"{job.name}.json")])


def keep_refused(folder: Path, unit: Unit, text: str, code_object: bytes) -> None:
    """Writes source and code object of a unit that the gate refused."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write_atomically(folder / f"{unit.name}.{unit.language}", text.encode())
    files.write_atomically(folder / f"{unit.name}.hsaco", code_object)


def clear(folder: Path) -> None:
    """Removes what an earlier build kept."""
    if folder.is_dir():
        shutil.rmtree(folder)


def first_error(failure: Failure) -> str:
    """The line of a compiler's log that says what is wrong."""
    lines = [line.strip() for line in failure.log.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line or line.startswith("LLVM ERROR:")]
    if errors:
        return errors[0]
    raised = [line for line in lines if _RAISED.match(line)]
    if raised:
        return raised[-1]
    if failure.status > _SIGNALLED:
        return f"the compiler was killed by signal {failure.status - _SIGNALLED}; if memory was short, use fewer --jobs"
    return lines[0] if lines else f"the compiler printed nothing and ended with status {failure.status}"
