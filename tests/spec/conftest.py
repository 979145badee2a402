"""A small valid spec whose keys a test can replace, leave out or add to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from octave_gen import spec
from octave_gen.arch import ARCHS, Arch
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import Shape

sys.path.insert(0, str(Path(__file__).resolve().parent))  # budget_words

Lines = Mapping[str, str | None]
"""TOML values by key; None leaves the key out."""

TOP: dict[str, str | None] = {
    "edition": "1",
    "family": '"octave"',
    "cache_dtypes": '["octave_k3v3"]',
    "encoders": '["plain"]',
    "head_size": "256",
    "rotary_dims": "64",
    "gqa_groups": "[1, 6]",
    "query_groups": "[1, 4]",
    "query_dtypes": '["fp16"]',
    "archs": '["gfx942"]',
}
BUDGET: dict[str, str | None] = {
    "kernel": None,
    "arch": '"gfx942"',
    "vgprs": "128",
    "agprs": "0",
    "sgprs": "102",
    "lds_bytes": "32768",
    "occupancy": "2",
}
KERNELS = ("store", "rotate", "decode", "reduce")


def _block(lines: Lines) -> str:
    return "".join(f"{key} = {value}\n" for key, value in lines.items() if value is not None)


@pytest.fixture
def portable_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kinds but ``KERNELS``, no tier but portable: what the budgets of `spec_text` are for, whatever there is."""
    # the last first: they come back in the order of the kinds
    for name in [name for name in reversed(KINDS) if name not in KERNELS]:
        monkeypatch.delitem(KINDS, name)
    for name, chip in ARCHS.items():
        monkeypatch.setitem(ARCHS, name, replace(chip, tiers=("portable",)))


@pytest.fixture
def spec_text(portable_alone: None) -> Callable[..., str]:
    """Writes the text of a spec: ``top`` changes keys of the spec, ``edits`` those of its budgets by index (0 store,
    1 rotate, 2 decode, 3 reduce), ``drop`` names the budgets to leave out, ``add`` adds budgets like decode's."""

    def write(
        top: Lines | None = None,
        edits: Mapping[int, Lines] | None = None,
        drop: Sequence[int] = (),
        add: Sequence[Lines] = (),
        text: str = "",
    ) -> str:
        budgets = [{**BUDGET, "kernel": f'"{kernel}"', **(edits or {}).get(i, {})} for i, kernel in enumerate(KERNELS)]
        budgets = [budget for i, budget in enumerate(budgets) if i not in drop]
        budgets += [{**BUDGET, "kernel": '"decode"', **lines} for lines in add]
        tables = "".join(f"\n[[budget]]\n{_block(budget)}" for budget in budgets)
        return _block({**TOP, **(top or {})}) + text + tables

    return write


@pytest.fixture
def load_text(tmp_path: Path) -> Callable[[str], spec.Spec]:
    def load(text: str) -> spec.Spec:
        file = tmp_path / "mine.toml"
        file.write_text(text, encoding="utf-8")
        return spec.load(file)

    return load


@pytest.fixture
def report(load_text: Callable[[str], spec.Spec], tmp_path: Path) -> Callable[[str], list[str]]:
    """The report's lines about a text that must be refused, without the first one; each has the right file and code."""

    def lines(text: str) -> list[str]:
        with pytest.raises(OctaveError) as caught:
            load_text(text)
        assert caught.value.exit_code == WRONG_REQUEST
        assert caught.value.where == str(tmp_path / "mine.toml")
        first, *rest = caught.value.what.split("\n")
        count = sum(line.startswith("  ") and not line.startswith("    ") for line in rest)
        assert first == ("1 problem" if count == 1 else f"{count} problems")
        return rest

    return lines


def _no_small_groups(shape: Shape, arch: Arch) -> str | None:
    return None if (shape.query_group or 0) >= 4 else "the matrix tier holds query_group 4 and more"


@pytest.fixture
def matrix_tier(portable_alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second tier of decode on gfx942, which holds heads of every size with query groups from 4."""
    decode, chip = KINDS["decode"], ARCHS["gfx942"]
    matrix = replace(decode.tiers[0], name="matrix", refuse=_no_small_groups)
    monkeypatch.setitem(KINDS, "decode", replace(decode, tiers=(*decode.tiers, matrix)))
    monkeypatch.setitem(ARCHS, "gfx942", replace(chip, tiers=(*chip.tiers, "matrix")))


@pytest.fixture
def every_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiers that hold heads of every size, so that the format alone decides."""
    for name, kind in KINDS.items():
        tiers = tuple(replace(tier, refuse=lambda shape, arch: None) for tier in kind.tiers)
        monkeypatch.setitem(KINDS, name, replace(kind, tiers=tiers))
