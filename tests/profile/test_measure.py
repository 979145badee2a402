"""Kernels that were really built, executed and counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from octave_gen import plan
from octave_gen.arch import ARCHS
from octave_gen.profile.built import kernels
from octave_gen.profile.measure import Profile, profiles
from octave_gen.profile.table import CENTERED_LEGEND, table
from octave_gen.spec.model import Spec

SHORT, LONGER, LONGEST = 64, 128, 256
ROWS = 16


@pytest.fixture(scope="module", params=[name for name, chip in ARCHS.items() if not chip.on_request])
def counted(
    request: pytest.FixtureRequest, small_spec: Callable[..., Spec], small_build: Path
) -> tuple[dict[str, Profile], list[str]]:
    """The portable fp16 kernels of one chip (head 128, group 4, query group 4) by kind, and the lines of progress."""
    planned = plan.variants([small_spec(query_groups=(4,))], [request.param])
    lines: list[str] = []
    found = kernels(plan.select(planned, "*_f16_portable_*"), planned, small_build)
    made = profiles(found, tokens=(SHORT, LONGER), progress=lines.append)
    return {profile.kernel.variant.kind.name: profile for profile in made}, lines


def test_progress_names_each_kernel(counted: tuple[dict[str, Profile], list[str]]) -> None:
    found, lines = counted
    assert [line.split()[:2] for line in lines] == [
        [f"[{number}/4]", profile.name] for number, profile in enumerate(found.values(), 1)
    ]


def test_waves_that_work_alone_have_no_prologue(counted: tuple[dict[str, Profile], list[str]]) -> None:
    for kind in ("store", "rotate"):
        prologue = counted[0][kind].counted.prologue
        assert (prologue.valu, prologue.salu, prologue.vmem, prologue.lds_clocks) == (0, 0, 0, 0)
        assert counted[0][kind].counted.each.valu > 0


def test_a_center_costs_a_load_and_a_subtraction(
    counted: tuple[dict[str, Profile], list[str]],
) -> None:
    chosen = [counted[0][kind] for kind in ("store", "rotate", "reduce")]
    centered = profiles([one.kernel for one in chosen], center=True, progress=lambda line: None)
    assert [one.centered for one in centered] == [True, True, False]
    assert not any(one.centered for one in chosen)
    for with_it, without in zip(centered[:2], chosen[:2], strict=True):
        wave = with_it.kernel.variant.arch.wave_size
        more = with_it.counted.each - without.counted.each
        assert more.vmem_bytes == 256
        # one instruction can subtract two of the 128 values
        assert 128 / wave / 2 <= more.valu <= 6 * 128 / wave
        assert more.lds == 0
    assert centered[2].counted == chosen[2].counted
    assert CENTERED_LEGEND in table(centered)
    assert CENTERED_LEGEND not in table(chosen)


def test_bytes_are_those_that_the_work_needs(counted: tuple[dict[str, Profile], list[str]]) -> None:
    """A vector of 128 fp16 in and out, a word of signs for each lane; 128 fp32 outputs of a partial, and twice
    its maximum and its sum, for the lane that looks after them."""
    rotate = counted[0]["rotate"]
    assert rotate.counted.each.vmem_bytes == 512 + 4 * rotate.kernel.variant.arch.wave_size
    assert counted[0]["reduce"].counted.each.vmem_bytes == 4 * 128 + 2 * 8


def test_decode_does_the_work_of_every_row(counted: tuple[dict[str, Profile], list[str]]) -> None:
    """For a token and row, scores take 128/4 dot4 of a lane and outputs 128 multiply-adds, of which the portable tier
    packs two into one instruction: no kernel of 16 rows is below that, and the portable one is below ten times it."""
    decode = counted[0]["decode"]
    least = ROWS * (128 / 4 + 128 / 2) / decode.kernel.variant.arch.wave_size
    assert least < decode.counted.each.valu < 10 * least
    assert decode.counted.each.matrices == 0
    assert decode.counted.each.transcendental >= ROWS / decode.kernel.variant.arch.wave_size
    assert decode.counted.prologue.valu > 100
    assert decode.lengths == (SHORT, LONGER)
    assert decode.clocks.hbm == pytest.approx(112 / decode.kernel.variant.arch.costs.hbm_bytes)


def test_other_lengths_count_the_same(counted: tuple[dict[str, Profile], list[str]]) -> None:
    """Whole tiles cost the same wherever they lie."""
    decode = counted[0]["decode"]
    (again,) = profiles([decode.kernel], tokens=(LONGER, LONGEST), progress=lambda line: None)
    assert again.counted.each == decode.counted.each
    assert again.counted.prologue == decode.counted.prologue


def test_resources_come_from_the_build(counted: tuple[dict[str, Profile], list[str]]) -> None:
    for profile in counted[0].values():
        assert profile.kernel.resources["vgpr_spills"] == 0
        assert profile.kernel.resources["occupancy"] >= 1
