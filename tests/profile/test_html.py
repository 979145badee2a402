"""The page with bars."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from octave_gen.arch import ARCHS
from octave_gen.profile.counts import Counts
from octave_gen.profile.html import page
from octave_gen.profile.measure import Profile
from octave_gen.profile.model import STATEMENT

MakeProfile = Callable[..., Profile]

Q1 = "decode_octave_k3v4_h256r64_g6_q1_f16_portable_gfx942"
Q4 = "decode_octave_k3v4_h256r64_g6_q4_f16_portable_gfx942"
STORE = "store_octave_k3v4_h256r64_plain_f16_portable_gfx1100"

BARS = """\
<h3>decode_octave_k3v4_h256r64_g6_q1_f16_portable_gfx942</h3>
<p>bound by VALU, 75% of the HBM roofline (62% without overlap); 87 VGPRs, 5 waves per SIMD</p>
<dl>
<dt>HBM</dt><dd><i class="hbm" style="width: 31.74%"></i>29.9</dd>
<dt>VALU</dt><dd><i class="valu" style="width: 38.25%"></i><i class="trans" style="width: 4.25%"></i>40.0</dd>
<dt>matrix</dt><dd><i class="matrix" style="width: 8.50%"></i>8.00</dd>
<dt>LDS</dt><dd><i class="lds" style="width: 0.00%"></i>0.00</dd>
</dl>
"""


@pytest.fixture
def profiles(make_profile: MakeProfile) -> list[Profile]:
    """Of the decode kernels' terms the longest is the second one's VALU with 80 clocks: 85 % of the width."""
    first = Counts(valu=37, transcendental=1, matrix={"v_mfma_i32_16x16x32_i8": 2})
    return [
        make_profile(STORE, Counts(valu=1333)),
        make_profile(Q1, first),
        make_profile(Q4, Counts(valu=80)),
    ]


def test_bars_show_where_the_clocks_go(profiles: list[Profile]) -> None:
    text = page(profiles)
    assert BARS in text
    assert '<i class="valu" style="width: 85.00%"></i><i class="trans" style="width: 0.00%"></i>80.0</dd>' in text
    assert re.findall("<h2>(.*)</h2>", text) == ["store on gfx1100, per slot", "decode on gfx942, per token"]
    assert "the longest is 80.0 clocks" in text


def test_it_says_that_it_is_a_model(profiles: list[Profile]) -> None:
    text = page(profiles)
    assert STATEMENT in text
    assert "gfx942, as Instinct MI300X: not calibrated: no public timings." in text
    assert "gfx1100, as Radeon RX 7900 XTX: calibrated: " in text


def test_it_is_one_page_that_loads_nothing(profiles: list[Profile]) -> None:
    tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not {name for name, _ in attrs} & {"src", "href", "onload"}

    Reader().feed(page(profiles))
    assert tags.count("h3") == len(profiles)
    assert not {"script", "link", "img", "iframe"} & set(tags)
    assert "http" not in page(profiles)


def test_text_is_escaped(make_profile: MakeProfile) -> None:
    costs = replace(ARCHS["gfx942"].costs, product="<b>&", calibration="a < b")
    text = page([make_profile(Q1, Counts(valu=37), costs=costs)])
    assert "as &lt;b&gt;&amp;: calibrated: a &lt; b." in text
    assert "<b>" not in text
