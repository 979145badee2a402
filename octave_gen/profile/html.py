"""Profiles as a page of HTML: a bar for each term of the issue model, one scale for each kind of kernel and chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import jinja2

from octave_gen.profile.measure import Profile
from octave_gen.profile.model import STATEMENT
from octave_gen.profile.table import archs_of, calibration, number, percent

TEMPLATE: Final = Path(__file__).with_name("report.html.j2")
WIDEST: Final = 85.0
"""Percent of a row that the longest bar takes; the number stands behind it."""


@dataclass(frozen=True)
class Part:
    """A piece of a bar. ``style``: its class in the style sheet; ``width``: percent."""

    style: str
    width: str


@dataclass(frozen=True)
class Term:
    label: str
    clocks: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Entry:
    """One variant."""

    name: str
    summary: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Section:
    """The variants of one kind on one chip."""

    title: str
    longest: str
    variants: tuple[Entry, ...]


def page(profiles: Sequence[Profile]) -> str:
    """The whole page; it loads nothing from elsewhere."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    groups = groupby(profiles, key=lambda one: (one.kernel.variant.kind.name, one.kernel.variant.arch.name))
    return template.render(
        statement=STATEMENT,
        calibrations=[f"{arch.name}, as {arch.costs.product}: {calibration(arch)}." for arch in archs_of(profiles)],
        sections=[_section(kind, arch, list(group)) for (kind, arch), group in groups],
    )


def _section(kind: str, arch: str, profiles: Sequence[Profile]) -> Section:
    longest = max(
        term for one in profiles for term in (one.clocks.hbm, one.clocks.valu, one.clocks.matrix, one.clocks.lds)
    )
    title = f"{kind} on {arch}, per {profiles[0].work}"
    return Section(title, number(longest), tuple(_entry(one, longest) for one in profiles))


def _entry(one: Profile, longest: float) -> Entry:
    clocks, resources = one.clocks, one.kernel.resources

    def term(label: str, total: float, *parts: tuple[str, float]) -> Term:
        return Term(label, number(total), tuple(Part(style, f"{WIDEST * part / longest:.2f}") for style, part in parts))

    serial = f" ({percent(clocks.share_without_overlap)} without overlap)" if clocks.overlap and clocks.matrix else ""
    return Entry(
        one.name,
        f"bound by {clocks.bound}, {percent(clocks.share)} of the HBM roofline{serial}; {resources['vgprs']} VGPRs, "
        f"{resources['occupancy']} waves per SIMD",
        (
            term("HBM", clocks.hbm, ("hbm", clocks.hbm)),
            term("VALU", clocks.valu, ("valu", clocks.valu - clocks.transcendental), ("trans", clocks.transcendental)),
            term("matrix", clocks.matrix, ("matrix", clocks.matrix)),
            term("LDS", clocks.lds, ("lds", clocks.lds)),
        ),
    )
