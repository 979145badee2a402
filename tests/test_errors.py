"""The one exception type, and suggestions."""

from __future__ import annotations

import pickle

import pytest

from octave_gen.errors import WORK_FAILED, WRONG_REQUEST, OctaveError, did_you_mean, wrong_request


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OctaveError("it broke"), "it broke"),
        (OctaveError("it broke", where="a.toml"), "a.toml: it broke"),
        (OctaveError("it broke", hint="mend it"), "it broke\n  hint: mend it"),
        (OctaveError("it broke", where="a.toml", hint="mend it"), "a.toml: it broke\n  hint: mend it"),
    ],
)
def test_an_error_says_where_what_and_what_to_do(error: OctaveError, text: str) -> None:
    assert str(error) == text


def test_exit_codes() -> None:
    assert OctaveError("it broke").exit_code == WORK_FAILED == 1
    error = wrong_request("no such thing", where="filter", hint="ask for another")
    assert error.exit_code == WRONG_REQUEST == 2
    assert (error.what, error.where, error.hint) == ("no such thing", "filter", "ask for another")


def test_an_error_is_caught_as_an_exception_with_its_message() -> None:
    with pytest.raises(Exception, match=r"a\.toml: it broke"):
        raise OctaveError("it broke", where="a.toml")


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(wrong_request("no such thing", where="filter", hint="ask for another")))
    assert (str(error), error.exit_code) == ("filter: no such thing\n  hint: ask for another", WRONG_REQUEST)


@pytest.mark.parametrize(
    ("word", "known", "text"),
    [
        ("decod", ["store", "decode"], " (did you mean decode?)"),
        ("gfx90", ("gfx900", "gfx906", "store"), " (did you mean gfx906, gfx900?)"),
        ("quux", ["store", "decode"], ""),
        ("", ["store"], ""),
        ("store", [], ""),
    ],
)
def test_near_words_are_suggested(word: str, known: list[str], text: str) -> None:
    assert did_you_mean(word, known) == text


def test_suggestions_are_limited() -> None:
    known = [f"word{i}" for i in range(9)]
    assert did_you_mean("word", known).count("word") == 3
    assert did_you_mean("word", known, limit=1).count("word") == 1
