"""The choice of KV splits: against a sweep of all counts, and what it may depend on."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from octave_gen.arch import ARCHS
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.kernels import split_policy
from octave_gen.kernels.base import MAX_GRID_YZ, Shape, Wide
from octave_gen.kernels.launch_costs import LaunchCosts, launch_costs
from octave_gen.kernels.split_model import Chip, Problem
from octave_gen.kernels.split_policy import decode_problem, default_tier, kv_splits, prefix_problem, prefix_splits
from octave_gen.kernels.splits import MAX_KV_SPLITS, SPLIT_GRANULE, tokens_per_split

CONTEXTS = (1024, 5000, 8192, 32768, 100_001, 380_000)
BATCHES = (1, 3, 16, 64)
GROUPS = ((1, 1), (6, 1), (16, 1), (6, 4), (8, 4))
TIERS = [("gfx942", "portable"), ("gfx942", "mfma"), ("gfx942", "flydsl"), ("gfx1100", "portable"), ("gfx1100", "wmma")]
WITHIN = 1.10
DECODE = {"batch": 1, "kv_heads": 2, "q_heads": 12, "head_size": 256, "slot_bytes": 248, "fmt": 4}


def attend(**changes: float) -> LaunchCosts:
    """Four waves, one a SIMD; a pass of 64 tokens keeps the SIMDs busy for 100 clocks and takes 400 alone."""
    costs = LaunchCosts("decode", "gfx942", "portable", 256, "*", 8, 4, 2, 64, 1000, 100, 3000, 400)
    return replace(costs, **changes)  # type: ignore[arg-type]


MERGE = LaunchCosts("reduce", "gfx942", "portable", 256, "*", 1, 8, 8, 8, 50, 10, 500, 80)
CHIP = Chip(places=4, simds=4, bytes_per_clock=100.0)


def by_hand(**changes: object) -> Problem:
    problem = Problem(CHIP, attend(), MERGE, workgroups=2, vectors=12, context=640, kv_bytes=0, partial_bytes=0)
    return replace(problem, **changes)  # type: ignore[arg-type]


OTHER = {
    "octave_k3v4_compact": {"slot_bytes": 228, "fmt": 20},
    "octave_k4v3_compact": {"slot_bytes": 228, "fmt": 51},
    "256 with 128 rotary dims": {"slot_bytes": 224, "fmt": 3},
    "512": {"head_size": 512, "slot_bytes": 424, "fmt": 3},
    "512 in octave_k3v4_compact": {"head_size": 512, "slot_bytes": 452, "fmt": 20},
}


@pytest.mark.parametrize("shape", OTHER)
@pytest.mark.parametrize("arch", list(ARCHS))
def test_other_shapes_are_split_by_the_same_rule(arch: str, shape: str) -> None:
    for context, batch, group, query_group in product((1024, 32768, 380_000), (1, 16), (4, 8), (1, 4)):
        given = {**DECODE, **OTHER[shape], "batch": batch, "q_heads": 2 * group, "query_group": query_group}
        problem = decode_problem(arch, **given, max_context=context)
        most = min(MAX_KV_SPLITS, -(-context // SPLIT_GRANULE))
        counts = [*range(1, min(most, 64) + 1), *range(65, most + 1, 7)]
        least = min(problem.clocks_with(one, count) for one in problem.kernels for count in counts)
        assert problem.clocks(problem.best()) <= WITHIN * least, (context, batch, group, query_group)
        assert problem.attend.head_size == given["head_size"]
        assert (problem.attend.tier == "portable") == (given["head_size"] == 512 and arch == "gfx1100")
        assert (problem.wide is not None) == (problem.attend.tier == "mfma" and given["head_size"] == 256)


def test_tiers_that_do_not_hold_a_head_of_512_say_so() -> None:
    wide = {**DECODE, **OTHER["512"], "max_context": 8192}
    for arch, tier in (("gfx942", "flydsl"), ("gfx1100", "wmma")):
        with pytest.raises(OctaveError, match=f"the {tier} tier holds head_size 128 and 256, not 512"):
            kv_splits(arch, **wide, tier=tier)
    for arch, tier in (("gfx942", "mfma"), ("gfx1100", "wmma")):
        with pytest.raises(OctaveError, match=f"the {tier} tier holds head_size 128 and 256, not 512"):
            prefix_splits(arch, **wide, max_query_len=64)


@pytest.mark.parametrize(("arch", "tier"), TIERS)
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_no_count_with_any_number_of_waves_is_ten_per_cent_better(arch: str, tier: str, kv_heads: int) -> None:
    for context, batch, (group, query_group) in product(CONTEXTS, BATCHES, GROUPS):
        problem = decode_problem(
            arch,
            **{**DECODE, "batch": batch, "kv_heads": kv_heads, "q_heads": kv_heads * group},
            max_context=context,
            query_group=query_group,
            tier=tier,
        )
        most = min(MAX_KV_SPLITS, -(-context // SPLIT_GRANULE))
        # Beyond 64 every third count and those that fill a chip: neighbours differ little.
        counts = [*range(1, 65), *range(65, most + 1, 3)]
        least = min(problem.clocks_with(one, count) for one in problem.kernels for count in counts if count <= most)
        assert problem.clocks(problem.best()) <= WITHIN * least, (context, batch, group, query_group)


def test_launches_that_leave_places_free_have_workgroups_of_more_waves() -> None:
    problem = decode_problem("gfx942", **DECODE, max_context=65536, tier="mfma")
    assert [one.waves for one in problem.kernels] == [4, 8]
    # 2 kv heads on 304 CUs
    assert [problem.kernel(splits).waves for splits in (1, 152, 153)] == [8, 8, 4]
    assert problem.kernel(problem.best()).waves == 8
    many = decode_problem("gfx942", **{**DECODE, "batch": 256}, max_context=65536, tier="mfma")
    assert many.kernel(many.best()).waves == 4


def test_waves_are_worth_choosing() -> None:
    """Without the second kernel the least time of some launches would be more than a tenth longer."""
    problem = decode_problem("gfx942", **{**DECODE, "kv_heads": 1, "q_heads": 6}, max_context=65536, tier="mfma")
    alone = replace(problem, wide=None)
    assert alone.clocks(alone.best()) > WITHIN * problem.clocks(problem.best())


def test_a_launch_of_few_workgroups_takes_the_wide_kernel() -> None:
    """2 workgroups of each split; the wide kernel takes half the time, and up to 8 workgroups."""
    half = attend(waves=8, launch_latency=1500, pass_latency=200, launch_issue=500, pass_issue=50)
    problem = by_hand(vectors=0, wide=(Wide(512, 8), half))
    assert problem.clocks(4) == by_hand(vectors=0, attend=half).clocks(4)
    assert problem.clocks(5) == by_hand(vectors=0).clocks(5)
    assert problem.clocks_with(half, 5) == by_hand(vectors=0, attend=half).clocks(5)
    assert problem.best() <= 4


def test_one_round_takes_its_issue_or_its_latency() -> None:
    """2 x 10 workgroups on 4 places: 5 each, 2 at a time; a split of 64 tokens is a pass."""
    one = 1000 + 100
    assert by_hand(vectors=0).clocks(10) == 2 * max(2 * one, 3400) + max(one, 3400)
    assert by_hand(vectors=0, attend=attend(launch_latency=0, pass_latency=0)).clocks(10) == 2 * 2 * one + one


def test_bytes_come_after_the_first_prologue() -> None:
    assert by_hand(vectors=0, kv_bytes=10**6).clocks(10) == max(2 * 1000, 3000) + 10**6 / 100
    assert by_hand(vectors=0, kv_bytes=10**6, attend=attend(launch_latency=0)).clocks(10) == 2 * 1000 + 10**6 / 100


def test_partials_are_written_and_read_once_and_merged() -> None:
    plain, traffic = by_hand().clocks(10), by_hand(partial_bytes=10**5).clocks(10)
    # 12 rows are 3 for each place, which holds 4 of 8 waves
    merging = max(3 * (50 + 10 * 10 / 8), 500 + 80 * 10 / 8)
    assert plain == by_hand(vectors=0).clocks(10) + merging
    assert traffic == plain - merging + 10**6 / 100 + max(10**6 / 100, merging)


def test_empty_splits_cost_their_launch() -> None:
    exact, above = by_hand(vectors=0).clocks(10), by_hand(vectors=0).clocks(12)
    assert tokens_per_split(640, 12) == 64
    # 2 x 2 empty workgroups, one for each place
    assert above - exact == max(1000, 3000)


@pytest.mark.parametrize("context", [0, 1, 16, 17, 64, 1000])
def test_short_contexts_have_no_more_splits_than_granules(context: int) -> None:
    for arch in ARCHS:
        splits = kv_splits(arch, **DECODE, max_context=context)
        assert 1 <= splits <= max(1, -(-context // SPLIT_GRANULE))


def test_no_split_of_the_bound_is_empty() -> None:
    for arch, context, batch in product(ARCHS, CONTEXTS, BATCHES):
        splits = kv_splits(arch, **{**DECODE, "batch": batch}, max_context=context)
        assert (splits - 1) * tokens_per_split(context, splits) < context


def test_few_workgroups_are_split_more() -> None:
    for arch in ARCHS:
        counts = [kv_splits(arch, **{**DECODE, "batch": batch}, max_context=131072) for batch in (1, 4, 16, 64)]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] > 8 * counts[-1]


def test_requests_with_more_query_tokens_are_more_workgroups() -> None:
    one = decode_problem("gfx942", **{**DECODE, "batch": 4}, max_context=8192, tier="portable")
    two = decode_problem("gfx942", **{**DECODE, "batch": 2}, max_context=8192, queries=2, tier="portable")
    assert one == two
    both = decode_problem("gfx942", **DECODE, max_context=8192, queries=3, query_group=4, tier="portable")
    assert (both.workgroups, both.vectors, both.attend.rows) == (2, 36, 24)


def test_the_name_of_a_driver_serves() -> None:
    plain = kv_splits("gfx942", **DECODE, max_context=8192)
    assert kv_splits("gfx942:sramecc+:xnack-", **DECODE, max_context=8192) == plain


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_a_choice_is_cheap(arch: str) -> None:
    """In function calls, of Python and C, since time depends on what else the machine does: each takes about 0.1 us."""
    kv_splits(arch, **DECODE, max_context=131072)
    calls: list[str] = []

    def count(frame: FrameType, event: str, called: object) -> None:
        if event in ("call", "c_call"):
            calls.append(event)

    for context in (1_000, 100_000, 380_000):
        calls.clear()
        sys.setprofile(count)
        try:
            kv_splits(arch, **DECODE, max_context=context)
        finally:
            sys.setprofile(None)
        assert 0 < len(calls) < 1200


def test_everything_that_no_decode_has_is_named() -> None:
    with pytest.raises(OctaveError) as caught:
        kv_splits("gfx942", **{**DECODE, "batch": 0, "q_heads": 13, "fmt": 5}, max_context=-1)
    assert caught.value.exit_code == WRONG_REQUEST
    assert caught.value.what == "no launch has batch 0, max_context -1, 13 query heads on 2 kv heads, fmt 5"
    assert caught.value.where == "kv_splits"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"q_heads": 34}, "34 query heads on 2 kv heads"),
        ({"query_group": 17}, "query_group 17"),
        ({"max_context": 1000.5}, "max_context 1000.5"),
        ({"slot_bytes": 7}, "no slot of head size 256 and fmt 4 has 7 bytes"),
    ],
)
def test_what_no_launch_has(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(OctaveError, match=problem):
        kv_splits("gfx942", **{**DECODE, "max_context": 8192, **given})


def test_a_tier_that_the_chip_lacks_is_an_error() -> None:
    for tier in ("wmma", "wide"):
        with pytest.raises(OctaveError, match=f"gfx942 has no {tier} tier of decode") as caught:
            kv_splits("gfx942", **DECODE, max_context=8192, tier=tier)
        assert caught.value.hint == "it has portable, mfma, flydsl"
    with pytest.raises(OctaveError, match="gfx1100 has no portable tier of prefill_prefix"):
        prefix_splits("gfx1100", **DECODE, max_query_len=64, max_context=8192, tier="portable")


def test_a_launch_of_prefill_holds_the_splits_of_all_requests() -> None:
    given = {**DECODE, "kv_heads": 1, "q_heads": 6, "batch": 512}
    assert 512 * prefix_splits("gfx942", **given, max_query_len=1, max_context=10**7) <= MAX_GRID_YZ


def test_costs_that_were_not_counted_are_an_error() -> None:
    with pytest.raises(
        OctaveError, match="the mfma tier of decode with 4 waves was not counted on gfx1100 for octave_k3"
    ):
        launch_costs("decode", "gfx1100", "mfma", 256, "octave_k3v4", 6, 4)
    with pytest.raises(OctaveError, match="the wmma tier of decode with 8 waves was not counted on gfx1100"):
        launch_costs("decode", "gfx1100", "wmma", 256, "octave_k3v4", 6, 8)


def test_a_tier_that_does_not_hold_the_shape_says_why() -> None:
    with pytest.raises(OctaveError, match="up to 64, not 96"):
        kv_splits("gfx942", **{**DECODE, "q_heads": 32}, max_context=8192, query_group=6, tier="portable")


def test_the_matrix_tier_is_taken_where_it_holds_the_shape() -> None:
    chip = replace(ARCHS["gfx942"], tiers=("portable", "mfma"))
    held, other = (Shape("octave", head_size, "f16", "octave_k3v4", 64, 6, 4) for head_size in (256, 64))
    assert [default_tier(chip, shape) for shape in (held, other)] == ["mfma", "portable"]
    assert default_tier(replace(chip, tiers=("portable",)), held) == "portable"


def test_a_group_may_be_shared_out() -> None:
    """16 query heads on each kv head: a workgroup of the mfma tier holds 2 of 4 query tokens, and 3 take 2 of them."""
    wide = {**DECODE, "q_heads": 32, "query_group": 4, "max_context": 8192, "tier": "mfma"}
    assert [decode_problem("gfx942", **wide, queries=n).workgroups for n in (1, 2, 3, 4, 5)] == [2, 2, 4, 4, 6]
    assert decode_problem("gfx942", **wide).attend.rows == 32


PREFIX = LaunchCosts("prefill_prefix", "gfx942", "mfma", 256, "octave_k3v4", 128, 4, 1, 16, 8000, 960, 20000, 1500)
CHUNK = LaunchCosts("prefill_chunk", "gfx942", "mfma", 256, "*", 128, 4, 1, 1, 8000, 600, 20000, 2500)


@pytest.fixture
def counted_prefill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefill kernels of made-up cost."""
    known = {"prefill_prefix": PREFIX, "prefill_chunk": CHUNK}
    monkeypatch.setattr(split_policy, "launch_costs", lambda kind, *rest: known[kind])


@pytest.mark.usefixtures("counted_prefill")
def test_prefix_splits_fill_the_chip_and_no_count_is_ten_per_cent_better() -> None:
    for context, batch, tokens in product(CONTEXTS, (1, 4), (1, 21, 128, 2048)):
        given = {**DECODE, "batch": batch, "max_query_len": tokens, "max_context": context}
        problem = prefix_problem("gfx942", **given, tier="mfma")
        assert problem.workgroups == problem.vectors == batch * 2 * -(-tokens * 6 // 128)
        most = min(MAX_KV_SPLITS, -(-context // SPLIT_GRANULE))
        least = min(problem.clocks(count) for count in range(1, most + 1))
        assert problem.clocks(problem.best()) <= WITHIN * least, (context, batch, tokens)


@pytest.mark.usefixtures("counted_prefill")
def test_long_chunks_are_not_split() -> None:
    given = {**DECODE, "max_context": 131072, "tier": "mfma"}
    assert prefix_splits("gfx942", **given, max_query_len=1) > 30
    assert prefix_splits("gfx942", **given, max_query_len=32768) <= 2


def test_the_worked_example_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ops.md").read_text()
    example = page.split("```python\nfrom octave_gen.ops import kv_splits", 1)[1].split("```", 1)[0]
    names: dict[str, int] = {}
    exec("from octave_gen.ops import kv_splits" + example, names)
    assert names["splits"] > 1


@pytest.mark.parametrize("arch", list(ARCHS))
@pytest.mark.parametrize("head_size", [128, 256])
def test_prefix_splits_of_the_counted_kernels(arch: str, head_size: int) -> None:
    given = {**DECODE, "head_size": head_size, "slot_bytes": {128: 128, 256: 248}[head_size]}
    for context, batch, tokens in product(CONTEXTS, (1, 4), (1, 21, 128, 2048)):
        problem = prefix_problem(arch, **{**given, "batch": batch}, max_query_len=tokens, max_context=context)
        most = min(MAX_KV_SPLITS, -(-context // SPLIT_GRANULE))
        least = min(problem.clocks(count) for count in [*range(1, min(most, 64) + 1), *range(65, most + 1, 3)])
        assert problem.clocks(problem.best()) <= WITHIN * least, (context, batch, tokens)
    few, many = (prefix_splits(arch, **given, max_query_len=n, max_context=131072) for n in (1, 32768))
    assert few > 8 * many
