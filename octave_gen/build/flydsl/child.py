"""``python -m octave_gen.build.flydsl.child JOBS.json PARALLEL KEEP_GOING SECONDS``: imports flydsl once, then forks
for every unit.

JOBS.json holds a list of jobs of one chip. What a fork prints goes to ``<name>.log`` in the current folder; a line on
stdout says how each unit ended: mark, name, exit status as a shell shows it, seconds. With KEEP_GOING 0 no further unit
is started after one that failed. SECONDS: of processor time, after which a fork gets SIGXCPU, and SIGKILL if that does
not end it. Forks end with this process, and it ends with its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from octave_gen.build.flydsl import protocol, unit

_PR_SET_PDEATHSIG = 1
_SECONDS_TO_END = 5


def main(jobs: list[dict[str, Any]], parallel: int, keep_going: bool, seconds: int) -> None:
    """Compiles ``jobs``, ``parallel`` at once, and prints how each ended."""
    waiting, failed = list(jobs), False
    running: dict[int, tuple[str, float]] = {}
    while waiting or running:
        while waiting and len(running) < parallel and (keep_going or not failed):
            job = waiting.pop(0)
            running[_fork(job, seconds)] = (job["name"], time.monotonic())
        if not running:
            return
        process, ended = os.wait()
        name, begin = running.pop(process)
        code = os.waitstatus_to_exitcode(ended)
        status = code if code >= 0 else protocol.SIGNALLED - code
        failed = failed or status != 0
        print(protocol.line(name, status, time.monotonic() - begin), flush=True)


def _fork(job: dict[str, Any], seconds: int) -> int:
    parent = os.getpid()
    process = os.fork()
    if process:
        return process
    status = protocol.FAILED
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + _SECONDS_TO_END))
        if os.getppid() == parent:
            status = _compile(job)
    finally:
        os._exit(status)


def _compile(job: dict[str, Any]) -> int:
    log = os.open(f"{job['name']}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for stream in (1, 2):
        os.dup2(log, stream)
    try:
        unit.compile_unit(job)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)  # flydsl's shows the lines of the kernel
        return protocol.FAILED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    # Whatever it says, it says of something that it then left out.
    return protocol.SPOKE if os.fstat(log).st_size else 0


def _arguments(words: list[str]) -> Iterator[Any]:
    yield json.loads(Path(words[0]).read_text())
    yield int(words[1])
    yield words[2] == "1"
    yield int(words[3])


if __name__ == "__main__":
    main(*_arguments(sys.argv[1:]))
