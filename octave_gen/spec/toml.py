"""TOML files with errors that say where: file, line and column."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from octave_gen.errors import OctaveError, wrong_request

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_table(path: Path) -> dict[str, Any]:
    """The table that the TOML file ``path`` holds; raises OctaveError for a file that cannot be read or is no TOML."""
    return parse(_read_text(path), str(path))


def parse(text: str, where: str) -> dict[str, Any]:
    """The table that ``text`` holds; raises OctaveError with line, column and the line itself."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise wrong_request("the values are nested too deeply", where=where) from None
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, where) from None
    except ValueError as error:  # Python's limit on the digits of an integer
        raise wrong_request("an integer has too many digits", where=where) from error


def _read_text(path: Path) -> str:
    try:
        if not path.is_file():
            problem = "this is not a file" if path.exists() else "there is no such file"
            raise wrong_request(problem, where=str(path), hint="name the TOML file of a spec")
        data = path.read_bytes()
    except OSError as error:
        raise wrong_request(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise wrong_request(
            "this is not UTF-8, which TOML asks for", where=f"{path}:{line}", hint="save the file as UTF-8"
        ) from None
    if text.startswith("\ufeff"):
        raise wrong_request(
            "the file starts with a byte order mark", where=f"{path}:1:1", hint="save the file as UTF-8 without it"
        )
    return text


def _syntax_error(message: str, text: str, where: str) -> OctaveError:
    match = _POSITION.search(message)
    lines = text.replace("\r\n", "\n").rstrip().split("\n")
    end = (len(lines), len(lines[-1]) + 1)
    line, column = (int(match[1]), int(match[2])) if match and match[1] else end
    reason = _POSITION.sub("", message)
    source = lines[line - 1] if line <= len(lines) else ""
    before = re.sub(r"[^\t]", " ", source[: column - 1])
    shown = "".join(c if c.isprintable() or c == "\t" else "?" for c in source)
    return wrong_request(f"this is no TOML: {reason}\n    {shown}\n    {before}^", where=f"{where}:{line}:{column}")
