"""The specs that come with octave-gen."""

from __future__ import annotations

from pathlib import Path

import pytest

from octave_gen import paths, spec
from octave_gen.arch import ARCHS
from octave_gen.errors import OctaveError
from octave_gen.formats import CACHE_DTYPES, ENCODERS
from octave_gen.kernels.base import SCALARS
from octave_gen.spec.report import HINT

SHAPES = {
    "octave_h128r64.toml": (128, 64, (4, 6, 8, 12, 16)),
    "octave_h256r64.toml": (256, 64, (1, 2, 3, 4, 6, 8, 16)),
}


def test_the_shipped_specs_hold_the_promised_shapes() -> None:
    shipped = spec.shipped()
    assert [one.source for one in shipped] == sorted(SHAPES)
    for one in shipped:
        assert (one.head_size, one.rotary_dims, one.gqa_groups) == SHAPES[one.source]
        assert one.query_groups == (1, 4)
        assert set(one.cache_dtypes) == set(CACHE_DTYPES)
        assert set(one.encoders) == set(ENCODERS)
        assert set(one.query_dtypes) == set(SCALARS)
        assert set(one.archs) == set(ARCHS)


def test_no_shipped_budget_allows_a_spill() -> None:
    for one in spec.shipped():
        for rule in one.budgets:
            spills = rule.budget.vgpr_spills, rule.budget.sgpr_spills, rule.budget.scratch_bytes
            assert spills == (0, 0, 0), f"{one.source}: {rule.kernel} on {rule.arch}"


def test_the_example_that_reports_name_is_shipped() -> None:
    assert any(name in HINT for name in SHAPES)


def test_shipped_specs_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SPECS", tmp_path)
    with pytest.raises(OctaveError, match="the shipped specs are missing"):
        spec.shipped()
