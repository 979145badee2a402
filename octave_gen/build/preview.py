"""What a build would do: which units it would compile, and which code objects the cache holds already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from octave_gen import settings
from octave_gen.build import pipeline
from octave_gen.build.cache import Cache
from octave_gen.build.flydsl import left_out
from octave_gen.build.locks import Progress
from octave_gen.plan import Variant

UP_TO_DATE: Final = "up-to-date"
CACHED: Final = "cached"
COMPILE: Final = "compile"


@dataclass(frozen=True)
class Step:
    """What a build would do for a unit. ``action``: up-to-date (the library in place is the one that would be made),
    cached (the code object is there, the library would be linked anew) or compile."""

    arch: str
    unit: str
    action: str


def preview(planned: Sequence[Variant], *, out: Path, compiler: str, progress: Progress) -> list[Step]:
    """The steps of :func:`pipeline.build` for the same arguments, by arch, in the order of the plan; builds nothing.

    Raises OctaveError as the build would for a tool that is missing.
    """
    store = Cache.of(settings.read(), progress)
    steps: list[Step] = []
    for target in pipeline.targets(left_out.without(planned, progress), out=out, compiler=compiler):
        done = target.in_place(store) is not None
        for job in target.jobs:
            action = UP_TO_DATE if done else COMPILE if store.get(job.key) is None else CACHED
            steps.append(Step(target.arch, job.name, action))
    return steps
