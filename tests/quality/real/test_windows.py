from __future__ import annotations

from itertools import pairwise

import pytest

from octave_gen.errors import OctaveError
from octave_gen.quality.real.windows import Window, at_ends, at_starts, check_apart


def test_sections_begin_and_end_with_windows() -> None:
    assert at_starts(103, 10, 4) == [Window(start, 10) for start in (0, 25, 51, 77)]
    assert at_ends(103, 10, 4) == [Window(start, 10) for start in (15, 41, 67, 93)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("total", [28, 29, 100])
def test_windows_share_no_token_and_stay_in_the_text(total: int, count: int) -> None:
    for windows in (at_starts(total, 4, count), at_ends(total, 4, count)):
        assert windows[0].start >= 0
        assert windows[-1].end <= total
        assert all(one.end <= other.start for one, other in pairwise(windows))


@pytest.mark.parametrize(("total", "tokens", "count"), [(99, 34, 3), (10, 11, 1), (10, 5, 0), (10, 1, 2)])
def test_what_does_not_fit_is_refused(total: int, tokens: int, count: int) -> None:
    for choose in (at_starts, at_ends):
        with pytest.raises(OctaveError, match="windows of"):
            choose(total, tokens, count)


def test_calibration_may_touch_what_is_measured_but_not_share_a_token() -> None:
    check_apart([Window(0, 10), Window(50, 10)], [Window(10, 40), Window(60, 1)])
    for shared in (Window(9, 40), Window(59, 1), Window(52, 2), Window(0, 100)):
        with pytest.raises(OctaveError, match="are measured, and"):
            check_apart([Window(0, 10), Window(50, 10)], [shared])
