"""Files that are either whole or not there: a temporary file, fsync, rename."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from octave_gen.errors import OctaveError

_TEMPORARY = ".tmp"


def write_atomically(path: Path, data: bytes, scratch: Path | None = None) -> None:
    """Writes ``path`` whole and durably, replacing what is there; its folder must exist. Raises OSError.

    scratch: folder of the same file system for the unfinished file (default: the folder of ``path``, where
    :func:`sweep` finds what a killed process left).
    """
    temporary = (scratch or path.parent) / f".{path.name}.{secrets.token_hex(8)}{_TEMPORARY}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Removes unfinished files of processes that have ended; only for the holder of the folder's lock."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        path.unlink(missing_ok=True)


def explanation(error: OSError, what: str, where: Path, hint: str) -> OctaveError:
    """``error`` as an OctaveError: ``what`` failed and why, at the file concerned, with ``hint``."""
    full = "free some space there, or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return OctaveError(f"{what}: {error.strerror or error}", where=str(error.filename or where), hint=f"{full}{hint}")


@contextmanager
def explained(what: str, where: Path, hint: str) -> Iterator[None]:
    """Turns an OSError of the block into its :func:`explanation`."""
    try:
        yield
    except OSError as error:
        raise explanation(error, what, where, hint) from error
