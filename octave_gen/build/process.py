"""Programs whose output is read while they run, and which do not outlive this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

_END_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a command that gets SIGTERM when this process dies, even when killed (1 is PR_SET_PDEATHSIG)."""


def lines(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Generator[str, None, None]:
    """The lines that a command prints; it is ended when the caller stops listening or is killed."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _END_WITH_PARENT, str(os.getpid()), *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            yield line.rstrip("\n")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
