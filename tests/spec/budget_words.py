"""What tests of budgets share: the budgets of `spec_text` by place, additions to them, and lines of reports."""

from __future__ import annotations

from collections.abc import Callable

from octave_gen.kernels import KINDS

Report = Callable[[str], list[str]]
Text = Callable[..., str]

STORE, ROTATE, DECODE, REDUCE = range(4)
BOTH = {"archs": '["gfx942", "gfx1100"]'}
ON_GFX1100 = {"arch": '"gfx1100"', "sgprs": "106"}

KERNELS = "    allowed: " + ", ".join(KINDS)
ONE = "    fix: narrow or remove one: exactly one budget selects a variant"


def missing_fix(kernel: str, arch: str = "gfx942") -> str:
    return f'    fix: add a [[budget]] with kernel = "{kernel}", arch = "{arch}"'
