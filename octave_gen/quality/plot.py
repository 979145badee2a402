"""Plots as plain geometry: bytes of a slot against a measure, in the units of an SVG's view box."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 960
HEIGHT: Final = 480
LEFT: Final = 64
RIGHT: Final = 940
TOP: Final = 14
BOTTOM: Final = 436
LETTER: Final = 6.2
"""Width of a letter of a label at 11 px in most fonts, at most."""
LINE: Final = 12.0
"""Height of a label."""
BYTES_TICKS: Final = ((1.0, 1.5), (1.0, 1.25, 1.5, 1.75), (1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875))
ERROR_TICKS: Final = (
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0),
    (*(1 + step / 10 for step in range(10)), *(2 + step / 2 for step in range(16))),
)
"""Round numbers on a logarithmic axis, coarse to fine."""
_ROOM: Final = 0.06
"""Of an axis, left free at both ends."""


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Dot:
    """x, y in the data's units; spread: half of its error bar, 0 for none. style: classes of the style sheet."""

    label: str
    x: float
    y: float
    spread: float
    style: str


@dataclass(frozen=True)
class Mark:
    """A dot where it is drawn: its error bar from high to low, its label, and a line to the label where it is far."""

    label: str
    title: str
    style: str
    x: float
    y: float
    high: float
    low: float
    text_x: float
    text_y: float
    anchor: str
    far: bool


@dataclass(frozen=True)
class Line:
    """points: as the attribute of a polyline."""

    label: str
    style: str
    points: str


@dataclass(frozen=True)
class Plot:
    title: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    lines: tuple[Line, ...]
    not_drawn: tuple[str, ...]
    """Labels of what has no place on the axis."""


Curve = tuple[str, str, Sequence[tuple[float, float]]]
"""Label, style and the points in the data's units."""


def plot(
    title: str,
    y_label: str,
    dots: Sequence[Dot],
    curves: Sequence[Curve],
    bound: Callable[[float], float] | None,
    log: bool,
    text: Callable[[Dot], str],
) -> Plot:
    """A plot whose x axis is logarithmic, and the y axis with ``log``; text: what hovering over a dot shows.

    bound: the y of an x, drawn as a curve as far as the axes reach.
    """
    drawn = [dot for dot in dots if math.isfinite(dot.y) and (dot.y > 0 or not log)]
    missing = tuple(dot.label for dot in dots if dot not in drawn)
    if not drawn:
        return Plot(title, y_label, (), (), (), (), missing)
    across = _Axis.of([dot.x for dot in drawn], LEFT, RIGHT, log=True)
    up = _Axis.of([y for dot in drawn for y in _ends(dot, log)], BOTTOM, TOP, log=log)
    lines = [
        Line(label, style, " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in points))
        for label, style, points in curves
        if len(points) > 1 and all(math.isfinite(y) and (y > 0 or not log) for _, y in points)
    ]
    if bound is not None:
        lines.append(_bound(bound, across, up))
    return Plot(
        title,
        y_label,
        tuple(Tick(across.place(x), f"{x:.0f}") for x in _ticks(across, BYTES_TICKS, 2)),
        tuple(Tick(up.place(y), f"{y:g}") for y in (_ticks(up, ERROR_TICKS, 10) if log else _round_steps(up))),
        tuple(_marks(drawn, across, up, log, text)),
        tuple(lines),
        missing,
    )


@dataclass(frozen=True)
class _Axis:
    """From the data's low to high, on the page from first to last."""

    low: float
    high: float
    first: float
    last: float
    log: bool

    @classmethod
    def of(cls, values: Sequence[float], first: float, last: float, *, log: bool) -> _Axis:
        low, high = min(values), max(values)
        if log:
            low, high = math.log(low), math.log(high)
        room = (high - low) * _ROOM or 0.1
        low, high = low - room, high + room
        return cls(math.exp(low) if log else low, math.exp(high) if log else high, first, last, log)

    def place(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = math.log(value) if self.log else value
        return self.first + (self.last - self.first) * (value - low) / (high - low)


def _ends(dot: Dot, log: bool) -> tuple[float, float, float]:
    low = dot.y - dot.spread
    return dot.y, dot.y + dot.spread, low if low > 0 or not log else dot.y


def _bound(bound: Callable[[float], float], across: _Axis, up: _Axis) -> Line:
    steps = 200
    ratio = across.high / across.low
    points = [(x, bound(x)) for x in (across.low * ratio ** (step / steps) for step in range(steps + 1))]
    inside = [(x, y) for x, y in points if up.low <= y <= up.high]
    return Line("bound", "bound", " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in inside))


def _ticks(axis: _Axis, choices: Sequence[Sequence[float]], base: int) -> list[float]:
    """Powers of base times mantissas, inside a logarithmic axis: of the first choice that gives three, or the last."""
    powers = range(math.floor(math.log(axis.low, base)) - 1, math.ceil(math.log(axis.high, base)) + 1)
    values: list[float] = []
    for mantissas in choices:
        values = [mantissa * float(base) ** power for power in powers for mantissa in mantissas]
        values = [value for value in values if axis.low <= value <= axis.high]
        if len(values) >= 3:
            break
    return values


def _round_steps(axis: _Axis) -> list[float]:
    """About six round values inside a linear axis."""
    rough = (axis.high - axis.low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(axis.low / step)
    return [round(index * step, 10) for index in range(first, math.floor(axis.high / step) + 1)]


_Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def _marks(dots: Sequence[Dot], across: _Axis, up: _Axis, log: bool, text: Callable[[Dot], str]) -> list[Mark]:
    """Labels go to the first free place near their dot: no label covers another, a dot or the frame, while there is
    room."""
    placed = [(dot, across.place(dot.x), up.place(dot.y)) for dot in sorted(dots, key=lambda dot: (dot.x, dot.y))]
    taken: list[_Box] = [(x - 4, y - 4, x + 4, y + 4) for _, x, y in placed]
    marks = []
    for dot, x, y in placed:
        text_x, text_y, anchor, box = _free_place(x, y, LETTER * len(dot.label), taken)
        taken.append(box)
        _, high, low = _ends(dot, log)
        far = math.hypot(text_x - x, text_y - LINE / 3 - y) > 16
        marks.append(
            Mark(
                dot.label,
                f"{dot.label}: {text(dot)}",
                dot.style,
                x,
                y,
                up.place(high),
                up.place(low),
                text_x,
                text_y,
                anchor,
                far,
            )
        )
    return marks


def _free_place(x: float, y: float, width: float, taken: Sequence[_Box]) -> tuple[float, float, str, _Box]:
    """Where a label begins or ends, and its box; beside its dot where nothing is free."""
    places = []
    for radius in (9, 20, 32, 46, 62, 80, 100, 124, 150):
        for angle in (0, 180, -30, 30, -150, 150, -55, 55, -125, 125, -80, 80):
            text_x = x + radius * math.cos(math.radians(angle))
            text_y = y + radius * math.sin(math.radians(angle)) + LINE / 3
            anchor = "end" if abs(angle) > 90 else "start"
            left = text_x - width if anchor == "end" else text_x
            places.append((text_x, text_y, anchor, (left, text_y - LINE + 2, left + width, text_y + 3)))

    def free(box: _Box) -> bool:
        inside = box[0] > LEFT and box[2] < RIGHT and box[1] > TOP and box[3] < BOTTOM
        return inside and not any(_overlap(box, other) for other in taken)

    return next((place for place in places if free(place[3])), places[0])


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
