"""Removes what builds left: libraries, manifests and kept failures of an output folder, and the compile cache."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from octave_gen import arch, manifest, settings
from octave_gen.build import failures, files, locks
from octave_gen.build.locks import Progress

CACHE_FOLDERS: Final = ("entries", "quarantine", "tmp")
_HINT: Final = "remove it by hand"


@dataclass(frozen=True)
class Removed:
    """A file, or a folder with all that is in it. ``size``: bytes."""

    path: Path
    size: int


def outputs(out: Path, *, arch_names: Sequence[str] = (), dry_run: bool, progress: Progress) -> list[Removed]:
    """Removes what builds of ``arch_names`` (empty: every arch) write into ``out``, then its folders that are empty;
    all other files stay.

    dry_run: only says what. Raises OctaveError for an unknown arch, when a build holds the folder for too long or a
    file cannot be removed.
    """
    removed: list[Removed] = []
    for folder in (out / arch.get(name).name for name in arch_names or arch.ARCHS):
        if not folder.is_dir():
            continue
        if dry_run:
            removed += map(_measured, _outputs(folder))
            continue
        with files.explained("it cannot be removed", folder, _HINT):
            lock = folder / ".lock"
            with locks.held(lock, timeout=settings.read().lock_timeout, progress=progress):
                removed += [_remove(path) for path in _outputs(folder)]
                files.sweep(folder)
                lock.unlink(missing_ok=True)
            _remove_if_empty(folder)
    if not dry_run and removed:
        _remove_if_empty(out)
    return removed


def _outputs(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob(f"liboctave_{folder.name}-*.so"))
    others = (manifest.FILE_NAME, manifest.VERIFICATION_FILE_NAME, failures.FOLDER)
    yield from (folder / name for name in others if (folder / name).exists())


def compile_cache(*, dry_run: bool, progress: Progress) -> list[Removed]:
    """Empties the compile cache while holding its lock."""
    found = settings.read()
    folders = [found.cache_dir / name for name in CACHE_FOLDERS if (found.cache_dir / name).is_dir()]
    if dry_run or not folders:
        return [_measured(path) for path in folders]
    with (
        files.explained("the compile cache cannot be removed", found.cache_dir, _HINT),
        locks.held(found.cache_dir / "lock", timeout=found.lock_timeout, progress=progress),
    ):
        return [_remove(path) for path in folders if path.is_dir()]


def _measured(path: Path) -> Removed:
    paths = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    size = 0
    for file in paths:
        with suppress(FileNotFoundError):
            size += file.lstat().st_size if not file.is_dir() else 0
    return Removed(path, size)


def _remove(path: Path) -> Removed:
    removed = _measured(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return removed


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # it holds something that no build wrote
        folder.rmdir()
