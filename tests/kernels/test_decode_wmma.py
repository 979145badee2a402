"""decode's wmma tier, executed and checked before a chip offers it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from octave_gen import plan, spec
from octave_gen.arch import ARCHS
from octave_gen.build import pipeline
from octave_gen.verify import checks
from octave_gen.verify.built import read
from octave_gen.verify.cases import QUICK
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject

SPEC = """\
edition = 1
family = "octave"
cache_dtypes = ["octave_k3v3_compact", "octave_k3v3", "octave_k3v4"]
head_size = {head}
rotary_dims = 64
gqa_groups = [6]
query_groups = [1, 4]
query_dtypes = ["fp16"]
archs = ["gfx1100"]
"""

BUDGET = """
[[budget]]
arch = "gfx1100"
{selector}
vgprs = {vgprs}
agprs = 0
sgprs = 108
lds_bytes = 65536
occupancy = {occupancy}
"""


def _spec(head: int) -> str:
    rows = [(f'kernel = "{kernel}"', 96, 1) for kernel in ("store", "rotate", "reduce")]
    rows += [
        ('kernel = "decode"\ntiers = ["portable"]', 256, 1),
        ('kernel = "decode"\ntiers = ["wmma"]', 256, 1),
    ]
    budgets = [BUDGET.format(selector=selector, vgprs=vgprs, occupancy=waves) for selector, vgprs, waves in rows]
    return SPEC.format(head=head) + "".join(budgets)
