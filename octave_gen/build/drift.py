"""Whether ``generated/`` and the blocks of documents are what specs and templates say, and the way to make them so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Final

from octave_gen import manifest, paths, plan, spec
from octave_gen.build import documents, files, render
from octave_gen.build.flydsl import tool, trace, traces
from octave_gen.build.locks import Progress
from octave_gen.build.records import unit_records
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.kernels.base import FLYDSL
from octave_gen.plan import Unit

FOLDER: Final = "generated"
MISSING: Final = "missing"
CHANGED: Final = "changed"
ORPHAN: Final = "orphan"
FIX: Final = "octave-gen generate"
DIFF_LINES: Final = 200
"""Of a file that are compared in detail, from the first one that differs on."""


def _say_nothing(line: str) -> None:
    pass


@dataclass(frozen=True)
class Difference:
    """One file that is not as expected. ``path``: relative to the checkout; ``diff``: of a changed file, unified, of
    `DIFF_LINES` lines from the first one that differs on."""

    word: str
    path: str
    diff: str = ""


def own_checkout() -> Path:
    """The checkout of the current folder; raises OctaveError when the running package belongs to another tree."""
    root = paths.working_checkout()
    if paths.checkout() != root:
        raise wrong_request(
            f"the octave-gen that runs ({paths.PACKAGE}) is not this checkout's own",
            where=str(root),
            hint=f"run `python -m octave_gen` in {root}, or install that checkout with `pip install -e`",
        )
    return root


def expected(units: Iterable[Unit], trace_of: Callable[[Unit], str]) -> dict[str, str]:
    """The text of every file of ``generated/`` by its path relative to that folder.

    trace_of: what flydsl traced for a unit in FlyDSL.
    """
    texts: dict[str, str] = {}
    records: list[manifest.Record] = []
    for unit in units:
        text = render.render_unit(unit)
        records += unit_records(unit, text)
        texts[unit.source] = f"{text}\n{trace_of(unit)}" if unit.language == FLYDSL else text
    texts[manifest.FILE_NAME] = manifest.dump(manifest.generated_manifest(records))
    return texts


def skipped() -> str | None:
    """What cannot be compared or written here, for want of flydsl; None when nothing."""
    units = _in_flydsl(plan.units(plan.variants(spec.shipped())))
    reason = tool.problem() if units else None
    if reason is None:
        return None
    return f"not looked at: what flydsl traces for {len(units)} units, because {reason}; {tool.REMEDY}"


def _in_flydsl(units: Iterable[Unit]) -> list[Unit]:
    return [unit for unit in units if unit.language == FLYDSL]


def _trace_of(root: Path, units: Iterable[Unit], progress: Progress) -> Callable[[Unit], str]:
    """Finds traces; without flydsl they are those that the checkout holds."""
    wanted = _in_flydsl(units)
    if wanted and tool.problem() is None:
        made = traces.traces(wanted, progress)
        return lambda unit: made[unit.name]
    return lambda unit: _present_trace(root / FOLDER / unit.source)


def _present_trace(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    _, begin, rest = text.partition(f"\n{trace.BEGIN}")
    return (begin + rest).removeprefix("\n")


def _wanted(root: Path, progress: Progress) -> dict[str, bytes]:
    """Every generated file of the checkout by its path relative to ``root``; raises OctaveError for a file in the place
    of their folder."""
    folder = root / FOLDER
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise OctaveError("this is no folder", where=FOLDER, hint=f"remove it, then run `{FIX}`")
    planned = plan.variants(spec.shipped())
    units = plan.units(planned)
    made = expected(units, _trace_of(root, units, progress))
    texts = {f"{FOLDER}/{path}": text for path, text in made.items()}
    texts.update(documents.texts(root, planned))
    return {path: text.encode() for path, text in texts.items()}


def compare(root: Path, progress: Progress = _say_nothing) -> list[Difference]:
    """What differs from what the checkout ``root``, which must be the running package's own, should hold, but for
    what is :func:`skipped`. ``progress``: of the compiles that units in FlyDSL need."""
    return _differences(root, _wanted(root, progress))


def _differences(root: Path, wanted: dict[str, bytes]) -> list[Difference]:
    found = [Difference(ORPHAN, path) for path in _files(root) if path not in wanted]
    for path, text in wanted.items():
        file = root / path
        if not file.is_file():
            found.append(Difference(MISSING, path))
        elif (present := file.read_bytes()) != text:
            found.append(Difference(CHANGED, path, _diff(path, present, text)))
    return sorted(found, key=lambda difference: difference.path)


def _files(root: Path) -> Iterator[str]:
    """Everything in ``generated/`` but folders, links to folders included."""
    for path in (root / FOLDER).rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(root).as_posix()


def _diff(path: str, present: bytes, wanted: bytes) -> str:
    def lines(data: bytes) -> list[str]:
        return data.decode(errors="backslashreplace").splitlines()

    old, new = lines(present), lines(wanted)
    same = next(
        (i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    # a diff of whole manifests takes difflib minutes
    part = slice(max(0, same - 3), same + DIFF_LINES)
    where = f", lines from {part.start + 1}" if part.start else ""
    made = list(unified_diff(old[part], new[part], f"{path} (is){where}", f"{path} (should be){where}", lineterm=""))
    if made and old[part.stop :] != new[part.stop :]:
        made.append(f"... and more of {path} from line {part.stop + 1} on")
    return "\n".join(made) or "the files differ in line ends or at the end of the file only"


def excerpt(differences: Sequence[Difference], files: int = 3, lines: int = 40) -> str:
    """The diffs of the first ``files`` changed files, ``lines`` lines of each, and what was left out."""
    changed = [difference for difference in differences if difference.diff]
    shown: list[str] = []
    for difference in changed[:files]:
        diff = difference.diff.splitlines()
        shown += diff[:lines]
        if len(diff) > lines:
            shown.append(f"... and more of {difference.path}")
    if len(changed) > files:
        shown.append(f"... {len(changed) - files} more changed files")
    return "\n".join(shown)


def generate(root: Path, *, dry_run: bool = False, progress: Progress = _say_nothing) -> list[Difference]:
    """Makes the checkout ``root`` what it should be and returns what differed; ``dry_run`` only returns it.

    Orphans are removed, every other file is replaced as a whole. All texts are made before the first file is touched.
    Raises OctaveError where units in FlyDSL have changed and flydsl is not installed.
    """
    wanted = _wanted(root, progress)
    found = _differences(root, wanted)
    _refuse_untraced(root, wanted, found)
    if dry_run:
        return found
    with files.explained("the checkout cannot be written", root, f"then run `{FIX}` again"):
        for difference in found:
            if difference.word == ORPHAN:
                (root / difference.path).unlink()
        _remove_empty_folders(root / FOLDER)
        for difference in _differences(root, wanted):
            path = root / difference.path
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, wanted[difference.path])
    return found


def _refuse_untraced(root: Path, wanted: dict[str, bytes], found: Sequence[Difference]) -> None:
    reason = tool.problem()
    if reason is None:
        return
    changed = {d.path.removeprefix(f"{FOLDER}/") for d in found if d.word != ORPHAN and d.path.endswith(f".{FLYDSL}")}
    name = f"{FOLDER}/{manifest.FILE_NAME}"
    present = _kernels_in_flydsl((root / name).read_bytes() if (root / name).is_file() else b"{}")
    for path, kernels in _kernels_in_flydsl(wanted[name]).items():
        if present.get(path) != kernels:
            changed.add(path)
    if changed:
        shown = ", ".join(sorted(changed)[:3]) + (", ..." if len(changed) > 3 else "")
        raise OctaveError(f"{len(changed)} units in FlyDSL have changed, and {reason}", where=shown, hint=tool.REMEDY)


def _kernels_in_flydsl(text: bytes) -> dict[str, list[object]]:
    """Of a manifest's units in FlyDSL: what decides the code of their kernels, by source."""
    found: dict[str, list[object]] = {}
    try:
        records = json.loads(text).get("variants", ())
    except ValueError:
        return found
    for record in records:
        if record.get("language") == FLYDSL:
            decides = [record[key] for key in ("source", "templates", "flags")]
            found.setdefault(record["source"]["path"], []).append(decides)
    return found


def _remove_empty_folders(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
