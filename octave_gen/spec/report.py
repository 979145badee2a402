"""The report on a spec file: every problem with its key, what is wrong, what is allowed and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from octave_gen.errors import OctaveError, wrong_request

LONGEST_VALUE = 60
HINT = "nothing is built from a spec with problems; octave_h256r64.toml, which comes with octave-gen, is a complete one"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a spec.

    key: dotted, lists by index from 0, such as ``budget[2].vgprs``; allowed: the values that the key can have;
    fix: what to write; about: the kernel and arch that a budget is for.
    """

    key: str
    what: str
    allowed: str | None = None
    fix: str | None = None
    about: str | None = None

    def lines(self) -> list[str]:
        """The problem as the report shows it."""
        about = f" ({self.about})" if self.about else ""
        details = (("allowed", self.allowed), ("fix", self.fix))
        return [f"  {self.key}{about}: {self.what}", *(f"    {word}: {text}" for word, text in details if text)]


def refused(problems: Sequence[Problem], where: str) -> OctaveError:
    """One error for all problems of the file ``where``."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    text = "\n".join([count, *(line for problem in problems for line in problem.lines())])
    return wrong_request(text, where=where, hint=HINT)


def together(errors: Sequence[OctaveError]) -> OctaveError:
    """One error for those of several files; a hint that all of them give comes once."""
    if len(errors) == 1:
        return errors[0]
    hints = {error.hint for error in errors}
    shared = errors[0].hint if len(hints) == 1 else None
    parts = [str(OctaveError(error.what, where=error.where, hint=None if shared else error.hint)) for error in errors]
    return wrong_request("\n".join([f"{len(errors)} spec files cannot be used", *parts]), hint=shared)


def show_key(key: str) -> str:
    """A TOML key as a report writes it: quoted where TOML would ask for quotes."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else show_string(key)


def show_string(value: str) -> str:
    """A string in quotes, in ASCII, and cut where it is very long."""
    return _shorten(json.dumps(value))


def show_value(value: object) -> str:
    """A TOML value with its type: ``the string "128"``, ``the boolean true``, ``a table``."""
    if isinstance(value, str):
        return f"the string {show_string(value)}"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int):
        return f"the integer {show_integer(value)}"
    if isinstance(value, float):
        return f"the float {value}"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else "a date or time"


def show_integer(value: int) -> str:
    """The digits; TOML promises no more than 64 bits, and Python refuses to print integers that are very long."""
    return str(value) if abs(value) < 1 << 64 else "beyond 64 bits"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 4] + '..."'
