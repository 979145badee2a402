"""Is never traced to its end."""

from __future__ import annotations

import itertools

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> None:
    for _ in itertools.count():
        pass
