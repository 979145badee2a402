from __future__ import annotations

from octave_gen.quality.real.report import added_loss, shown, stretches, table
from octave_gen.quality.real.statistics import Mean

BASE = {0: [1.0, 2.0], 500: [3.0, 3.0], 900: [0.0, 1.0]}


def test_a_stretch_is_four_blocks_of_one_window() -> None:
    assert stretches({0: [1.0, 2.0, 6.0], 7: [5.0]}, [7, 0]) == [5.0, 3.0]
    assert stretches({0: [1.0, 2.0, 3.0, 4.0, 7.0], 7: [0.0, 0.0, 0.0, 4.0]}, [0, 7]) == [2.5, 7.0, 1.0]


def test_only_windows_that_both_have_are_compared() -> None:
    assert added_loss({0: [2.0, 3.0], 900: [2.0, 5.0], 1300: [9.0]}, BASE) == Mean(2.0, 1.0, 2)
    assert added_loss({1300: [9.0]}, BASE) is None
    assert added_loss({}, BASE) is None


def test_a_cell_says_what_it_does_not_have() -> None:
    assert shown(Mean(0.41234, 0.0312, 3), 3) == "+0.412 ± 0.031"
    assert shown(Mean(-0.0004, 0.01, 2), 3) == "-0.000 ± 0.010 (of 2)"
    assert shown(Mean(1.5, None, 1), 1) == "+1.500"
    assert shown(None, 3) == "-"


def test_a_table_is_markdown() -> None:
    assert table(["a", "b"], [["1", "2"], ["3", "4"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n"
