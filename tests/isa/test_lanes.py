"""Moves between lanes and register files, lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from machine import Machine

from octave_gen.isa.decode import M0, parse
from octave_gen.isa.indexed import IndexMode

Make = Callable[..., Machine]


def test_read_first_lane(machine: Make, arch: str) -> None:
    m = machine(arch)
    mask = np.zeros((2, m.lanes), np.bool_)
    mask[0, 5:9] = True
    m.exec = mask
    m.run("v_readfirstlane_b32 s4, v1")
    assert m.s[4].tolist() == [m.v[1, 0, 5], m.v[1, 1, 0]]


def test_read_and_write_one_lane(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.exec = np.zeros((2, m.lanes), np.bool_)
    m.s[5] = [3, m.lanes + 7]
    m.run("v_readlane_b32 s4, v1, s5", "v_readlane_b32 s6, v1, 9")
    assert m.s[4].tolist() == [m.v[1, 0, 3], m.v[1, 1, 7]]
    assert (m.s[6] == m.v[1, :, 9]).all()
    before = m.v[2].copy()
    m.run("v_writelane_b32 v2, 17, s5")
    before[0, 3], before[1, 7] = 17, 17
    assert (m.v[2] == before).all()


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("op_sel", ["", " op_sel:[1,0]", " op_sel:[0,1]", " op_sel:[1,1]"])
@pytest.mark.parametrize("lanes", [32, 64])
def test_permute_rows(machine: Make, across: bool, op_sel: str, lanes: int) -> None:
    m = machine("gfx1100", lanes=lanes)
    on, before = m.some_lanes(), m.v.copy()
    m.run(f"v_permlane{'x' if across else ''}16_b32 v0, v1, s2, s3{op_sel}")
    fetch, bound = "[1," in op_sel, ",1]" in op_sel
    for wave in range(2):
        names = int(m.s[2, wave]) | int(m.s[3, wave]) << 32
        for lane in range(lanes):
            row = lane // 16 * 16
            source = (row ^ 16 if across else row) + (names >> 4 * (lane % 16) & 15)
            readable = fetch or on[wave, source]
            if on[wave, lane] and (readable or bound):
                assert m.v[0, wave, lane] == (before[1, wave, source] if readable else 0)
            else:
                assert m.v[0, wave, lane] == before[0, wave, lane]


@pytest.mark.parametrize("lanes", [32, 64])
def test_swap_wave_halves(machine: Make, lanes: int) -> None:
    m = machine("gfx1100", lanes=lanes)
    m.run("v_permlane64_b32 v0, v1")
    assert (m.v[0] == (m.v[1] if lanes == 32 else np.roll(m.v[1], 32, axis=1))).all()


def test_lanes_below(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.run("v_mbcnt_lo_u32_b32 v0, s2, v5", "v_mbcnt_hi_u32_b32 v1, s3, v0")
    for wave in range(2):
        names = int(m.s[2, wave]) | int(m.s[3, wave]) << 32
        for lane in range(m.lanes):
            low = bin(names & 0xFFFFFFFF & (1 << lane) - 1).count("1")
            both = bin(names & (1 << lane) - 1).count("1")
            assert m.v[0, wave, lane] == np.uint32((low + int(m.v[5, wave, lane])) & 0xFFFFFFFF)
            assert m.v[1, wave, lane] == np.uint32((both + int(m.v[5, wave, lane])) & 0xFFFFFFFF)


def test_swap(machine: Make, arch: str) -> None:
    m = machine(arch)
    on, before = m.some_lanes(), m.v.copy()
    m.run("v_swap_b32 v0, v1")
    assert (m.v[0] == np.where(on, before[1], before[0])).all()
    assert (m.v[1] == np.where(on, before[0], before[1])).all()


def test_accumulators(machine: Make) -> None:
    m = machine("gfx942")
    on, before = m.some_lanes(), m.a.copy()
    m.run("v_accvgpr_write_b32 a3, v1", "v_accvgpr_read_b32 v2, a3", "v_accvgpr_mov_b32 a4, a3")
    assert (m.a[3] == np.where(on, m.v[1], before[3])).all()
    assert (m.v[2][on] == m.v[1][on]).all()
    assert (m.a[4] == np.where(on, m.v[1], before[4])).all()
    m.run("v_accvgpr_write_b32 a5, 1.0")
    assert (m.a[5][on] == 0x3F800000).all()


def test_relative_registers(machine: Make) -> None:
    m = machine("gfx1100")
    m.s[M0] = [2, 5]
    on, before = m.some_lanes(), m.v.copy()
    m.run("v_movrels_b32_e32 v0, v10")
    for wave, amount in enumerate((2, 5)):
        assert (m.v[0, wave] == np.where(on[wave], before[10 + amount, wave], before[0, wave])).all()
    m.run("v_movreld_b32_e32 v20, v1")
    for wave, amount in enumerate((2, 5)):
        assert (m.v[20 + amount, wave] == np.where(on[wave], before[1, wave], before[20 + amount, wave])).all()


@pytest.mark.parametrize("which", ["SRC0", "DST"])
def test_indexed_registers(machine: Make, which: str) -> None:
    m = machine("gfx942")
    m.s[3] = [1, 4]
    on, before = m.some_lanes(), m.v.copy()
    mode = IndexMode()
    texts = [f"s_set_gpr_idx_on s3, gpr_idx({which})", "v_mov_b32_e32 v0, v8", "s_set_gpr_idx_off"]
    for text in texts:
        step = mode.compile(parse(text))
        assert step is not None
        step(m.batch)
    assert mode.compile(parse("v_mov_b32_e32 v0, v8")) is None
    for wave, amount in enumerate((1, 4)):
        source, target = (8 + amount, 0) if which == "SRC0" else (8, amount)
        assert (m.v[target, wave] == np.where(on[wave], before[source, wave], before[target, wave])).all()


# through the LDS crossbar ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch_", "lanes"), [("gfx942", 64), ("gfx1100", 32), ("gfx1100", 64)])
@pytest.mark.parametrize("offset", [0, 12])
def test_backward_permute(machine: Make, arch_: str, lanes: int, offset: int) -> None:
    m = machine(arch_, lanes=lanes)
    on, before = m.some_lanes(), m.v.copy()
    m.run("ds_bpermute_b32 v0, v1, v2" + (f" offset:{offset}" if offset else ""))
    width = 64 if arch_ == "gfx942" else 32
    for wave in range(2):
        for lane in range(lanes):
            source = lane // width * width + ((int(before[1, wave, lane]) + offset) & 0xFFFFFFFF) // 4 % width
            want = before[2, wave, source] if on[wave, source] else 0
            assert m.v[0, wave, lane] == (want if on[wave, lane] else before[0, wave, lane])


def test_forward_permute(machine: Make, arch: str) -> None:
    m = machine(arch)
    on, before = m.some_lanes(), m.v.copy()
    m.run("ds_permute_b32 v0, v1, v2")
    for wave in range(2):
        want = [0] * m.lanes
        for lane in range(m.lanes):
            if on[wave, lane]:
                want[int(before[1, wave, lane]) // 4 % m.lanes] = before[2, wave, lane]
        assert (m.v[0, wave] == np.where(on[wave], want, before[0, wave])).all()


@pytest.mark.parametrize(
    ("pattern", "source"),
    [
        ("swizzle(QUAD_PERM,1,0,3,2)", lambda lane: lane ^ 1),
        ("swizzle(SWAP,8)", lambda lane: lane ^ 8),
        ("swizzle(REVERSE,16)", lambda lane: lane ^ 15),
        ("swizzle(BROADCAST,4,2)", lambda lane: lane // 4 * 4 + 2),
        ('swizzle(BITMASK_PERM,"01pi0")', lambda lane: lane // 32 * 32 + (lane & 6 ^ 2 | 8)),
    ],
)
def test_swizzle(machine: Make, arch: str, pattern: str, source: Callable[[int], int]) -> None:
    m = machine(arch)
    on, before = m.some_lanes(), m.v.copy()
    m.run(f"ds_swizzle_b32 v0, v1 offset:{pattern}")
    for wave in range(2):
        for lane in range(m.lanes):
            want = before[1, wave, source(lane)] if on[wave, source(lane)] else 0
            assert m.v[0, wave, lane] == (want if on[wave, lane] else before[0, wave, lane])


# dual issue -----------------------------------------------------------------------------------------------------------


def test_dual_issue_reads_before_it_writes(machine: Make) -> None:
    m = machine("gfx1100")
    on, before = m.some_lanes(), m.v.copy()
    m.run("v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0")
    assert (m.v[0] == np.where(on, before[1], before[0])).all()
    assert (m.v[1] == np.where(on, before[0], before[1])).all()


def test_dual_issue_of_arithmetic(machine: Make) -> None:
    m = machine("gfx1100")
    m.v[:8].view(np.float32)[...] = m.random.normal(size=(8, 2, 32)).astype(np.float32)
    before = m.v.view(np.float32).copy()
    m.run("v_dual_fmac_f32 v0, v2, v4 :: v_dual_mul_f32 v1, 0x40400000, v3")
    exact = before[2].astype(np.float64) * before[4] + before[0]
    assert np.allclose(m.v[0].view(np.float32), exact, rtol=1e-6)
    assert (m.v[1].view(np.float32) == before[3] * np.float32(3)).all()
    m.run("v_dual_cndmask_b32 v5, v6, v2 :: v_dual_add_nc_u32 v4, v7, v3")
    assert (m.v[5] == np.where(m.vcc, before[2].view(np.uint32), before[6].view(np.uint32))).all()
    assert (m.v[4] == before[7].view(np.uint32) + before[3].view(np.uint32)).all()
