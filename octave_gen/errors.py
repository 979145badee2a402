"""The one exception type of the project."""

from __future__ import annotations

from typing import Final

WORK_FAILED: Final = 1
WRONG_REQUEST: Final = 2


class OctaveError(Exception):
    """Something went wrong that the reader can act on.

    Args:
        what: what went wrong, in one sentence; further lines may list several problems.
        where: file, key, variant or command that it concerns.
        hint: what to do about it.
        exit_code: ``WORK_FAILED`` (the request was fine, the work failed) or ``WRONG_REQUEST`` (the request itself
            cannot be met); the command line exits with it.
    """

    def __init__(
        self, what: str, *, where: str | None = None, hint: str | None = None, exit_code: int = WORK_FAILED
    ) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(what)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def wrong_request(what: str, *, where: str | None = None, hint: str | None = None) -> OctaveError:
    """An :class:`OctaveError` whose cause is the request, not the work."""
    return OctaveError(what, where=where, hint=hint, exit_code=WRONG_REQUEST)


def did_you_mean(word: str, known: list[str] | tuple[str, ...], limit: int = 3) -> str:
    """``" (did you mean a, b?)"`` with the known words nearest to ``word``, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), known, n=limit, cutoff=0.6)
    return f" (did you mean {', '.join(near)}?)" if near else ""
