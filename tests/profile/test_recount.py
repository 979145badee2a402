"""The costs that the choice of KV splits rests on, against the kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from octave_gen import plan, spec
from octave_gen.build import pipeline
from octave_gen.errors import OctaveError
from octave_gen.kernels import launch_costs
from octave_gen.kernels.launch_costs import LaunchCosts
from octave_gen.plan import Variant
from octave_gen.profile import recount

TOLERANCE = 0.10
"""Of a figure: what other releases of the compiler may change, and less than would move the choice."""


@pytest.fixture(scope="module")
def shipped() -> list[Variant]:
    return plan.variants(spec.shipped())


def test_every_shipped_kernel_was_counted(shipped: list[Variant]) -> None:
    known = {line.key for line in launch_costs.read()}
    for variant in recount.representatives(shipped):
        kind, arch, tier = variant.kind.name, variant.arch.name, variant.tier.name
        dtype = variant.shape.cache_dtype or launch_costs.ANY
        rows = recount.rows_of(variant)
        for symbol in variant.symbols:
            found = launch_costs.launch_costs(kind, arch, tier, variant.shape.head_size, dtype, rows, symbol.waves)
            assert found.key in known
            assert (found.head_size, found.rows) == (variant.shape.head_size, rows), launch_costs.RECOUNT


def test_a_fresh_count_finds_the_same(shipped: list[Variant], tmp_path: Path) -> None:
    """reduce, and decode of group 6 and one query, on the matrix tiers and on the portable tier of one chip."""
    chosen = [
        variant
        for variant in recount.representatives(shipped)
        if variant.shape.head_size == 256
        and (variant.kind.name == "reduce" or (variant.shape.gqa_group, variant.shape.query_group) == (6, 1))
        and (variant.kind.name, variant.arch.name, variant.tier.name) != ("decode", "gfx1100", "portable")
    ]
    pipeline.build(plan.with_siblings(chosen, shipped), out=tmp_path, progress=lambda line: None)
    lines = recount.recount(chosen, shipped, tmp_path, lambda line: None)
    known = {line.key: line for line in launch_costs.read()}
    assert len(lines) >= 3
    assert [line.waves for line in lines if (line.arch, line.tier, line.kind) == ("gfx942", "mfma", "decode")][:2] == [
        4,
        8,
    ]
    for fresh in lines:
        line = known[fresh.key]
        assert (fresh.waves, fresh.occupancy, fresh.units) == (line.waves, line.occupancy, line.units), fresh.key
        for name in ("launch_issue", "pass_issue", "launch_latency", "pass_latency"):
            assert getattr(fresh, name) == pytest.approx(getattr(line, name), rel=TOLERANCE), (fresh.key, name)


def test_of_several_rotary_dims_the_fewest_are_counted(shipped: list[Variant]) -> None:
    blocks = [variant for variant in shipped if variant.shape.rotary_dims == 128 and variant.shape.head_size == 256]
    assert blocks
    assert not {variant.name for variant in recount.representatives(shipped)} & {variant.name for variant in blocks}


def made_up(**changes: object) -> LaunchCosts:
    line = LaunchCosts("decode", "gfx942", "portable", 128, "*", 4, 4, 2, 64, 1234.56, 10.0, 0.04, 5e6)
    return replace(line, **changes)  # type: ignore[arg-type]


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "costs.csv"
    launch_costs.write([made_up(rows=16), made_up()], file)
    assert launch_costs.read(file) == [made_up(launch_issue=1234.6, launch_latency=0.0, rows=rows) for rows in (4, 16)]
    assert launch_costs.read() == sorted(launch_costs.read(), key=lambda line: line.key)


def test_the_next_larger_number_of_rows_and_the_nearest_head_serve() -> None:
    def rows(wanted: int, head_size: int = 256) -> tuple[int, int]:
        found = launch_costs.launch_costs("decode", "gfx1100", "portable", head_size, "octave_k3v4", wanted, 8)
        return found.head_size, found.rows

    assert [rows(wanted) for wanted in (1, 5, 6, 33, 64, 100)] == [(256, n) for n in (1, 6, 6, 64, 64, 64)]
    assert [rows(8, head_size) for head_size in (64, 128, 320, 512)] == [(128, 8), (128, 8), (256, 8), (512, 8)]


def test_what_was_not_counted_says_how_to_count_it() -> None:
    with pytest.raises(OctaveError) as caught:
        launch_costs.launch_costs("decode", "gfx1100", "mfma", 256, "octave_k3v4", 8, 4)
    assert caught.value.hint == "python -m octave_gen.profile.recount"
