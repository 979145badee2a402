"""The kernels to profile as a build left them: code object, resources, and how to launch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from octave_gen import manifest, plan
from octave_gen.build.bundle import code_objects
from octave_gen.build.records import records
from octave_gen.errors import OctaveError
from octave_gen.kernels.base import FLYDSL
from octave_gen.kernels.flydsl.tiers import EXTRA
from octave_gen.plan import Variant
from octave_gen.runtime.library import variants_of
from octave_gen.verify.subject import Subject

_DECIDE_THE_CODE = ("source", "templates", "flags")
_SHOWN = 3


@dataclass(frozen=True)
class Kernel:
    """A variant of the plan, and what was built of it. ``resources``: of the built manifest."""

    variant: Variant
    subject: Subject
    resources: Mapping[str, int]
    code_object: bytes


def kernels(selected: Sequence[Variant], planned: Sequence[Variant], out: Path) -> list[Kernel]:
    """The kernels of ``selected`` in the libraries that a build of ``planned`` wrote into ``out``, in that order.

    Raises OctaveError when one is not built, or was built from other sources than the plan's.
    """
    wanted = {record["name"]: record for record in records(plan.units(plan.with_siblings(selected, planned)))}
    found: dict[str, Kernel] = {}
    for arch in dict.fromkeys(variant.arch.name for variant in selected):
        mine = [variant for variant in selected if variant.arch.name == arch]
        found |= _of_arch(mine, wanted, arch, out)
    return [found[variant.name] for variant in selected]


def _of_arch(
    selected: Sequence[Variant], wanted: Mapping[str, manifest.Record], arch: str, out: Path
) -> dict[str, Kernel]:
    built = manifest.read_built(out, arch)
    known = {record["name"]: record for record in built["variants"]} if built else {}
    missing = [
        variant.name
        for variant in selected
        if variant.name not in known
        or any(known[variant.name][key] != wanted[variant.name][key] for key in _DECIDE_THE_CODE)
    ]
    if built is None or missing:
        names = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        in_flydsl = any(v.name in missing and v.tier.language == FLYDSL for v in selected)
        raise OctaveError(
            f"{len(missing)} of {len(selected)} kernels are not built, or from other sources: {names}",
            where=str(out / arch),
            hint=f"octave-gen build --arch {arch} (with the same --spec and --out) builds them"
            + (f", those in FlyDSL where it is installed ({EXTRA})" if in_flydsl else ""),
        )
    codes = code_objects(out / arch / built["library"]["file"])
    loaded = {variant.name: variant for variant in variants_of(built)}
    return {
        variant.name: Kernel(
            variant,
            Subject(loaded[variant.name]),
            known[variant.name]["resources"],
            codes[loaded[variant.name].symbol],
        )
        for variant in selected
    }
