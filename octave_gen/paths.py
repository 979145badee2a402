"""Where templates, shipped specs and generated files are: in a checkout, or inside the installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from octave_gen import settings
from octave_gen.errors import OctaveError, wrong_request

PACKAGE = Path(__file__).resolve().parent
SPECS = PACKAGE / "specs"


def checkout_of(folder: Path) -> Path | None:
    """The checkout that ``folder`` lies in (the nearest parent with this project's files), or None."""
    for parent in (folder, *folder.parents):
        if (parent / "octave_gen" / "paths.py").is_file() and (parent / "templates" / "hip").is_dir():
            return parent
    return None


@cache
def checkout() -> Path | None:
    """The checkout that this package is run from, or None for an installed package."""
    return PACKAGE.parent if checkout_of(PACKAGE.parent) == PACKAGE.parent else None


def default_out() -> Path:
    """Where builds go unless a caller names a folder: ``build/`` of the checkout, else a folder of the user's cache."""
    root = checkout()
    return root / "build" if root else settings.read().cache_dir / "build"


def templates() -> Path:
    """The folder with ``hip``, ``host`` and ``include``: the checkout's, else the installed package's copy."""
    root = checkout()
    folder = root / "templates" if root else PACKAGE / "_templates"
    if not (folder / "hip").is_dir():
        raise OctaveError("the templates are missing", where=str(folder), hint="install octave-gen again")
    return folder


def working_checkout() -> Path:
    """The checkout that the current folder lies in; ``generate`` and ``check`` work on it."""
    root = checkout_of(Path.cwd())
    if root is None:
        raise wrong_request(
            "this folder is not inside a checkout of octave-gen",
            where=str(Path.cwd()),
            hint="change into the checkout; generated/ is a part of it",
        )
    return root
