"""How the child tells its parent of a unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAILED: Final = 1
SPOKE: Final = 3
"""The exit status of a compile that made a code object and printed something all the same."""

SIGNALLED: Final = 128
"""What is added to the number of the signal that ended a unit."""

_MARK: Final = "\x1f"


@dataclass(frozen=True)
class Ended:
    """A unit that ended. ``status``: as a shell shows it, SIGNALLED and more for a signal."""

    name: str
    status: int
    seconds: float


def line(name: str, status: int, seconds: float) -> str:
    """What :func:`parse` reads; without a line break."""
    return _MARK.join(["", name, str(status), f"{seconds:.3f}"])


def parse(text: str) -> Ended | None:
    """The unit that a line tells of; None for any other line."""
    if not text.startswith(_MARK):
        return None
    _, name, status, seconds = text.split(_MARK)
    return Ended(name, int(status), float(seconds))
