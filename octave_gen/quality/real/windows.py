"""Which tokens of a text the model reads: windows spread evenly, and others for calibration that share no token."""

from __future__ import annotations

from dataclasses import dataclass

from octave_gen.errors import OctaveError


@dataclass(frozen=True)
class Window:
    """Tokens start ... start + tokens - 1 of the text."""

    start: int
    tokens: int

    @property
    def end(self) -> int:
        return self.start + self.tokens

    def meets(self, other: Window) -> bool:
        return self.start < other.end and other.start < self.end


def at_starts(total: int, tokens: int, count: int) -> list[Window]:
    """The first ``tokens`` of each of ``count`` equal sections of a text of ``total`` tokens."""
    return [Window(total * section // count, tokens) for section in _sections(total, tokens, count)]


def at_ends(total: int, tokens: int, count: int) -> list[Window]:
    """The last ``tokens`` of each section."""
    return [Window(total * (section + 1) // count - tokens, tokens) for section in _sections(total, tokens, count)]


def check_apart(windows: list[Window], others: list[Window]) -> None:
    """OctaveError where a window of one list shares tokens with one of the other."""
    for window in windows:
        for other in others:
            if window.meets(other):
                raise OctaveError(
                    f"tokens {window.start} to {window.end} are measured, and {other.start} to {other.end} calibrated",
                    hint="ask for fewer windows",
                )


def _sections(total: int, tokens: int, count: int) -> range:
    if count < 1 or tokens < 2 or total // count < tokens:
        raise OctaveError(
            f"{count} windows of {tokens} tokens from a text of {total}", hint="ask for fewer or shorter windows"
        )
    return range(count)
