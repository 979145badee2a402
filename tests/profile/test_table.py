"""The table and the plain data of profiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from octave_gen import manifest
from octave_gen.profile.counts import Counts
from octave_gen.profile.measure import Profile
from octave_gen.profile.model import STATEMENT
from octave_gen.profile.table import COLUMNS, data, number, table
from octave_gen.spec.model import CountedBudget

MakeProfile = Callable[..., Profile]

DECODE = "decode_octave_k3v4_h256r64_g6_q1_f16_portable_gfx942"
STORE = "store_octave_k3v4_h256r64_plain_f16_portable_gfx1100"

DATA = Path(__file__).parent / "data"


@pytest.fixture
def profiles(make_profile: MakeProfile) -> list[Profile]:
    store = Counts(valu=1333, transcendental=7, salu=40, vmem=4)
    decode = Counts(valu=26.8, transcendental=0.25, lds_bytes=3072, matrix={"v_mfma_i32_16x16x32_i8": 2})
    return [
        make_profile(STORE, store),
        make_profile(DECODE, decode, Counts(valu=1579), counted=CountedBudget(valu=25)),
    ]


def test_the_whole_table(profiles: list[Profile]) -> None:
    assert table(profiles) == (DATA / "table.txt").read_text()


def test_the_table_says_that_it_is_a_model(profiles: list[Profile]) -> None:
    first, _, *archs = (line for line in table(profiles).splitlines() if line.startswith("# "))
    assert first == f"# {STATEMENT}"
    assert "not timing" in first
    assert archs[0].startswith("# gfx1100, as Radeon RX 7900 XTX: calibrated: ")
    assert archs[1:] == ["# gfx942, as Instinct MI300X: not calibrated: no public timings"]


def test_a_line_has_a_word_for_each_column(profiles: list[Profile]) -> None:
    rows = [line.split() for line in table(profiles).splitlines() if not line.startswith("#")]
    assert rows[0] == ["variant", *COLUMNS]
    assert {len(row) for row in rows} == {len(COLUMNS) + 1}


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0.00"), (9.994, "9.99"), (26.8, "26.8"), (999.94, "999.9"), (1333.2, "1333")]
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_data_is_json_of_everything(profiles: list[Profile]) -> None:
    read = json.loads(manifest.dump(data(profiles)))
    assert read["model"]["statement"] == STATEMENT
    assert read["model"]["archs"]["gfx1100"]["hbm_bytes"] == 4.0
    assert read["model"]["archs"]["gfx942"]["calibration"] == "not calibrated: no public timings"
    store, decode = read["variants"]
    assert (store["name"], store["per"], store["lengths"]) == (STORE, "slot", [16, 32])
    assert store["clocks"]["valu"] == 677.0
    assert decode["counts"]["matrix"] == {"v_mfma_i32_16x16x32_i8": 2}
    assert decode["prologue"]["valu"] == 1579
    assert decode["bound"] == "HBM"
    assert decode["share"] == 1.0
    assert decode["budget"] == {
        "valu": {"measured": 26.8, "bound": 25},
        "clocks": {"measured": pytest.approx(35.55), "bound": None},
    }
    assert decode["resources"]["occupancy"] == 5
