"""How a library that was built compares with the plan: what list-variants and show say of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from octave_gen.arch import build_command
from octave_gen.errors import OctaveError

if TYPE_CHECKING:
    from octave_gen.manifest import Manifest, Record
    from octave_gen.verify.record import CodeObjects, Entries

BUILT: Final = "yes"
STALE: Final = "stale"
NOT_BUILT: Final = "no"

_OF_THE_REQUEST: Final = "specs"
"""The key of a record that says who asked for the kernel, not what the kernel is."""


@dataclass(frozen=True)
class Held:
    """What an output folder holds for one arch. made: the manifest of a library that can be loaded, else None;
    problem: why the library that the manifest names cannot be; verified: what was recorded of its code objects."""

    folder: Path
    made: Manifest | None = None
    problem: str | None = None
    verified: CodeObjects = field(default_factory=dict)

    def record(self, name: str) -> Record | None:
        """What was built of the variant ``name``."""
        variants = self.made["variants"] if self.made else ()
        return next((record for record in variants if record["name"] == name), None)

    def standing(self, wanted: Record) -> str:
        """``yes``: the library holds the kernel that specs and templates ask for now; ``stale``: it holds another one
        of that name; ``no``."""
        found = self.record(wanted["name"])
        if found is None:
            return NOT_BUILT
        same = all(found.get(key) == wanted[key] for key in wanted if key != _OF_THE_REQUEST)
        return BUILT if same else STALE

    def entries(self, name: str) -> Entries:
        """What was recorded of the verification of the code object that holds the variant ``name``."""
        from octave_gen.verify.record import entries_of

        found = self.record(name)
        return entries_of(self.verified, found) if found else {}


def held(out: Path, arch: str) -> Held:
    """What ``out`` holds for ``arch``; raises OctaveError for a manifest that is damaged or of something else."""
    from octave_gen import manifest
    from octave_gen.runtime.integrity import check_library
    from octave_gen.verify import record

    folder = out / arch
    made = manifest.read_built(out, arch)
    if made is None:
        return Held(folder)
    try:
        check_library(folder / made["library"]["file"], made["library"], f"{build_command(arch)} --out {out}")
    except OctaveError as error:
        return Held(folder, problem=f"{error.where}: {error.what}")
    return Held(folder, made, verified=record.read(folder))
