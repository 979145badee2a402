"""The printed sweep."""

from __future__ import annotations

import re

import pytest

from octave_gen.profile import sweep


def test_the_sweep_prints_a_line_for_each_decode(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "CONTEXTS", (8192, 380_000))
    monkeypatch.setattr(sweep, "BATCHES", (1, 64))
    sweep.main(["--arch", "gfx1100", "--tier", "portable"])
    heads, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads[:5] == ["context", "batch", "chosen", "best", "ratio"]
    assert [row[:2] for row in rows] == [["8192", "1"], ["8192", "64"], ["380000", "1"], ["380000", "64"]]
    assert all(1 <= float(row[4]) < 1.1 for row in rows)
    assert all(re.fullmatch(r"[0-9]+x8", row[2]) for row in rows)  # 8 waves of 32 lanes
    # The public kernel's published time for 380k tokens is 14 % of the roofline.
    assert rows[2][-1] == "14%"


@pytest.mark.parametrize(("arch", "head_size"), [("gfx942", 512), ("gfx1100", 512), ("gfx942", 256)])
def test_shapes_with_128_rotary_dims_are_swept(
    arch: str, head_size: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "CONTEXTS", (8192, 131_072))
    monkeypatch.setattr(sweep, "BATCHES", (1, 64))
    sweep.main(["--arch", arch, "--head-size", str(head_size), "--rotary-dims", "128", "--group", "8"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(rows) == 4
    assert all(1 <= float(row[4]) < 1.1 for row in rows)


def test_other_shapes_are_not_compared_with_the_public_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "CONTEXTS", (1024,))
    sweep.main(["--arch", "gfx942", "--tier", "mfma", "--group", "16", "--cache-dtype", "octave_k3v3"])
    assert {line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]} == {"-"}
