"""A built library as verify needs it: its manifest, its kernels and their code objects, checked against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from octave_gen import arch as archs
from octave_gen import manifest, plan
from octave_gen.build.bundle import code_objects
from octave_gen.errors import OctaveError, wrong_request
from octave_gen.plan import Variant
from octave_gen.runtime.integrity import check_library
from octave_gen.runtime.library import variants_of
from octave_gen.verify.subject import Subject, subjects


@dataclass(frozen=True)
class Built:
    """One arch of an output folder. hashes: sha256 of the code object of each variant, by its name."""

    arch: str
    folder: Path
    manifest: Mapping[str, Any]
    subjects: tuple[Subject, ...]
    code_objects: Mapping[str, bytes]
    hashes: Mapping[str, str]

    def subject(self, name: str) -> Subject:
        """The variant of that name."""
        return next(subject for subject in self.subjects if subject.variant.name == name)


def read(out: Path, arch: str) -> Built:
    """What a build wrote into ``out`` for ``arch``.

    Raises OctaveError when there is no such library, when it is damaged, when its kernels are not those of its
    manifest, and when another version of octave-gen launches them in another way.
    """
    archs.get(arch)
    rebuild = f"{archs.build_command(arch)} --out {out}"
    made = manifest.read_built(out, arch)
    folder = out / arch
    if made is None:
        raise wrong_request(f"there is no library for {arch}", where=str(folder), hint=f"build it: {rebuild}")
    library = folder / made["library"]["file"]
    check_library(library, made["library"], rebuild)
    found = code_objects(library)
    hashes = {}
    for record in made["variants"]:
        data = found.get(record["symbol"], b"")
        hashes[record["name"]] = manifest.sha256(data)
        if hashes[record["name"]] != record["code_object"]["sha256"]:
            raise OctaveError(
                f"the library holds another code object of {record['name']} than its manifest says",
                where=str(library),
                hint=f"build it again: {rebuild}",
            )
    return Built(arch, folder, made, tuple(subjects(variants_of(made))), found, hashes)


def built_archs(out: Path) -> list[str]:
    """The archs that ``out`` holds a manifest for; raises OctaveError when there is none."""
    found = [arch for arch in archs.ARCHS if (out / arch / manifest.FILE_NAME).exists()]
    if not found:
        hint = "`octave-gen build` builds; --out names another folder"
        raise wrong_request("nothing is built here", where=str(out), hint=hint)
    return found


def choose(libraries: Sequence[Built], pattern: str | None, planned: Iterable[Variant] | None) -> list[str]:
    """Names of the variants of ``libraries`` that match the glob ``pattern`` and are ``planned``; None: all.

    Raises OctaveError when none is left, and for a planned one, of a library's arch, that is not built.
    """
    names = [subject.variant.name for library in libraries for subject in library.subjects]
    if planned is not None:
        archs_built = {library.arch for library in libraries}
        wanted = {variant.name for variant in planned if variant.arch.name in archs_built}
        missing = sorted(name for name in wanted if name not in names and _matches(name, pattern))
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise wrong_request(f"not built: {', '.join(missing[:3])}{more}", hint="build the same specs first")
        names = [name for name in names if name in wanted]
    if not names:
        raise wrong_request("these specs name no chip that a library is there for", hint="build the same specs first")
    found = [name for name in names if _matches(name, pattern)]
    if not found and pattern is not None:
        near = ", ".join(plan.nearest(pattern, names))
        raise wrong_request(
            f"no variant that is built matches {pattern[: plan.LONGEST_PATTERN]!r} (did you mean {near}?)",
            where="filter",
            hint="octave-gen list-variants shows all",
        )
    return found


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is None or fnmatchcase(name, pattern)
