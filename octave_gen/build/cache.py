"""The compile cache: entries named by a key of all that decides their content, checked whenever they are read.

An entry is one immutable file, so reading needs no lock. Writing happens under one lock for the whole cache: what lies
in its temporary folder when the lock is taken belongs to a process that has ended. A damaged entry is moved aside and
counts as a miss.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from octave_gen.build import files, locks
from octave_gen.build.locks import Progress
from octave_gen.errors import OctaveError
from octave_gen.settings import Settings

EDITION = 1
"""Part of every key: raised when the same key would come to mean other content."""

_MAGIC = b"octave-gen cache entry\n"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_HINT = "set OCTAVE_CACHE_DIR to a folder that can be written"
_LEAST_SPACE = 16 << 20
_DIAGNOSTIC = re.compile(r":\d+:\d+: (fatal )?error: ")
_NO_SPACE = "No space left on device"


def key(kind: str, **parts: Any) -> str:
    """The key of an entry: sha256 of its kind and of ``parts`` (JSON values), which must name all that decides it."""
    text = json.dumps({"edition": EDITION, "kind": kind, "parts": parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + data).digest()


@dataclass
class Cache:
    """The cache in ``folder``, at most ``limit`` bytes large after each writing session."""

    folder: Path
    limit: int
    lock_timeout: float
    progress: Progress
    _used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, settings: Settings, progress: Progress) -> Cache:
        return cls(settings.cache_dir, settings.cache_limit, settings.lock_timeout, progress)

    def get(self, name: str) -> bytes | None:
        """The content stored under the key ``name``, or None; raises OctaveError when the cache cannot be read."""
        path = self._path(name)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise files.explanation(error, "the compile cache cannot be read", self.folder, _HINT) from error
        data = raw[_HEADER:]
        if raw[:_HEADER] != _MAGIC + _digest(name, data):
            self._quarantine(path)
            return None
        self._used.add(name)
        with suppress(OSError):  # the time of last use serves eviction only; a cache that can only be read still hits
            path.touch()
        return data

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Holds the cache's lock for a session that compiles and stores; evicts what exceeds the limit at its end."""
        with ExitStack() as stack:
            with self._explained():
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = locks.held(self.folder / "lock", timeout=self.lock_timeout, progress=self.progress)
                stack.enter_context(lock)
                shutil.rmtree(self.folder / "tmp", ignore_errors=True)
                scratch = self.folder / "tmp" / secrets.token_hex(8)
                scratch.mkdir(parents=True)
                stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            yield Session(self, scratch)
            with self._explained():
                self._evict()

    def _explained(self) -> AbstractContextManager[None]:
        return files.explained("the compile cache cannot be written", self.folder, _HINT)

    def _path(self, name: str) -> Path:
        return self.folder / "entries" / name[:2] / name

    def _store(self, name: str, data: bytes, scratch: Path) -> None:
        path = self._path(name)
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, _MAGIC + _digest(name, data) + data, scratch)
        self._used.add(name)

    def _quarantine(self, path: Path) -> None:
        aside = self.folder / "quarantine" / f"{path.name}.{secrets.token_hex(4)}"
        with self._explained():
            aside.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # another process was faster
                path.replace(aside)
        self.progress(f"the cache entry {path.name[:16]} was damaged: moved to {aside.parent}, made again")

    def _evict(self) -> None:
        """Removes entries, damaged ones and then the least recently used first, until the rest fits the limit."""
        found = []
        for folder in ("quarantine", "entries"):
            for path in (self.folder / folder).rglob("*"):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    if path.is_file():
                        age = (folder == "entries", path.name in self._used, status.st_mtime_ns)
                        found.append((age, status.st_size, path))
        size = sum(entry_size for _, entry_size, _ in found)
        for _, entry_size, path in sorted(found):
            if size <= self.limit:
                return
            path.unlink(missing_ok=True)
            size -= entry_size


@dataclass
class Session:
    """The holder of the cache's lock. ``scratch``: a folder of its own, removed at the end."""

    cache: Cache
    scratch: Path

    def put(self, name: str, data: bytes) -> None:
        """Stores ``data`` under the key ``name``; raises OctaveError naming OCTAVE_CACHE_DIR when it cannot."""
        self.cache._store(name, data, self.scratch)

    def check_space(self, logs: Sequence[str]) -> None:
        """Raises OctaveError when the failures of tools in ``scratch``, which printed ``logs``, come of a full disk.

        Tools crash in many ways there, and may say nothing of it.
        """
        told = any(_NO_SPACE in log for log in logs)
        explained = bool(logs) and all(_DIAGNOSTIC.search(log) for log in logs)
        if told or (not explained and shutil.disk_usage(self.scratch).free < _LEAST_SPACE):
            raise OctaveError(
                "the compile cache cannot be written: its disk is full",
                where=str(self.cache.folder),
                hint=f"free some space there, or {_HINT}",
            )
