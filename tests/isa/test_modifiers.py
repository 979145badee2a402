"""Operands and modifiers: constants, signs, halves, op_sel, clamp, SDWA, DPP, 64-bit pairs, EXEC."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from machine import Array, Machine

from octave_gen.isa.decode import parse
from octave_gen.isa.operands import Chip, UnknownError, constant_bits
from octave_gen.isa.program import compile_instruction
from octave_gen.isa.types import BF16, F16, F16X2, F32, F64, I32, I64, U16, U32, U64, Type

Make = Callable[..., Machine]


def f32(values: Array) -> Array:
    return values.view(np.float32)


@pytest.mark.parametrize(
    ("text", "type_", "bits"),
    [
        ("1", U32, 1),
        ("-16", I32, 0xFFFFFFF0),
        ("-1", U64, 0xFFFFFFFFFFFFFFFF),
        ("64", F32, 64),
        ("1.0", F32, 0x3F800000),
        ("1.0", U32, 0x3F800000),
        ("-0.5", F16, 0xB800),
        ("2.0", BF16, 0x4000),
        ("2.0", U16, 0x4000),
        ("1.0", F16X2, 0x3C00),
        ("-4.0", F64, 0xC010000000000000),
        ("0.15915494", F32, 0x3E22F983),
        ("0.15915494", F16, 0x3118),
        ("0.15915494309189532", F64, 0x3FC45F306DC9C882),
        ("0x40490fdb", F32, 0x40490FDB),
        ("0x3ff00000", F64, 0x3FF0000000000000),
        ("0x80000000", U64, 0x80000000),
        ("0x80000000", I64, 0xFFFFFFFF80000000),
    ],
)
def test_constants(text: str, type_: Type, bits: int) -> None:
    assert constant_bits(text, type_) == bits


def test_exec_keeps_the_other_lanes(machine: Make, arch: str) -> None:
    m = machine(arch)
    on, before = m.some_lanes(), m.v.copy()
    m.run("v_xor_b32_e32 v0, v1, v2")
    assert (m.v[0] == np.where(on, before[1] ^ before[2], before[0])).all()
    assert (m.v[1:] == before[1:]).all()


def test_no_lane_on(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.exec = np.zeros((2, m.lanes), np.bool_)
    before = m.v.copy()
    m.run("v_mov_b32_e32 v0, 0")
    assert (m.v == before).all()


def test_scalar_and_vector_sources(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.run("v_xor_b32_e32 v0, s3, v2", "v_mov_b32_e32 v1, 0x12345678", "v_mov_b32_e32 v3, -1.0")
    assert (m.v[0] == (m.s[3][:, None] ^ m.v[2])).all()
    assert (m.v[1] == 0x12345678).all()
    assert (f32(m.v[3]) == -1).all()


def test_signs_are_bits(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.v[1] = np.float32(np.nan).view(np.uint32)
    m.v[2, 0], m.v[2, 1] = 0x80000000, 0x40000000
    m.run(
        "v_mul_f32_e64 v3, -v2, |v2|",
        "v_cndmask_b32_e64 v0, -v1, v1, s[2:3]" if m.lanes == 64 else "v_cndmask_b32_e64 v0, -v1, v1, s2",
    )
    assert (m.v[3, 0] == 0).all()
    assert (f32(m.v[3, 1]) == -4).all()
    chosen = m.batch.mask(2)
    assert (m.v[0] == np.where(chosen, 0x7FC00000, 0xFFC00000)).all()
    m.run("v_add_f32_e64 v4, -|v2|, 0")
    assert (f32(m.v[4, 1]) == -2).all()


def test_clamp(machine: Make, arch: str) -> None:
    m = machine(arch)
    values = np.array([-1, 0.25, 3, np.nan], np.float32)
    f32(m.v[1])[:, :4] = values
    m.run("v_add_f32_e64 v0, v1, 0 clamp")
    assert (f32(m.v[0])[:, :4] == [0, 0.25, 1, 0]).all()
    name = "v_add_u32_e64" if arch == "gfx942" else "v_add_nc_u32_e64"
    m.v[2], m.v[3] = 0xFFFFFFF0, 0x20
    m.run(f"{name} v4, v2, v3 clamp", f"{name} v5, v2, v3")
    assert (m.v[4] == 0xFFFFFFFF).all()
    assert (m.v[5] == 0x10).all()


def test_pairs_of_registers(machine: Make, arch: str) -> None:
    m = machine(arch)
    wide = m.v[3].astype(np.uint64) << 32 | m.v[2]
    on = m.some_lanes()
    m.v[6:8] = 0
    m.run("v_lshlrev_b64 v[6:7], 9, v[2:3]")
    got = m.v[7].astype(np.uint64) << 32 | m.v[6]
    assert (got == np.where(on, wide << np.uint64(9), 0)).all()


# 16 bits --------------------------------------------------------------------------------------------------------------


def test_gfx9_clears_the_other_half(machine: Make) -> None:
    m = machine("gfx942")
    m.v[1], m.v[2] = 0x11110003, 0x22220004
    m.run("v_add_u16_e32 v0, v1, v2", "v_cvt_f16_f32_e32 v3, 1.0")
    assert (m.v[0] == 7).all()
    assert (m.v[3] == 0x3C00).all()


def test_gfx9_instructions_that_keep_it(machine: Make) -> None:
    m = machine("gfx942")
    m.v[0], m.v[1] = 0xAAAA0000, 0x40000003
    m.run("v_mad_u16 v0, v1, v1, 1")
    assert (m.v[0] == 0xAAAA000A).all()
    m.run("v_mad_u16 v0, v1, v1, 1 op_sel:[0,0,0,1]")
    assert (m.v[0] == 0x000A000A).all()
    m.run("v_mad_u16 v0, v1, 2, 0 op_sel:[1,0,0,0]")
    assert (m.v[0] == 0x000A8000).all()


def test_gfx11_halves(machine: Make) -> None:
    m = machine("gfx1100")
    m.v[0], m.v[1] = 0xAAAABBBB, 0x00050003
    m.run("v_mov_b16_e32 v0.l, v1.h")
    assert (m.v[0] == 0xAAAA0005).all()
    m.run("v_mov_b16_e32 v0.h, v1.l")
    assert (m.v[0] == 0x00030005).all()
    m.run("v_add_nc_u16 v2.l, v1.l, v1.h op_sel:[0,1,0]", "v_lshlrev_b16 v3.h, 4, v1.l op_sel:[0,0,1]")
    assert (m.v[2] & 0xFFFF == 8).all()
    assert (m.v[3] >> 16 == 0x30).all()
    m.run("v_cvt_f32_f16_e32 v4, v5.h")
    assert (f32(m.v[4]) == (m.v[5] >> 16).astype(np.uint16).view(np.float16).astype(np.float32))[
        ~np.isnan(f32(m.v[4]))
    ].all()


def test_half_results_follow_exec(machine: Make, arch: str) -> None:
    m = machine(arch)
    on, before = m.some_lanes(), m.v.copy()
    text = "v_add_u16_e32 v0, v1, v2" if arch == "gfx942" else "v_add_nc_u16 v0.l, v1.l, v2.l"
    m.run(text)
    low = (before[1] + before[2]) & 0xFFFF
    new = low if arch == "gfx942" else before[0] & 0xFFFF0000 | low
    assert (m.v[0] == np.where(on, new, before[0])).all()


@pytest.mark.parametrize(
    ("suffix", "low", "high"),
    [
        ("", (0, 0), (1, 1)),
        (" op_sel:[1,0]", (1, 0), (1, 1)),
        (" op_sel_hi:[0,1]", (0, 0), (0, 1)),
        (" op_sel:[1,1] op_sel_hi:[0,0]", (1, 1), (0, 0)),
    ],
)
def test_packed_halves(machine: Make, arch: str, suffix: str, low: tuple[int, int], high: tuple[int, int]) -> None:
    m = machine(arch)
    m.run(f"v_pk_add_u16 v0, v1, v2{suffix}")
    halves = [(m.v[1] >> 16 * part & 0xFFFF, m.v[2] >> 16 * other & 0xFFFF) for part, other in (low, high)]
    want = (halves[0][0] + halves[0][1] & 0xFFFF) | (halves[1][0] + halves[1][1] & 0xFFFF) << 16
    assert (m.v[0] == want).all()


def test_packed_signs_and_constants(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.v[1] = np.array([3, 5], np.float16).view(np.uint32)[0]
    m.run("v_pk_add_f16 v0, v1, 1.0 op_sel_hi:[1,0] neg_lo:[1,0]")
    assert (m.v[0] == np.array([-2, 6], np.float16).view(np.uint32)[0]).all()
    m.run("v_pk_mul_f16 v0, v1, v1 neg_hi:[0,1]")
    assert (m.v[0] == np.array([9, -25], np.float16).view(np.uint32)[0]).all()
    m.run("v_pk_add_u16 v0, v1, 3 op_sel_hi:[1,0]")
    assert (m.v[0] == m.v[1] + 0x00030003).all()


@pytest.mark.parametrize(
    "suffix", ["", " op_sel_hi:[1,0]", " op_sel:[0,1]", " op_sel:[1,1] op_sel_hi:[0,0] neg_lo:[0,1]"]
)
def test_packed_pairs_of_floats(machine: Make, suffix: str) -> None:
    m = machine("gfx942")
    f32(m.v[2:6])[...] = m.random.normal(size=(4, 2, 64)).astype(np.float32)
    on, before = m.some_lanes(), m.v.copy()
    m.run(f"v_pk_mul_f32 v[0:1], v[2:3], v[4:5]{suffix}")
    first = {"op_sel:[0,1]": (0, 1), "op_sel:[1,1]": (1, 1)}.get(suffix.strip().split(" ")[0], (0, 0))
    second = (1, 0) if "hi:[1,0]" in suffix else (0, 0) if "hi:[0,0]" in suffix else (1, 1)
    for row, (a, b), sign in ((0, first, -1 if "neg_lo" in suffix else 1), (1, second, 1)):
        want = f32(before[2 + a]) * f32(before[4 + b]) * np.float32(sign)
        assert (m.v[row] == np.where(on, want.view(np.uint32), before[row])).all()


def test_packed_pairs_of_one_element_and_scalars(machine: Make) -> None:
    m = machine("gfx942")
    f32(m.v[2:4])[...] = m.random.normal(size=(2, 2, 64)).astype(np.float32)
    f32(m.s[4:6])[...] = m.random.normal(size=(2, 2)).astype(np.float32)
    m.run("v_pk_add_f32 v[0:1], v[2:3], v[2:3] op_sel:[1,1]")
    assert (f32(m.v[:2]) == 2 * f32(m.v[3])).all()
    m.run("v_pk_mul_f32 v[0:1], v[2:3], s[4:5]")
    assert (f32(m.v[:2]) == f32(m.v[2:4]) * f32(m.s[4:6])[..., None]).all()
    m.run("v_pk_mov_b32 v[6:7], v[2:3], v[2:3] op_sel:[1,0]")
    assert (m.v[6] == m.v[3]).all()
    assert (m.v[7] == m.v[2]).all()


def test_mixed_precision(machine: Make, arch: str) -> None:
    m = machine(arch)
    f32(m.v[1])[...], f32(m.v[3])[...] = 2.0, 0.5
    m.v[2] = np.array([3, 10], np.float16).view(np.uint32)[0]
    m.run("v_fma_mix_f32 v0, v1, v2, v3 op_sel:[0,1,0] op_sel_hi:[0,1,0]")
    assert (f32(m.v[0]) == 20.5).all()
    m.run("v_fma_mix_f32 v0, -v1, |v2|, -v3 op_sel_hi:[0,1,0]")
    assert (f32(m.v[0]) == -6.5).all()
    m.v[4] = 0xAAAABBBB
    m.run("v_fma_mixlo_f16 v4, v1, v1, 0")
    assert (m.v[4] == 0xAAAA4400).all()
    m.run("v_fma_mixhi_f16 v4, v1, v1, v3")
    assert (m.v[4] == 0x44804400).all()


# SDWA -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"])
def test_sdwa_sources(machine: Make, part: str) -> None:
    m = machine("gfx942")
    offset, width = (
        {"B": (8 * int(part[-1]), 8), "W": (16 * int(part[-1]), 16)}.get(part[0], (0, 32))
        if part != "DWORD"
        else (0, 32)
    )
    m.run(f"v_add_u32_sdwa v0, v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{part} src1_sel:DWORD")
    field = m.v[1].astype(np.uint64) >> np.uint64(offset) & np.uint64((1 << width) - 1)
    assert (m.v[0] == field.astype(np.uint32) + m.v[2]).all()
    m.run(f"v_add_u32_sdwa v3, sext(v1), v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{part} src1_sel:DWORD")
    signed = (field ^ np.uint64(1 << width - 1)) - np.uint64(1 << width - 1)
    assert (m.v[3] == signed.astype(np.uint32) + m.v[2]).all()


@pytest.mark.parametrize(
    ("unused", "want"),
    [
        ("UNUSED_PAD", lambda old, byte: byte << 8),
        ("UNUSED_PRESERVE", lambda old, byte: old & 0xFFFF00FF | byte << 8),
        ("UNUSED_SEXT", lambda old, byte: (byte ^ 0x80) - 0x80 << 8),
    ],
)
def test_sdwa_destination(machine: Make, unused: str, want: Callable[[Array, Array], Array]) -> None:
    m = machine("gfx942")
    on, before = m.some_lanes(), m.v.copy()
    m.run(f"v_or_b32_sdwa v0, v1, v2 dst_sel:BYTE_1 dst_unused:{unused} src0_sel:DWORD src1_sel:DWORD")
    byte = (before[1] | before[2]) & np.uint32(0xFF)
    assert (m.v[0] == np.where(on, want(before[0], byte), before[0])).all()


def test_sdwa_floats_and_comparisons(machine: Make) -> None:
    m = machine("gfx942")
    m.v[1] = np.array([1, -3], np.float16).view(np.uint32)[0]
    m.run("v_add_f16_sdwa v0, -v1, |v1| dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:WORD_1")
    assert (m.v[0] == np.array([0, 2], np.float16).view(np.uint32)[0]).all()
    m.run("v_cmp_eq_u32_sdwa vcc, v2, v3 src0_sel:BYTE_1 src1_sel:BYTE_1")
    assert (m.vcc == (m.v[2] >> 8 & 0xFF == m.v[3] >> 8 & 0xFF)).all()


# DPP ------------------------------------------------------------------------------------------------------------------


def pattern(control: str, lane: int, lanes: int) -> int | None:
    """The lane that ``lane`` reads, lane by lane out of the instruction set document."""
    name, _, value = control.partition(":")
    row, place = lane // 16 * 16, lane % 16
    if name == "quad_perm":
        return lane // 4 * 4 + [int(v) for v in value.strip("[]").split(",")][lane % 4]
    if name == "dpp8":
        return lane // 8 * 8 + [int(v) for v in value.strip("[]").split(",")][lane % 8]
    n = int(value or 0)
    table: dict[str, int | None] = {
        "row_shl": row + place + n if place + n < 16 else None,
        "row_shr": row + place - n if place - n >= 0 else None,
        "row_ror": row + (place - n) % 16,
        "row_mirror": row + 15 - place,
        "row_half_mirror": lane // 8 * 8 + 7 - lane % 8,
        "row_newbcast": row + n,
        "row_share": row + n,
        "row_xmask": row + (place ^ n),
        "wave_shl": lane + 1 if lane + 1 < lanes else None,
        "wave_shr": lane - 1 if lane else None,
        "wave_rol": (lane + 1) % lanes,
        "wave_ror": (lane - 1) % lanes,
        "row_bcast": None if lane < (16 if n == 15 else 32) else (row - 1 if n == 15 else 31),
    }
    return table[name]


COMMON = ["quad_perm:[3,0,2,1]", "row_shl:3", "row_shr:5", "row_ror:7", "row_mirror", "row_half_mirror"]
GFX9 = ["wave_shl:1", "wave_shr:1", "wave_rol:1", "wave_ror:1", "row_bcast:15", "row_bcast:31", "row_newbcast:6"]
GFX11 = ["row_share:11", "row_xmask:10"]
CONTROLS = [(arch, c) for arch, more in (("gfx942", GFX9), ("gfx1100", GFX11)) for c in (*COMMON, *more)]


@pytest.mark.parametrize(("arch_", "control"), CONTROLS)
@pytest.mark.parametrize(
    "rest",
    [
        "row_mask:0xf bank_mask:0xf",
        "row_mask:0x5 bank_mask:0x3",
        "row_mask:0xf bank_mask:0xf bound_ctrl:1",
        "row_mask:0x2 bank_mask:0xc bound_ctrl:1",
    ],
)
@pytest.mark.parametrize("everyone", [True, False])
def test_dpp(machine: Make, arch_: str, control: str, rest: str, everyone: bool) -> None:
    m = machine(arch_)
    on = m.exec.copy() if everyone else m.some_lanes()
    before = m.v.copy()
    m.run(f"v_xor_b32_dpp v0, v1, v2 {control} {rest}")
    rows, banks = (int(word.split(":")[1], 0) for word in rest.split()[:2])
    for wave in range(2):
        for lane in range(m.lanes):
            source = pattern(control, lane, m.lanes)
            readable = source is not None and on[wave, source]
            written = on[wave, lane] and rows >> lane // 16 & 1 and banks >> lane % 16 // 4 & 1
            value = before[1, wave, source] if readable else 0
            if written and (readable or "bound_ctrl" in rest):
                assert m.v[0, wave, lane] == value ^ before[2, wave, lane]
            else:
                assert m.v[0, wave, lane] == before[0, wave, lane]


def test_dpp8_and_inactive_sources(machine: Make) -> None:
    m = machine("gfx1100")
    on, before = m.some_lanes(), m.v.copy()
    m.run("v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]")
    source = np.arange(32) ^ 7
    assert (m.v[0] == np.where(on, np.where(on[:, source], before[1][:, source], 0), before[0])).all()
    m.run("v_mov_b32_dpp v2, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf fi:1")
    assert (m.v[2] == np.where(on, before[1][:, np.arange(32) ^ 1], before[2])).all()


def test_dpp_of_comparisons_and_carries(machine: Make, arch: str) -> None:
    m = machine(arch)
    on = m.some_lanes()
    swapped = np.arange(m.lanes) ^ 1
    vcc = "vcc" if m.lanes == 64 else "vcc_lo"
    name = "v_add_co_u32_dpp" if arch == "gfx942" else None
    if name:
        m.run(f"{name} v0, {vcc}, v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1")
        total = np.where(on[:, swapped], m.v[1][:, swapped], 0).astype(np.uint64) + m.v[2]
        assert (m.vcc == on & (total >> 32 == 1)).all()
    else:
        m.run(f"v_cmp_lt_u32_e64_dpp {vcc}, v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1")
        assert (m.vcc == on & (np.where(on[:, swapped], m.v[1][:, swapped], 0) < m.v[2])).all()


# refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch_", "text", "reason"),
    [
        ("gfx942", "v_add_f32_e64 v0, v1, v2 mul:2", "modifier mul"),
        ("gfx942", "v_mov_b32_dpp v0, v1 row_bcast:7 row_mask:0xf bank_mask:0xf", "DPP control"),
        ("gfx942", "v_mul_lo_u32 v0, v1, v2 clamp", "clamp"),
        ("gfx942", "v_pk_mul_f32 v[0:1], v[2:3], 1.0", "constant in the high half"),
        ("gfx1100", "v_frobnicate_b32 v0, v1", "v_frobnicate_b32"),
        ("gfx1100", "s_add_u32 s0, s1, v2", "vector operand v2"),
        ("gfx1100", "v_xor_b32_e32 v0, v1, src_pops_exiting_wave_id", "src_pops_exiting_wave_id"),
        ("gfx1100", "image_load v[0:3], v[4:5], s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D", "image_load"),
    ],
)
def test_refused_by_name(arch_: str, text: str, reason: str) -> None:
    with pytest.raises(UnknownError, match=reason):
        compile_instruction(parse(text), Chip(arch_ == "gfx942", 64 if arch_ == "gfx942" else 32))
