"""What a key of a spec can hold: numbers, known words, lists of either. Each check yields all problems of a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from octave_gen.errors import did_you_mean
from octave_gen.spec.report import Problem, show_integer, show_string, show_value


@dataclass(frozen=True)
class Integer:
    """An integer from ``low`` to ``high`` (None: no bound) in steps of ``multiple``; ``chip`` is what sets ``high``.

    offered: what `allowed` names in place of the whole range; the rest of the range is judged elsewhere.
    """

    low: int
    high: int | None = None
    multiple: int = 1
    chip: str | None = None
    offered: tuple[int, ...] = ()

    @property
    def allowed(self) -> str:
        if self.offered:
            return ", ".join(map(str, self.offered))
        if self.high is None:
            return f"{self.low} or more"
        if self.multiple > 1:
            return ", ".join(map(str, range(self.low, self.high + 1, self.multiple)))
        return f"{self.low} to {self.high}" if self.low < self.high else str(self.low)

    def problems(self, key: str, value: object) -> Iterator[Problem]:
        if type(value) is not int:  # a bool is an int to isinstance
            yield Problem(key, f"expected an integer, got {show_value(value)}", self.allowed)
        elif self.chip and self.high is not None and value > self.high:
            yield Problem(key, f"{show_integer(value)} is more than {self.chip} has", self.allowed)
        elif value < self.low or (self.high is not None and value > self.high):
            yield Problem(key, f"{show_integer(value)} is out of range", self.allowed)
        elif value % self.multiple:
            yield Problem(key, f"{value} is not a multiple of {self.multiple}", self.allowed)


@dataclass(frozen=True)
class Word:
    """One of the ``known`` strings. ``refusal``: the reason for a word that is known and not supported, or None."""

    what: str
    known: tuple[str, ...]
    refusal: Callable[[str], str | None] | None = None

    @property
    def allowed(self) -> str:
        return ", ".join(self.known)

    def problems(self, key: str, value: object) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield Problem(key, f"expected a string, got {show_value(value)}", self.allowed)
        elif value not in self.known:
            reason = self.refusal(value) if self.refusal else None
            yield Problem(key, reason or self._unknown(value), self.allowed)

    def _unknown(self, value: str) -> str:
        return f"{show_string(value)} is no {self.what}{did_you_mean(value.lower(), self.known)}"


@dataclass(frozen=True)
class ListOf:
    """A list of one or more distinct items. ``if_empty``: what to do about an empty one."""

    item: Integer | Word
    if_empty: str | None = None

    @property
    def allowed(self) -> str:
        return self.item.allowed

    def problems(self, key: str, value: object) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield self._not_a_list(key, value)
        elif not value:
            yield Problem(key, "the list is empty", self.allowed, self.if_empty)
        else:
            first: dict[object, int] = {}
            for index, item in enumerate(value):
                found = list(self.item.problems(f"{key}[{index}]", item))
                if not found and item in first:
                    found = [Problem(f"{key}[{index}]", f"{json.dumps(item)} is already at {key}[{first[item]}]")]
                if not found:
                    first[item] = index
                yield from found

    def _not_a_list(self, key: str, value: object) -> Problem:
        alone_it_fits = not any(self.item.problems(key, value))
        fix = f"write {key.rpartition('.')[2]} = [{json.dumps(value)}]" if alone_it_fits else None
        return Problem(key, f"expected a list, got {show_value(value)}", self.allowed, fix)


@dataclass(frozen=True)
class Positive:
    """A finite number above 0, written as an integer or as a float."""

    allowed = "any number above 0"

    def problems(self, key: str, value: object) -> Iterator[Problem]:
        if type(value) is not int and type(value) is not float:
            yield Problem(key, f"expected a number, got {show_value(value)}", self.allowed)
        elif not 0 < value < inf:
            shown = show_integer(value) if isinstance(value, int) else str(value)
            yield Problem(key, f"{shown} is out of range", self.allowed)


@dataclass(frozen=True)
class Tables:
    """A list of one or more tables, ``[[key]]`` in TOML; what is in them is not checked here."""

    allowed = None

    def problems(self, key: str, value: object) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield Problem(key, f"expected a list of tables, got {show_value(value)}")
        elif not value:
            yield Problem(key, "the list is empty")
        else:
            for index, item in enumerate(value):
                if not isinstance(item, dict):
                    yield Problem(f"{key}[{index}]", f"expected a table, got {show_value(item)}")


Check = Integer | Positive | Word | ListOf | Tables
