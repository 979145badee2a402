"""The page with plots."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from octave_gen.quality.bench import Section
from octave_gen.quality.html import page, style
from octave_gen.quality.measure import Measures, Result
from octave_gen.quality.sample import DataSet, Sample

FORMATS = {
    "octave_k3v3_compact": 12,
    "octave_k3v4": 16,
    "octave_k3v3+search": 13,
    "turboquant_3bit_nc": 14,
    "turbo3": 15,
    "octopus_2": 11,
    "fp8": 32,
}


def section(sample: Sample, name: str = "needle", formats: dict[str, int] = FORMATS, note: str = "note") -> Section:
    results = [
        Result(label, size, 16, centred, {"seed 0": Measures(0.1, 0.2, 0.3, 0.4, 17.0 - size / 9, 0.9)})
        for label, size in formats.items()
        for centred in (False, True)
    ]
    exact = Result("fp16", 64, 16, False, {"seed 0": Measures(0.0, 0.0, 0.0, 0.0, math.inf, 1.0)})
    return Section(DataSet(name, (note,), [sample]), [*results, exact], {"turbo4": "why not"})


@pytest.fixture
def text(make_sample: Callable[..., Sample]) -> str:
    return page([section(make_sample()), section(make_sample(), name="other")])


def test_every_format_is_in_every_plot_and_in_the_table(text: str) -> None:
    drawn = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawn) == 2 * 6 * 2
    close_ups, whole = drawn[0::2], drawn[1::2]
    assert all(">fp8</text>" not in svg for svg in close_ups)
    for label in FORMATS:
        for svg in whole if label == "fp8" else drawn:
            assert svg.count(f">{label}</text>") == svg.count(f">{label} centred</text>") == 1
        assert text.count(f'<td class="name">{label}</td>') == 2
    assert "why not" in text


def test_the_bound_is_drawn_where_it_applies(text: str) -> None:
    bounds = [svg.count('class="bound"') for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert bounds == [0] * 8 + [1, 1, 0, 0] + [0] * 8 + [1, 1, 0, 0]


def test_a_line_leads_along_the_best_of_octave(make_sample: Callable[..., Sample]) -> None:
    """From 12 bytes to the better of two dtypes of 14, not to a worse one of 15; `search` has one dtype, so no line."""
    errors = {
        "octave_k3v3_compact": (12, 0.4),
        "octave_k3v4_compact": (14, 0.3),
        "octave_k4v3_compact": (14, 0.2),
        "octave_k3v3": (15, 0.25),
        "octave_k3v4": (16, 0.1),
        "octave_k3v3+search": (15, 0.2),
    }
    results = [
        Result(label, size, 16, centred, {"seed 0": Measures(error, 0.1, 0.1, 0.1, 10 / error, 0.1)})
        for label, (size, error) in errors.items()
        for centred in (False, True)
    ]
    text = page([Section(DataSet("data", (), [make_sample()]), results, {})])
    found = [
        re.findall(r'<polyline class="([^"]*)" points="([^"]*)"', svg)
        for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    ]
    k_error, *_, snr, recall = found
    assert [[name, len(points.split())] for name, points in k_error] == [["octave", 3], ["octave centred", 3]]
    assert [len(points.split()) for _, points in snr if "octave" in _] == [3, 3]
    assert recall == []


def test_without_large_formats_there_is_no_close_up(make_sample: Callable[..., Sample]) -> None:
    one = section(make_sample())
    few = [result for result in one.results if result.bits_per_value < 5]
    text = page([Section(one.data, few, {})])
    assert text.count("<svg") == 6
    assert "Up to" not in text


def test_what_is_exact_is_named(text: str) -> None:
    assert text.count("<p>Not on this axis: fp16; see the table.</p>") == 2 * 5
    assert text.count(">fp16</text>") == 2  # needles found


def test_it_is_well_formed(text: str) -> None:
    assert ElementTree.fromstring(text).tag == "html"


def test_it_is_one_page_that_loads_nothing(text: str) -> None:
    tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not {name for name, _ in attrs} & {"src", "href", "onload"}

    Reader().feed(text)
    assert not {"script", "link", "img", "iframe", "use"} & set(tags)
    assert "http" not in text
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text


def test_names_are_escaped(make_sample: Callable[..., Sample]) -> None:
    name = "<b>\"&'</b>"
    text = page([section(make_sample(), name=name, formats={"<i>&x": 12}, note="<u>")])
    assert ElementTree.fromstring(text).tag == "html"
    assert not re.search("<[biu]>", text)
    assert "<summary>&lt;b&gt;&#34;&amp;&#39;&lt;/b&gt;</summary>" in text
    assert "&lt;i&gt;&amp;x centred</text>" in text


@pytest.mark.parametrize(
    ("name", "centred", "wanted"),
    [
        ("octave_k3v3", False, "octave"),
        ("octave_k3v3+search", True, "octave-search centred"),
        ("turboquant_k8v4", False, "turboquant"),
        ("turbo4", False, "turbo"),
        ("octopus_4_qjl", False, "octopus"),
        ("int8", False, "other"),
        ("7bit", False, "other"),
    ],
)
def test_styles(name: str, centred: bool, wanted: str) -> None:
    assert style(Result(name, 12, 16, centred, {})) == wanted
