"""docs/centring.md: its examples run, and its numbers are those of the tests' keys."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from test_long_positions import FMTS, WINDOWS, measured

PAGE = (Path(__file__).parents[2] / "docs" / "centring.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
MEASURED = [row for row in ROWS if row[1] in FMTS]
SHARES = [row for row in ROWS if row[0].isdigit()]


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) == 2
    exec("".join(examples), names)
    assert list(names["k_center"]) == [0, 1, 2, 3]
    assert 0.6 < float(names["share"].min()) < 0.9
    assert names["cache"].any(-1).sum() == 40 * 2


def test_shares_of_pairs() -> None:
    header = next(row for row in ROWS if row[0] == "base")
    positions = [int(re.sub(r"\D", "", cell)) for cell in header[1:]]
    assert len(SHARES) == 3
    for base, *shares in SHARES:
        wanted = [max(0.0, 1 - math.log(p / math.pi) / math.log(int(base))) for p in positions]
        assert shares == [f"{100 * share:.0f} %" for share in wanted]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: " ".join(row[:3]))
def test_measured_numbers(row: list[str]) -> None:
    keys, dtype, center, *cells = row
    base, rotary_dims, profile = keys.split(", ")
    assert len(cells) == len(WINDOWS)
    for start, cell in zip(WINDOWS, cells, strict=True):
        error, kl = (float(x) for x in cell.split(" % · "))
        found = measured((float(base), int(rotary_dims), profile), FMTS[dtype], start, center)
        assert 100 * found.relative_k == pytest.approx(error, abs=0.06)
        assert float(found.kl.mean()) == pytest.approx(kl, abs=0.001)


def test_the_table_is_there() -> None:
    assert len(MEASURED) == 15
    assert {len(row) for row in MEASURED} == {7}
