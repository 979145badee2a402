"""A verification of built variants: what is to do, several processes that do it, and the record of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from octave_gen import settings
from octave_gen.errors import wrong_request
from octave_gen.kernels import KINDS, kind_of
from octave_gen.kernels.splits import MAX_KV_SPLITS
from octave_gen.verify import cases, pool, record
from octave_gen.verify.built import Built
from octave_gen.verify.cases import Case
from octave_gen.verify.checks import Checked, Failure
from octave_gen.verify.record import Entry
from octave_gen.verify.subject import Subject

QUICK: Final = "quick"
FULL: Final = "full"

_PACKAGE = Path(__file__).resolve().parent.parent
_CHECKING = ("arch*", "errors.py", "formats", "isa", "kernels", "reference", "runtime/launch.py", "verify")


@dataclass(frozen=True)
class Request:
    """What to verify. ``case``: this one alone (then nothing is recorded); ``again``: also what is known to pass."""

    level: str
    seed: int
    executor: str = record.INTERPRETER
    case: Case | None = None
    again: bool = False


@dataclass(frozen=True)
class Verdict:
    """What is known of a variant now. ``fresh``: it was run by this verification; ``failure``: of a fresh run."""

    arch: str
    name: str
    entry: Entry
    fresh: bool
    failure: Failure | None = None

    @property
    def passed(self) -> bool:
        return bool(self.entry["status"] == record.PASSED)


def case_for(names: Sequence[str], text: str) -> Case:
    """The case that ``text`` writes, for the variants ``names``; raises OctaveError when they are of several kinds."""
    kinds = sorted({str(kind_of(name)) for name in names})
    if len(kinds) != 1:
        raise wrong_request(
            f"a case is for one kind of kernel, not for {', '.join(kinds)}", where="case", hint="--filter chooses"
        )
    return cases.parse(kinds[0], text)


def verify(
    built: Sequence[Built],
    names: Collection[str],
    request: Request,
    *,
    jobs: int,
    progress: Callable[[str], None],
) -> list[Verdict]:
    """Runs the variants ``names`` of ``built`` libraries, or takes what their records say; in the order of the plan.

    jobs: processes. What was run is recorded when the work ends, however it ends. Raises OctaveError for an executor
    that this machine has not, and where a record cannot be read or written.
    """
    if request.case is not None:
        for library, name in _chosen(built, names):
            _refuse(request.case, library.subject(name))
    by_arch = {library.arch: library for library in built}
    outs = {arch: library.folder.parent for arch, library in by_arch.items()}
    before = {arch: record.read(library.folder) for arch, library in by_arch.items()}
    todo: list[tuple[Built, str]] = []
    known: dict[str, Verdict] = {}
    for library, name in _chosen(built, names):
        entry = before[library.arch].get(library.hashes[name], {}).get(name, {}).get(request.executor)
        if entry is not None and _still_holds(entry, library, name, request):
            known[name] = Verdict(library.arch, name, entry, False)
        else:
            todo.append((library, name))
    if known:
        progress(f"{len(known)} of {len(known) + len(todo)} passed before and are unchanged; --again runs them too")
    fresh: dict[str, Verdict] = {}
    tasks = [pool.Task(library.arch, name, _cases(library, name, request)) for library, name in todo]
    try:
        with closing(pool.run(tasks, outs, request.executor, request.seed, jobs)) as results:
            for done, (task, finished) in enumerate(results, 1):
                entry = _entry(by_arch[task.arch], task.name, finished, request)
                fresh[task.name] = Verdict(task.arch, task.name, entry, True, finished.checked.failure)
                failed = "" if finished.checked.failure is None else "  FAILED"
                progress(f"[{done}/{len(tasks)}] {task.name} {finished.seconds:.1f} s{failed}")
    finally:
        if request.case is None:
            _save(built, fresh.values(), request, progress)
    return [{**known, **fresh}[name] for _, name in _chosen(built, names)]


def _refuse(case: Case, subject: Subject) -> None:
    """Raises OctaveError for a case that the operators would not launch the variant with."""
    multiple = KINDS[subject.kind].tier(subject.variant.key.tier).block_size_multiple
    block_size, splits = getattr(case, "block_size", multiple), getattr(case, "splits", 1)
    problem = None
    if block_size % multiple:
        problem = f"block_size is {block_size}, {subject.variant.name} takes multiples of {multiple}"
    elif splits > MAX_KV_SPLITS:
        problem = f"splits is {splits}, at most {MAX_KV_SPLITS}"
    if problem:
        raise wrong_request(problem, where="case")


def _chosen(built: Sequence[Built], names: Collection[str]) -> Iterator[tuple[Built, str]]:
    for library in built:
        for subject in library.subjects:
            if subject.variant.name in names:
                yield library, subject.variant.name


def _cases(library: Built, name: str, request: Request) -> tuple[Case, ...]:
    if request.case is not None:
        return (request.case,)
    return (cases.QUICK if request.level == QUICK else cases.FULL)[library.subject(name).kind]


def _still_holds(entry: Entry, library: Built, name: str, request: Request) -> bool:
    """Whether ``entry`` is a pass of these very bytes, by these checks, of all the cases that are asked for."""
    return (
        not request.again
        and request.case is None
        and entry["status"] == record.PASSED
        and (entry["level"] == FULL or request.level == QUICK)
        and entry["checks"] == checks_identity()
        and entry["merged_by"] == _merged_by(library, name)
    )


def _merged_by(library: Built, name: str) -> dict[str, str] | None:
    merge = library.subject(name).merge
    return None if merge is None else {"name": merge.name, "sha256": library.hashes[merge.name]}


def _entry(library: Built, name: str, finished: pool.Finished, request: Request) -> Entry:
    checked: Checked = finished.checked
    failure = checked.failure
    return {
        "status": record.PASSED if failure is None else record.FAILED,
        "level": request.level,
        "cases": [str(case) for case in checked.cases],
        "seed": request.seed,
        "checks": checks_identity(),
        "executor": dict(finished.executor),
        "merged_by": _merged_by(library, name),
        "errors": {k: float(f"{v:.3g}") for k, v in checked.measured.errors.items() if math.isfinite(v)},
        "counts": dict(checked.measured.counts),
        "failure": failure and {"case": str(failure.case), "problems": list(failure.problems)},
    }


def _save(
    built: Sequence[Built], verdicts: Collection[Verdict], request: Request, progress: Callable[[str], None]
) -> None:
    """Adds the entries to the records; a quick pass does not take the place of a pass of all cases."""
    timeout = settings.read().lock_timeout
    for library in built:
        new: record.CodeObjects = {}
        for verdict in verdicts:
            if verdict.arch == library.arch:
                sha256 = library.hashes[verdict.name]
                new.setdefault(sha256, {})[verdict.name] = {request.executor: verdict.entry}
        if new:
            held = library.hashes.values()
            record.update(library.folder, library.arch, new, held, timeout=timeout, progress=progress, keep=_better)


def _better(known: Entry, new: Entry) -> bool:
    return (
        new["status"] == known["status"] == record.PASSED
        and (known["level"], new["level"]) == (FULL, QUICK)
        and known["checks"] == new["checks"]
        and known["merged_by"] == new["merged_by"]
    )


@cache
def checks_identity() -> str:
    """16 hex digits of the sha256 of all modules that decide what a check finds."""
    digest = hashlib.sha256()
    for pattern in _CHECKING:
        for path in sorted(_PACKAGE.glob(pattern)):
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
