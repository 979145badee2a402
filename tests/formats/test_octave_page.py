"""The measured tables of docs/formats/octave.md."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

from octave_gen.formats.octave.codebook import LUT
from octave_gen.formats.octave.codec import encode_block

PAGE = (Path(__file__).parents[2] / "docs" / "formats" / "octave.md").read_text(encoding="utf-8")


def rows(head: str) -> list[list[str]]:
    """The cells of the table whose first line begins so."""
    lines = PAGE.partition(f"\n{head}")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


ENCODERS = rows("| dims, bits | plain | search ")


def test_the_tables_are_found() -> None:
    assert len(ENCODERS) == 6
    assert len(rows("| dims, bits | least squares: slope ")) == 4


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row[0])
def test_errors_of_the_encoders(row: list[str]) -> None:
    n, bits = map(int, row[0].split(", "))
    x = torch.randn(1_000_000 // n, n, generator=torch.Generator().manual_seed(0))
    table = torch.tensor(LUT[bits], dtype=torch.float32) / 64
    found = []
    for name in ("plain", "search"):
        codes, scale = encode_block(x, bits, name)
        x_hat = table[codes.long()] * scale.float().unsqueeze(-1)
        found.append(float((x_hat - x).square().sum() / x.square().sum()))
    assert found == pytest.approx([float(cell) for cell in row[1:3]], rel=0.002)
    gain = re.fullmatch(r"(\d\.\d\d) dB", row[3])
    assert gain
    assert 10 * math.log10(found[0] / found[1]) == pytest.approx(float(gain[1]), abs=0.02)


def test_the_table_of_scale_rules_is_the_tested_one() -> None:
    tested = (Path(__file__).parents[1] / "claims" / "test_octave_kv.py").read_text(encoding="utf-8")
    for name, *cells in rows("| dims, bits | least squares: slope "):
        a, b, c, d, one, e = cells
        assert one == "1.0000"
        assert f"({name}, ({a}, {b}), ({c}, {d}), {e})" in tested
