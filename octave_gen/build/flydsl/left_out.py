"""What a build leaves out where flydsl, which is optional, is missing or cannot compile for a chip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from octave_gen.build.flydsl import tool
from octave_gen.build.locks import Progress
from octave_gen.errors import OctaveError
from octave_gen.kernels.base import FLYDSL
from octave_gen.plan import Variant

_SHOWN = 3


def problems(planned: Iterable[Variant]) -> dict[str, str]:
    """Why flydsl cannot compile, by chip, for the chips of the variants that it is needed for."""
    archs = dict.fromkeys(variant.arch.name for variant in planned if variant.tier.language == FLYDSL)
    found = {arch: tool.problem(arch) or tool.unchecked() for arch in archs}
    return {arch: problem for arch, problem in found.items() if problem is not None}


def without(planned: Sequence[Variant], progress: Progress) -> list[Variant]:
    """The variants that can be built here. ``progress`` is told what is left out, why, and what to do about it.

    Raises OctaveError when nothing is left.
    """
    reasons = problems(planned)
    lost = [v for v in planned if v.tier.language == FLYDSL and v.arch.name in reasons]
    kept = [v for v in planned if v not in lost]
    for arch, reason in reasons.items():
        names = [variant.name for variant in lost if variant.arch.name == arch]
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        if not kept:
            raise OctaveError(f"{reason}, and all {len(lost)} variants need it", where=shown, hint=tool.remedy(arch))
        progress(f"{arch}: left out {len(names)} of {len(planned)} variants ({shown}): {reason}; {tool.remedy(arch)}")
    return kept
