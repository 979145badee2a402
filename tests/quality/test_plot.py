"""Where dots, labels and ticks lie."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from octave_gen.quality import plot
from octave_gen.quality.plot import Dot, Plot


def made(dots: list[Dot], *, log: bool = True, bound: bool = False, curves: tuple[plot.Curve, ...] = ()) -> Plot:
    line = (lambda x: x / 16) if bound else None
    return plot.plot("title", "y", dots, curves, line, log, lambda dot: f"{dot.y:g}")


CROWD = [Dot(f"format_number_{n}", 190 + 4 * n, 0.1 + 0.003 * (n % 4), 0.0, "octave") for n in range(24)]


def box(mark: plot.Mark) -> tuple[float, float, float, float]:
    width = plot.LETTER * len(mark.label)
    left = mark.text_x - width if mark.anchor == "end" else mark.text_x
    return left, mark.text_y - 10, left + width, mark.text_y + 3


def test_more_bytes_are_further_right_and_a_larger_error_is_higher() -> None:
    low, high = made([Dot("a", 100, 0.01, 0.0, "x"), Dot("b", 200, 0.1, 0.0, "x")]).marks
    assert plot.LEFT < low.x < high.x < plot.RIGHT
    assert plot.TOP < high.y < low.y < plot.BOTTOM


def test_both_axes_are_logarithmic() -> None:
    marks = made([Dot(str(n), 100 * 2**n, 0.1**n, 0.0, "x") for n in range(3)]).marks
    assert marks[1].x - marks[0].x == pytest.approx(marks[2].x - marks[1].x)
    assert marks[1].y - marks[0].y == pytest.approx(marks[2].y - marks[1].y)


def test_ticks_are_round_and_inside() -> None:
    drawn = made([Dot("a", 190, 0.012, 0.0, "x"), Dot("b", 530, 0.31, 0.0, "x")])
    assert [tick.text for tick in drawn.x_ticks] == ["192", "256", "384", "512"]
    assert [tick.text for tick in drawn.y_ticks] == ["0.01", "0.02", "0.05", "0.1", "0.2"]
    close = made([Dot("a", 196, 0.12, 0.0, "x"), Dot("b", 250, 0.31, 0.0, "x")])
    assert [tick.text for tick in close.x_ticks] == ["208", "224", "240"]
    assert [tick.text for tick in close.y_ticks] == ["0.15", "0.2", "0.3"]
    linear = made([Dot("a", 190, 12.0, 0.0, "x"), Dot("b", 530, 43.0, 0.0, "x")], log=False)
    assert [tick.text for tick in linear.y_ticks] == ["20", "30", "40"]
    for tick in (*drawn.y_ticks, *linear.y_ticks):
        assert plot.TOP <= tick.at <= plot.BOTTOM


def test_labels_cover_neither_each_other_nor_dots() -> None:
    marks = made(CROWD).marks
    assert len(marks) == len(CROWD)
    for one, other in combinations(marks, 2):
        a, b = box(one), box(other)
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for mark in marks:
        left, top, right, bottom = box(mark)
        assert not any(left < other.x < right and top < other.y < bottom for other in marks)
        assert plot.LEFT < left < right < plot.RIGHT


def test_error_bars() -> None:
    (mark,) = made([Dot("a", 100, 0.1, 0.02, "x")]).marks
    assert mark.high < mark.y < mark.low
    (mark,) = made([Dot("a", 100, 0.1, 0.2, "x")]).marks
    assert mark.low == mark.y  # the bar would end below 0


def test_what_has_no_place_on_the_axis_is_named() -> None:
    dots = [Dot("exact", 100, 0.0, 0.0, "x"), Dot("inf", 100, math.inf, 0.0, "x"), Dot("a", 100, 1.0, 0.0, "x")]
    assert [mark.label for mark in made(dots).marks] == ["a"]
    assert made(dots).not_drawn == ("exact", "inf")
    assert made(dots, log=False).not_drawn == ("inf",)
    assert made(dots[:2]) == Plot("title", "y", (), (), (), (), ("exact", "inf"))


def test_the_bound_is_drawn_inside_the_axes() -> None:
    (line,) = made([Dot("a", 160, 8.0, 0.0, "x"), Dot("b", 320, 15.0, 0.0, "x")], log=False, bound=True).lines
    points = [tuple(map(float, point.split(","))) for point in line.points.split()]
    assert line.style == "bound"
    assert len(points) > 50
    assert all(plot.LEFT <= x <= plot.RIGHT and plot.TOP <= y <= plot.BOTTOM for x, y in points)


def test_lines_join_their_points() -> None:
    dots = [Dot("a", 100, 0.1, 0.0, "x"), Dot("b", 200, 0.01, 0.0, "x")]
    drawn = made(dots, curves=(("family", "octave", [(100, 0.1), (200, 0.01)]), ("alone", "octave", [(100, 0.1)])))
    (line,) = drawn.lines
    assert line.points == " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in drawn.marks)
