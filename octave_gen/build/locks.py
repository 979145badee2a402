"""Locks between processes: flock on a file that names its owner, waited for with a time limit."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from octave_gen.errors import OctaveError

POLL_SECONDS = 0.1

Progress = Callable[[str], None]


@contextmanager
def held(path: Path, *, timeout: float, progress: Progress) -> Iterator[None]:
    """Holds the lock file ``path`` for the block; the kernel frees it when the process ends, however it ends.

    Says once through ``progress`` whom it waits for. Raises OctaveError naming the owner after ``timeout`` seconds,
    and OSError when the file cannot be made.
    """
    descriptor = _acquire(path, timeout, progress)
    try:
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, timeout: float, progress: Progress) -> int:
    deadline = time.monotonic() + timeout
    announced = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(descriptor, path):
                return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise OctaveError(
                    f"another build holds this lock: {_owner(descriptor)}",
                    where=str(path),
                    hint=f"wait for it or end it; OCTAVE_LOCK_TIMEOUT sets how long to wait (now {timeout:g} s)",
                ) from None
            if not announced:
                progress(f"waiting for another build: {_owner(descriptor)} ({path})")
                announced = True
            time.sleep(min(POLL_SECONDS, timeout))
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is(descriptor: int, path: Path) -> bool:
    """Whether ``path`` is still the file that was locked: its folder may have been removed in between."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _owner(descriptor: int) -> str:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):
        return "a process that has not signed it yet"
