"""The estimate of a lone wave: traces counted by hand, then real kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from octave_gen import isa, plan
from octave_gen.arch import ARCHS
from octave_gen.isa.counters import class_of
from octave_gen.isa.decode import parse
from octave_gen.profile import table
from octave_gen.profile.built import Kernel, kernels
from octave_gen.profile.latency import estimate, lone_clocks
from octave_gen.profile.measure import profiles
from octave_gen.spec.model import Spec

LATENCY = 1000
TRANSCENDENTAL = ("v_exp_f32", "v_rcp_f32")


def clocks(arch: str, *texts: str, latency: float = LATENCY) -> float:
    """Of a trace of these instructions, one behind the other in memory but where a branch is taken."""
    chip, address, trace = ARCHS[arch], 0, []
    for text in texts:
        taken = text.endswith(" taken")
        made = parse(text.removesuffix(" taken"), address, 8)
        trace.append((made, class_of(made, made.base in TRANSCENDENTAL)))
        address += 64 if taken else 8
    return lone_clocks(trace, chip.costs, chip.wave_size, latency)


MFMA = "v_mfma_f32_16x16x16_f16 v[0:3], v[8:9], v[10:11], {}"
WMMA = "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], 0),
        (["s_nop 0"], 4),
        (["s_nop 3", "s_nop 1"], 24),
        (["v_add_f32_e32 v0, v1, v2", "v_add_f32_e32 v0, v0, v2"], 8),
        (["s_add_u32 s0, s1, s2", "v_add_f32_e32 v0, s0, v2"], 8),
        (["v_exp_f32_e32 v0, v1", "v_mul_lo_u32 v0, v0, v2", "v_add_f32_e32 v0, v0, v2"], 36),
        # A load is waited for from its issue on; what lies between counts as well.
        (["global_load_dword v0, v[2:3], off", "s_waitcnt vmcnt(0)"], 1004),
        (["global_load_dword v0, v[2:3], off", *["v_add_f32_e32 v5, v1, v2"] * 100, "s_waitcnt vmcnt(0)"], 1004),
        (["global_load_dword v0, v[2:3], off", *["v_add_f32_e32 v5, v1, v2"] * 300, "s_waitcnt vmcnt(0)"], 1208),
        # One of two may be left: the first came back at 1000; then the second.
        (["global_load_dword v0, v[2:3], off"] * 2 + ["s_waitcnt vmcnt(1)"], 1004),
        (["global_load_dword v0, v[2:3], off"] * 2 + ["s_waitcnt vmcnt(1)", "s_waitcnt vmcnt(0)"], 1008),
        (["s_load_dword s0, s[2:3], 0x0", "s_waitcnt vmcnt(0)"], 8),
        (["s_load_dword s0, s[2:3], 0x0", "s_waitcnt lgkmcnt(0)"], 1004),
        # A store counts in vmcnt here.
        (["global_store_dword v[2:3], v0, off", "s_waitcnt vmcnt(0)"], 1004),
        # 64 lanes of 16 bytes are 8 clocks of LDS.
        (["ds_read_b128 v[0:3], v4", "s_waitcnt lgkmcnt(0)"], 8 + 64 + 4),
        (["ds_read_b128 v[0:3], v4"] * 2 + ["s_waitcnt vmcnt(3) lgkmcnt(1)"], 8 + 64 + 4),
        (["ds_read_b128 v[0:3], v4"] * 2 + ["s_waitcnt lgkmcnt(0)"], 16 + 64 + 4),
        # The next matrix instruction waits for the matrix cores, others for the wave's slot alone.
        ([MFMA.format("0"), "v_add_f32_e32 v20, v21, v22"], 8),
        ([MFMA.format("v[0:3]"), MFMA.format("v[0:3]")], 16 + 4),
        ([MFMA.format("0"), "v_add_f32_e32 v20, v3, v22"], 16 + 12 + 4),
        ([MFMA.format("0"), MFMA.replace("v[8:9]", "v[0:1]").format("0")], 16 + 12 + 4),
        (["s_cbranch_scc0 2", "s_nop 0"], 8),
        (["s_cbranch_scc0 2 taken", "s_nop 0"], 32 + 4),
    ],
)
def test_gfx942_by_hand(texts: list[str], expected: float) -> None:
    assert clocks("gfx942", *texts) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["v_add_f32_e32 v0, v1, v2", "v_add_f32_e32 v3, v1, v2"], 2),
        (["v_add_f32_e32 v0, v1, v2", "v_add_f32_e32 v3, v0, v2"], 6),
        (["v_add_f32_e32 v0, v1, v2", "s_delay_alu instid0(VALU_DEP_1)", "v_add_f32_e32 v3, v0, v2"], 6),
        (["v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v3, v2", "v_add_f32_e32 v5, v3, v2"], 6),
        (["v_exp_f32_e32 v0, v1", "v_add_f32_e32 v3, v4, v2"], 5),
        (["v_exp_f32_e32 v0, v1", "v_add_f32_e32 v3, v0, v2"], 11),
        (["v_fmac_f32_e32 v0, v1, v2"] * 2, 6),
        (["s_add_u32 s0, s1, s2", "s_add_u32 s3, s0, s2"], 3),
        # WMMA keeps the SIMD for 32 clocks; its sum can go on at once, another reader 5 later.
        ([WMMA, WMMA], 64),
        ([WMMA, "v_add_f32_e32 v30, v0, v31"], 32 + 5 + 1),
        # Stores have a counter of their own.
        (["global_store_b32 v[2:3], v0, off", "s_waitcnt vmcnt(0)"], 2),
        (["global_store_b32 v[2:3], v0, off", "s_waitcnt_vscnt null, 0x0"], 1001),
        (["global_load_b32 v0, v[2:3], off", "s_waitcnt vmcnt(0)"], 1001),
    ],
)
def test_gfx1100_by_hand(texts: list[str], expected: float) -> None:
    assert clocks("gfx1100", *texts) == expected


def test_loads_of_a_kind_come_back_in_order() -> None:
    """A load behind an older one is not there before it, even if memory were faster."""
    two = ["global_load_dword v0, v[2:3], off", "global_load_dword v1, v[2:3], off"]
    assert clocks("gfx942", *two, "s_waitcnt vmcnt(0)", latency=0) == 12
    assert clocks("gfx942", *two, "s_waitcnt vmcnt(0)") == 1008


@pytest.fixture(scope="module", params=[name for name, chip in ARCHS.items() if not chip.on_request])
def small_kernels(
    request: pytest.FixtureRequest, small_spec: Callable[..., Spec], small_build: Path
) -> dict[str, Kernel]:
    planned = plan.variants([small_spec(query_groups=(4,))], [request.param])
    found = kernels(plan.select(planned, "*_f16_*"), planned, small_build)
    return {kernel.variant.kind.name: kernel for kernel in found}


@pytest.mark.parametrize("small_kernels", ["gfx942"], indirect=True)
def test_a_lone_wave_takes_its_issue_and_what_it_waits_for(small_kernels: dict[str, Kernel]) -> None:
    kernel = small_kernels["decode"]
    code_object = isa.load(kernel.code_object)
    (counted,) = profiles([kernel], progress=lambda line: None)
    quick, slow = (estimate(kernel, code_object, latency) for latency in (0, LATENCY))
    assert quick is not None
    assert slow is not None
    # A tile of 64 tokens is a wave's 16 for each of the four SIMDs.
    issue = counted.clocks.valu * 64
    assert issue < quick.each < 3 * issue
    # The portable tier waits for memory again and again in a tile.
    assert slow.each > quick.each + 3 * LATENCY
    assert slow.launch > quick.launch + LATENCY


def test_reduce_has_loads_of_several_splits_on_the_way(small_kernels: dict[str, Kernel]) -> None:
    """Eight waves share the splits, and each has eight partials on the way."""
    kernel = small_kernels["reduce"]
    alone = estimate(kernel, isa.load(kernel.code_object))
    assert alone is not None
    assert alone.each < 1.1 * LATENCY / 64 + 25


def test_kernels_without_a_loop_have_no_estimate(small_kernels: dict[str, Kernel]) -> None:
    for kind in ("store", "rotate"):
        assert estimate(small_kernels[kind], isa.load(small_kernels[kind].code_object)) is None


def test_the_table_shows_it_where_it_was_asked_for(small_kernels: dict[str, Kernel]) -> None:
    chosen = [small_kernels["store"], small_kernels["reduce"]]
    store, reduce = profiles(chosen, latency=LATENCY, progress=lambda line: None)
    assert store.alone is None
    assert reduce.alone is not None
    text = table.table([store, reduce])
    heads, *rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    assert heads[-2:] == ["alone", "alone-launch"]
    assert [row[-2:] for row in rows] == [["-", "-"], [f"{reduce.alone.each:.0f}", f"{reduce.alone.launch:.0f}"]]
    assert "answers after 1000 clocks" in text
    assert "alone" not in table.table([replace(store, alone=None)])
    assert table.data([store, reduce])["variants"][1]["alone"]["latency"] == LATENCY
