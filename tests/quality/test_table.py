"""The table and the data of results."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from octave_gen import manifest
from octave_gen.quality.bench import Section
from octave_gen.quality.measure import Measures, Result
from octave_gen.quality.sample import DataSet, Sample
from octave_gen.quality.table import data, number, table, value_text

MakeSample = Callable[..., Sample]


def measures(error: float, recall: float | None = None) -> Measures:
    return Measures(error, error / 2, error * 2, error**2, -20 * math.log10(error) if error else math.inf, recall)


@pytest.fixture
def sections(make_sample: MakeSample) -> list[Section]:
    samples = [make_sample(f"layer {layer}", layer) for layer in range(2)]
    one = [
        Result("octave_k3v3", 12, 16, False, {"layer 0": measures(0.1), "layer 1": measures(0.2)}),
        Result("octave_k3v3", 12, 16, True, {"layer 0": measures(0.05), "layer 1": measures(0.1)}),
        Result("fp16", 64, 16, False, {"layer 0": measures(0.0), "layer 1": measures(0.0)}),
    ]
    other = [Result("octave_k3v3", 12, 16, False, {"seed 0": measures(math.inf, recall=0.5)})]
    return [
        Section(DataSet("model.npz", ("layers 0, 1",), samples), one, {"turbo3": "16 is no multiple of 128"}),
        Section(DataSet("needle", ("what it mimics", "formula"), [make_sample("seed 0")]), other, {}),
    ]


def test_the_table(sections: list[Section]) -> None:
    lines = table(sections).splitlines()
    notes = [line for line in lines if line.startswith("#")]
    assert len(notes) == 6 + 3 + 4
    assert notes[6:9] == [
        "# model.npz",
        "#   layers 0, 1",
        "#   2 samples of 20 tokens, 4 query heads on 2 kv, head size 16",
    ]
    assert notes[-1] == "#   1 sample of 20 tokens, 4 query heads on 2 kv, head size 16"
    rest = [line for line in lines if line and not line.startswith("#")]
    heads = ["format", "bytes", "bits", "k-error", "v-error", "out-error", "kl", "snr", "to-bound"]
    assert rest[0].split() == heads
    assert rest[1].split() == [
        *("octave_k3v3", "12", "3.00"),
        *("0.1500±0.0500", "0.07500±0.02500", "0.3000±0.1000", "0.02500±0.01500", "16.99±3.01", "1.07"),
    ]
    assert rest[2].startswith("octave_k3v3 centred ")
    assert rest[3].split() == ["fp16", "64", "16.00", "exact", "exact", "exact", "exact", "exact", "-"]
    assert rest[4].split() == [*heads, "recall"]
    assert rest[5].split() == ["octave_k3v3", "12", "3.00", "inf", "inf", "inf", "inf", "-inf", "-", "0.500"]
    assert len({len(line) for line in rest[:4]}) == len({len(line) for line in rest[4:]}) == 1


def test_the_legend_says_what_is_there(sections: list[Section]) -> None:
    assert "recall" not in table(sections[:1])
    assert "±" not in table(sections[1:])


def test_json_has_stable_keys_and_no_infinity(sections: list[Section]) -> None:
    read: dict[str, Any] = json.loads(manifest.dump(data(sections)))
    assert set(read) == {"data"}
    first, second = read["data"]
    assert set(first) == {"name", "notes", "head_size", "samples", "formats", "left_out"}
    assert first["samples"][1] == {"name": "layer 1", "tokens": 20, "window": None}
    assert first["left_out"] == {"turbo3": "16 is no multiple of 128"}
    names = {"k_error", "v_error", "output_error", "kl", "snr", "recall"}
    for found in first["formats"]:
        assert set(found) == {
            *("format", "centred", "slot_bytes", "bits_per_value", "bound", "distance"),
            *("mean", "standard_error", "samples"),
        }
        assert set(found["mean"]) == set(found["standard_error"]) == set(found["samples"]["layer 0"]) == names
    assert [found["centred"] for found in first["formats"]] == [False, True, False]
    assert first["formats"][0]["mean"]["k_error"] == pytest.approx(0.15)
    assert first["formats"][0]["samples"]["layer 1"]["k_error"] == 0.2
    assert first["formats"][2]["mean"]["snr"] is None
    assert second["formats"][0]["mean"]["k_error"] is None
    assert second["formats"][0]["standard_error"]["k_error"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.18765, "0.1877"), (0.0265, "0.02650"), (0.00123456, "0.001235"), (0.000123, "1.2e-04"), (12.345, "12.35")],
)
def test_numbers_have_four_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("measure", "value", "text"),
    [
        ("kl", 0.0, "exact"),
        ("snr", math.inf, "exact"),
        ("snr", -math.inf, "-inf"),
        ("kl", math.inf, "inf"),
        ("recall", 0.0, "0.000"),
        ("recall", None, "-"),
        ("snr", 0.0, "0.00"),
    ],
)
def test_what_is_no_number(measure: str, value: float | None, text: str) -> None:
    assert value_text(measure, value) == text
