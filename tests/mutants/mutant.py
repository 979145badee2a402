"""A wrong kernel: a textual edit of the project's own templates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """``file`` is relative to ``templates/``; ``unit`` is the unit's name without the arch. ``slow``: not one of
    the telling ones, which CI runs."""

    name: str
    file: str
    before: str
    after: str
    unit: str
    arch: str = "gfx942"
    slow: bool = True
