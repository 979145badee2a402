"""What a build would take away: variants of the library that is in its folder already."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from octave_gen import manifest, paths, plan, spec
from octave_gen.build.target import Target
from octave_gen.errors import OctaveError, wrong_request


def refuse_loss(targets: Iterable[Target], out: Path) -> None:
    """Raises OctaveError when ``out`` is the default folder of builds, which `load` takes libraries from, and holds a
    larger library than one of ``targets`` that leaves out variants of the shipped specs."""
    if out.resolve() != paths.default_out().resolve():
        return
    for target in targets:
        there = len(variants_in(target))
        wanted = {record["name"] for record in target.records}
        if there > len(wanted) and _leaves_out_shipped(target.arch, wanted):
            raise wrong_request(
                f"this build has {counted(len(wanted), 'variant')}, and would replace a library of {there}",
                where=str(target.folder),
                hint="name another folder with `--out DIR`, or remove that library first with "
                f"`octave-gen clean --arch {target.arch}`",
            )


def _leaves_out_shipped(arch: str, wanted: set[str]) -> bool:
    specs = [shipped for shipped in spec.shipped() if arch in shipped.archs]
    return bool(specs) and not wanted >= {variant.name for variant in plan.variants(specs, [arch])}


def variants_in(target: Target) -> frozenset[str]:
    """The variants of the library in the target's folder, by its manifest; none where that cannot be read."""
    try:
        described = manifest.read(target.folder / manifest.FILE_NAME)
    except OctaveError:
        return frozenset()
    return frozenset(record["name"] for record in described["variants"] if described["stage"] == manifest.BUILT)


def note(target: Target) -> str | None:
    """What to say when the target replaces a library that holds variants which it does not."""
    there = variants_in(target)
    lost = there - {record["name"] for record in target.records}
    if not lost:
        return None
    return (
        f"{target.arch}: replaces a library of {counted(len(there), 'variant')}, {len(lost)} of which it does not hold"
    )


def counted(count: int, noun: str) -> str:
    """``1 unit``, ``2 units``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
