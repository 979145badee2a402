"""Results as a page of HTML: bytes of a slot against each measure, and the table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jinja2

from octave_gen.formats import CACHE_DTYPES
from octave_gen.quality import plot
from octave_gen.quality.bench import Section
from octave_gen.quality.measure import DECIBEL_PER_BIT, Result
from octave_gen.quality.table import COLUMNS, cell, headings, legends, measures, row, samples_text

TEMPLATE: Final = Path(__file__).with_name("report.html.j2")
CLOSE_UP: Final = 5.0
"""Bits per value up to which formats are drawn apart from the others, which are far from them and few."""
STYLES: Final = ("octave", "octave-search", "turboquant", "turbo", "octopus")
"""Of the families with a colour of their own; ``other`` for the rest."""


@dataclass(frozen=True)
class Page:
    """What the template shows of a section."""

    title: str
    notes: tuple[str, ...]

    plots: tuple[tuple[plot.Plot, plot.Plot | None], ...]
    """By measure: all formats, and the close-up where it shows fewer."""
    headings: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """Style and cells of each."""
    left_out: tuple[str, ...]


def page(sections: Sequence[Section]) -> str:
    """The whole page, well-formed as XML too; it loads nothing from elsewhere."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        legends=legends(sections), sections=[_page(section) for section in sections], frame=plot, close_up=CLOSE_UP
    )


def style(result: Result) -> str:
    """The class of a format's family: what its name begins with, and Octave's search encoder apart."""
    family, _, encoder = result.format.partition("+")
    word = re.match("[a-z]*", family)
    name = f"octave-{encoder}" if family in CACHE_DTYPES and encoder else word[0] if word else ""
    return f"{name if name in STYLES else 'other'}{' centred' if result.centred else ''}"


def _page(section: Section) -> Page:
    return Page(
        section.data.name,
        (*section.data.notes, samples_text(section)),
        tuple((_plot(section.results, measure), _close_up(section, measure)) for measure in measures(section)),
        headings(section),
        tuple((style(result), row(section, result)) for result in section.results),
        tuple(f"{name}: {reason}" for name, reason in section.left_out.items()),
    )


def _close_up(section: Section, measure: str) -> plot.Plot | None:
    near = [result for result in section.results if result.bits_per_value <= CLOSE_UP]
    return _plot(near, measure) if 0 < len(near) < len(section.results) else None


def _plot(results: Sequence[Result], measure: str) -> plot.Plot:
    column = COLUMNS[measure]
    by_label = {result.label: result for result in results}
    dots = [
        plot.Dot(label, result.slot_bytes, _mean(result, measure), result.standard_error(measure) or 0.0, style(result))
        for label, result in by_label.items()
    ]
    head_size = results[0].head_size

    def bound(slot_bytes: float) -> float:
        return DECIBEL_PER_BIT * 8 * slot_bytes / (2 * head_size)

    return plot.plot(
        column.title,
        f"{column.title}, {column.unit}" if column.unit else column.title,
        dots,
        _curves(results, measure),
        bound if measure == "snr" else None,
        column.log,
        lambda dot: f"{by_label[dot.label].slot_bytes} bytes, {cell(by_label[dot.label], measure)}",
    )


def _curves(results: Sequence[Result], measure: str) -> list[plot.Curve]:
    """Along Octave's dtypes, for each encoder, with and without centring: from one to the next larger better one."""
    sign = -1 if COLUMNS[measure].rising else 1
    curves: dict[tuple[str, bool], list[Result]] = {}
    for result in sorted(results, key=lambda result: (result.slot_bytes, sign * _mean(result, measure))):
        family, _, encoder = result.format.partition("+")
        if family in CACHE_DTYPES:
            curve = curves.setdefault((encoder, result.centred), [])
            if not curve or sign * _mean(result, measure) < sign * _mean(curve[-1], measure):
                curve.append(result)
    return [
        (curve[0].label, style(curve[0]), [(result.slot_bytes, _mean(result, measure)) for result in curve])
        for curve in curves.values()
    ]


def _mean(result: Result, measure: str) -> float:
    mean = result.mean(measure)
    return math.nan if mean is None else mean
