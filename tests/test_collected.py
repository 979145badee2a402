"""pytest looks into every room of the tests: by default it passes over some names of folders, ``build`` among them."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def test_no_room_is_passed_over(pytestconfig: pytest.Config) -> None:
    rooms = {part for file in TESTS.rglob("test_*.py") for part in file.relative_to(TESTS).parts[:-1]}
    assert {"build", "cli", "isa"} <= rooms
    patterns = pytestconfig.getini("norecursedirs")
    assert [room for room in sorted(rooms) if any(fnmatch(room, pattern) for pattern in patterns)] == []
