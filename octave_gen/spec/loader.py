"""From a TOML file to a checked :class:`Spec`, or to one report of everything that is wrong with the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from octave_gen import __version__, paths
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.spec import toml
from octave_gen.spec.budgets import check_budgets
from octave_gen.spec.fields import EDITION, check_table, spec_fields
from octave_gen.spec.model import Spec
from octave_gen.spec.report import refused, show_integer, together
from octave_gen.spec.shape import check_shape


def load(path: Path, label: str | None = None) -> Spec:
    """The spec in the TOML file ``path``; ``label`` (default: the file's name) becomes its ``source``.

    Raises one OctaveError that reports all problems of the file.
    """
    table = toml.read_table(path)
    _refuse_newer(table.get("edition"), str(path))
    checked = check_table(table, spec_fields(table))
    budgets, found = check_budgets(checked)
    shape = () if "kernels" in checked.doubtful else check_shape(checked.values)
    problems = [*checked.problems, *shape, *found]
    if problems:
        raise refused(problems, str(path))
    values: dict[str, Any] = {"source": label or path.name, "budgets": tuple(budgets)}
    for key in (field.name for field in fields(Spec) if field.name not in values):
        if key not in checked.values:
            continue  # optional: the model has the default
        value = checked.values[key]
        values[key] = tuple(value) if isinstance(value, list) else value
    return Spec(**values)


def load_all(files: Sequence[Path]) -> list[Spec]:
    """The specs in ``files``, a path that occurs twice once. Labels: the files' names, or the paths as they are given
    where two files share a name.

    Raises one OctaveError that reports all problems of all files.
    """
    distinct = list(dict.fromkeys(files))
    names = Counter(file.name for file in distinct)
    specs: list[Spec] = []
    errors: list[OctaveError] = []
    for file in distinct:
        try:
            specs.append(load(file, file.name if names[file.name] == 1 else str(file)))
        except OctaveError as error:
            errors.append(error)
    if errors:
        raise together(errors)
    return specs


def shipped() -> list[Spec]:
    """The specs that come with octave-gen, by file name."""
    files = sorted(paths.SPECS.glob("*.toml"))
    if not files:
        raise OctaveError("the shipped specs are missing", where=str(paths.SPECS), hint="install octave-gen again")
    return load_all(files)


def _refuse_newer(edition: object, where: str) -> None:
    """A newer edition may have other keys, so nothing else of the file is judged."""
    if type(edition) is int and edition > EDITION:
        raise wrong_request(
            f"edition {show_integer(edition)} needs a newer octave-gen: {__version__} reads edition {EDITION}",
            where=where,
            hint=f"upgrade octave-gen, or write the spec for edition = {EDITION}",
        )
