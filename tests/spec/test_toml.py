"""Files that are no spec at all: not there, not readable, not text, not TOML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from octave_gen import spec
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.spec import toml


def _refusal(text: str) -> OctaveError:
    with pytest.raises(OctaveError) as caught:
        toml.parse(text, "mine.toml")
    assert caught.value.exit_code == WRONG_REQUEST
    return caught.value


@pytest.mark.parametrize(
    ("text", "position", "line", "caret"),
    [
        ("a = 1\nb = = 2\n", "2:5", "b = = 2", "    ^"),
        ("a = 1\r\nb = = 2\r\n", "2:5", "b = = 2", "    ^"),
        ("\tb = = 2", "1:6", "\tb = = 2", "\t    ^"),
        ("a = [1, 2\n\n", "1:10", "a = [1, 2", "         ^"),
        ('a = """x', "1:9", 'a = """x', "        ^"),
        ('a = "x\n', "1:7", 'a = "x', "      ^"),
        ("a = gfx942", "1:5", "a = gfx942", "    ^"),
        ("[[budget]\n", "1:9", "[[budget]", "        ^"),
    ],
)
def test_a_syntax_error_shows_line_and_column(text: str, position: str, line: str, caret: str) -> None:
    error = _refusal(text)
    assert error.where == f"mine.toml:{position}"
    what, shown, below = error.what.split("\n")
    assert what.startswith("this is no TOML: ")
    assert "(at " not in what
    assert (shown, below) == (f"    {line}", f"    {caret}")


def test_a_key_that_occurs_twice_is_a_syntax_error() -> None:
    error = _refusal("edition = 1\nedition = 1\n")
    assert error.where is not None
    assert error.where.startswith("mine.toml:2:")


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in str(_refusal('a = "\x1b[2J" b\n'))


def test_deep_nesting_is_an_error_of_the_file() -> None:
    assert "nested too deeply" in str(_refusal("a = " + "[" * 100_000))


def test_an_integer_that_python_refuses_to_read() -> None:
    assert "too many digits" in str(_refusal("a = " + "1" * 5000))


def _load_refusal(path: Path) -> OctaveError:
    with pytest.raises(OctaveError) as caught:
        spec.load(path)
    assert caught.value.exit_code == WRONG_REQUEST
    return caught.value


def test_a_path_that_is_no_file(tmp_path: Path) -> None:
    assert str(_load_refusal(tmp_path / "none.toml")) == (
        f"{tmp_path}/none.toml: there is no such file\n  hint: name the TOML file of a spec"
    )
    assert "this is not a file" in str(_load_refusal(tmp_path))
    assert "this is not a file" in str(_load_refusal(Path("/dev/null")))
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert "this is not a file" in str(_load_refusal(pipe))
    assert "there is no such file" in str(_load_refusal(tmp_path / "none.toml" / "mine.toml"))


def test_a_name_that_the_file_system_refuses(tmp_path: Path) -> None:
    assert "the file cannot be read: File name too long" in str(_load_refusal(tmp_path / ("x" * 300)))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    file = tmp_path / "mine.toml"
    file.write_text("edition = 1\n")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert str(_load_refusal(file)) == f"{file}: the file cannot be read: Permission denied"


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes("edition = 1\n# für\n".encode("latin-1"))
    error = _load_refusal(file)
    assert error.where == f"{file}:2"
    assert "not UTF-8" in error.what


def test_a_byte_order_mark_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("edition = 1\n", encoding="utf-8-sig")
    assert "byte order mark" in _load_refusal(file).what


def test_line_ends_of_windows_and_text_beyond_ascii_are_fine() -> None:
    assert toml.parse("a = 1 # größer\r\nb = 'ü'\r\n", "mine.toml") == {"a": 1, "b": "ü"}
