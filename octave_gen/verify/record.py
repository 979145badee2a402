"""``verification.json`` beside a built manifest: what was run of each code object, on which executor, and how it went.

    {schema_version, project, arch, code_objects: {<sha256>: {<variant>: {<executor>: entry}}}}

An entry belongs to the bytes of a code object: it stays when another build holds the same ones, and goes when the
library holds them no more. Nothing in it depends on time or machine, except for what ran on a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from octave_gen import __version__, manifest
from octave_gen.build import files, locks
from octave_gen.errors import OctaveError
from octave_gen.manifest import schema

FILE_NAME: Final = manifest.VERIFICATION_FILE_NAME
SCHEMA_VERSION: Final = "1.0"
SCHEMA: Final = Path(__file__).with_name("schema.json")
INTERPRETER: Final = "interpreter"
GPU: Final = "gpu"
PASSED: Final = "passed"
FAILED: Final = "failed"
NOT_VERIFIED: Final = "not verified"
_WORDS: Final = {INTERPRETER: "interpreted", GPU: "hardware"}

Entry = dict[str, Any]
Entries = dict[str, Entry]
"""By executor."""
CodeObjects = dict[str, dict[str, Entries]]
"""By sha256 of the code object, then by variant."""


def read(folder: Path) -> CodeObjects:
    """The entries in ``folder``, empty without a file; raises OctaveError for a file that cannot be understood."""
    path = folder / FILE_NAME
    again = "remove it, and verify again"
    try:
        loaded = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise OctaveError(f"the record cannot be read: {error.strerror}", where=str(path)) from error
    except ValueError as error:
        raise OctaveError(f"the record is no JSON: {error}", where=str(path), hint=again) from error
    version = loaded.get("schema_version") if isinstance(loaded, dict) else None
    if not isinstance(version, str) or version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise OctaveError(
            f"the record's schema version is {version!r}; this octave-gen reads {SCHEMA_VERSION.partition('.')[0]}.x",
            where=str(path),
            hint="upgrade octave-gen, or remove the file and verify again",
        )
    problems = schema.misfits(loaded, _schema())
    if problems:
        raise OctaveError("the record is damaged:\n  " + "\n  ".join(problems), where=str(path), hint=again)
    found: CodeObjects = loaded["code_objects"]
    return found


def update(
    folder: Path,
    arch: str,
    new: CodeObjects,
    held: Iterable[str],
    *,
    timeout: float,
    progress: Callable[[str], None],
    keep: Callable[[Entry, Entry], bool] = lambda known, new: False,
) -> Path:
    """Adds ``new`` entries to the file in ``folder`` and drops those of code objects that are not ``held``.

    Other processes' entries stay, and so does a known entry that ``keep`` prefers to the new one. Raises OctaveError
    when a build holds the folder for longer than ``timeout`` seconds, and when it cannot be written.
    """
    path = folder / FILE_NAME
    with (
        files.explained("the record of the verification cannot be written", path, "make the folder writable"),
        locks.held(folder / ".lock", timeout=timeout, progress=progress),
    ):
        known = read(folder)
        for sha256, variants in new.items():
            for name, entries in variants.items():
                mine = known.setdefault(sha256, {}).setdefault(name, {})
                mine.update({k: entry for k, entry in entries.items() if k not in mine or not keep(mine[k], entry)})
        kept = {sha256: known[sha256] for sha256 in sorted(set(held) & set(known))}
        files.write_atomically(path, dump(arch, kept).encode("ascii"))
    return path


def dump(arch: str, code_objects: CodeObjects) -> str:
    """The file's text; raises OctaveError when it would not fit the schema."""
    made = {
        "schema_version": SCHEMA_VERSION,
        "project": {"name": "octave-gen", "version": __version__},
        "arch": arch,
        "code_objects": code_objects,
    }
    problems = schema.misfits(made, _schema())
    if problems:
        raise OctaveError("the record would not fit its schema:\n  " + "\n  ".join(problems), where=FILE_NAME)
    return manifest.dump(made)


def entries_of(code_objects: CodeObjects, record: Mapping[str, Any]) -> Entries:
    """The entries of a built manifest's record."""
    return code_objects.get(record["code_object"]["sha256"], {}).get(record["name"], {})


def words(entries: Entries) -> str:
    """``interpreted: passed``, ``interpreted: passed (quick)``, ``hardware: failed (…)`` or ``not verified``."""
    said = []
    for executor, word in _WORDS.items():
        if executor in entries:
            entry = entries[executor]
            notes = [entry["level"]] if entry["level"] != "full" else []
            notes += [entry["executor"][key] for key in ("device", "when") if key in entry["executor"]]
            said.append(f"{word}: {entry['status']}" + (f" ({', '.join(notes)})" if notes else ""))
    return ", ".join(said) or NOT_VERIFIED


@cache
def _schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="ascii"))
    return loaded
