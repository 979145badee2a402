"""docs/claims.md names tests that exist, and every test of this folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "claims.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"([\w/]+\.py)::(\w+)", PAGE))


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_the_tests_it_names_exist() -> None:
    assert len(NAMED) > 30
    missing = {(file, name) for file, name in NAMED if name not in functions(TESTS / file)}
    assert not missing


def test_every_test_of_a_claim_is_named() -> None:
    files = [file for file in (TESTS / "claims").glob("test_*.py") if file.name != Path(__file__).name]
    assert len(files) == 3
    assert {(f"claims/{file.name}", name) for file in files for name in functions(file)} <= NAMED


def test_every_row_has_a_test_or_a_reason() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")
    ]
    rows = [row for row in rows if row[0] not in ("claim", "---")]
    assert len(rows) > 60
    assert all(len(row) == 4 and row[0] and row[1] and row[3] for row in rows)
    # nothing is called measured that no test holds, but plain arithmetic of the published numbers
    assert all("::" in row[3] or row[3].startswith("arithmetic") for row in rows if row[2])
