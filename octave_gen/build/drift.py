"""Whether ``generated/`` and the tables of README.md are what specs and templates say, and the way to make them so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Final

from octave_gen import manifest, paths, plan, spec
from octave_gen.build import files, readme, render
from octave_gen.build.records import unit_records
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.plan import Unit

FOLDER: Final = "generated"
MISSING: Final = "missing"
CHANGED: Final = "changed"
ORPHAN: Final = "orphan"
FIX: Final = "octave-gen generate"


@dataclass(frozen=True)
class Difference:
    """One file that is not as expected. ``path``: relative to the checkout; ``diff``: of a changed file, unified."""

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


def expected(units: Iterable[Unit]) -> dict[str, str]:
    """The text of every file of ``generated/`` by its path relative to that folder."""
    texts: dict[str, str] = {}
    records: list[manifest.Record] = []
    for unit in units:
        texts[unit.source] = render.render_unit(unit)
        records += unit_records(unit, texts[unit.source])
    texts[manifest.FILE_NAME] = manifest.dump(manifest.generated_manifest(records))
    return texts


def _wanted(root: Path) -> dict[str, bytes]:
    """Every generated file of the checkout by its path relative to ``root``; raises OctaveError for a file in the place
    of their folder."""
    folder = root / FOLDER
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise OctaveError("this is no folder", where=FOLDER, hint=f"remove it, then run `{FIX}`")
    planned = plan.variants(spec.shipped())
    texts = {f"{FOLDER}/{path}": text for path, text in expected(plan.units(planned)).items()}
    try:
        readme_text = (root / readme.FILE_NAME).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OctaveError(f"it cannot be read: {error}", where=readme.FILE_NAME) from error
    texts[readme.FILE_NAME] = readme.updated(readme_text, planned)
    return {path: text.encode() for path, text in texts.items()}


def compare(root: Path) -> list[Difference]:
    """What differs from what the checkout ``root``, which must be the running package's own, should hold."""
    return _differences(root, _wanted(root))


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

    made = unified_diff(lines(present), lines(wanted), f"{path} (is)", f"{path} (should be)", lineterm="")
    return "\n".join(made) or "the files differ in line ends or at the end of the file only"


def excerpt(differences: Sequence[Difference], files: int = 3, lines: int = 40) -> str:
    """The diffs of the first ``files`` changed files, ``lines`` lines of each, and what was left out."""
    changed = [difference for difference in differences if difference.diff]
    shown: list[str] = []
    for difference in changed[:files]:
        diff = difference.diff.splitlines()
        shown += diff[:lines]
        if len(diff) > lines:
            shown.append(f"... {len(diff) - lines} more lines of {difference.path}")
    if len(changed) > files:
        shown.append(f"... {len(changed) - files} more changed files")
    return "\n".join(shown)


def generate(root: Path, *, dry_run: bool = False) -> list[Difference]:
    """Makes the checkout ``root`` what it should be and returns what differed; ``dry_run`` only returns it.

    Orphans are removed, every other file is replaced as a whole. All texts are made before the first file is touched.
    """
    wanted = _wanted(root)
    found = _differences(root, wanted)
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


def _remove_empty_folders(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
