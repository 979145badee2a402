"""What gfx950 has and gfx942 has not, apart from matrix instructions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from machine import Array, Machine
from values import OPERATIONS, assert_same, check, check_float, operands, pairs, run

from octave_gen.isa import cdna4
from octave_gen.isa.decode import M0, parse
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.memory import Memory
from octave_gen.isa.operands import Chip, UnknownError
from octave_gen.isa.program import compile_instruction
from octave_gen.isa.types import F32, U16, U32

Make = Callable[..., Machine]


@pytest.fixture
def m(machine: Make) -> Machine:
    return machine("gfx950", lds=4096)


# vector instructions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [0, 0x96, 0xE8, 0xCA, 0x1E, 0x80, 0xFF, 0x5B])
@pytest.mark.parametrize(("name", "kind"), [("v_bitop3_b32", U32), ("v_bitop3_b16", U16)])
def test_bitop3_looks_every_bit_up(name: str, kind: object, table: int) -> None:
    size = 8 * OPERATIONS[name].operands[0].dtype.itemsize

    def looked_up(a: int, b: int, c: int) -> int:
        return sum((table >> (4 * (a >> n & 1) + 2 * (b >> n & 1) + (c >> n & 1)) & 1) << n for n in range(size))

    values = operands([kind] * 3, count=60, cross=120)  # type: ignore[list-item]
    check(name, looked_up, values, OPERATIONS[name].result.dtype, table=table)  # type: ignore[union-attr]


def test_bitop3_by_its_text(m: Machine) -> None:
    a, b, c = m.v[1].copy(), m.v[2].copy(), m.v[3].copy()
    m.s[7] = 0x1234ABCD
    m.run("v_bitop3_b32 v4, v1, v2, v3 bitop3:0x96", "v_bitop3_b32 v5, v1, s7, v3 bitop3:0xca")
    assert (m.v[4] == a ^ b ^ c).all()
    assert (m.v[5] == (a & np.uint32(0x1234ABCD)) | (~a & c)).all()
    upper = m.v[6] & np.uint32(0xFFFF0000)
    m.run("v_bitop3_b16 v6, v1, v2, v3 bitop3:0xf8")
    assert (m.v[6] == upper | ((a | (b & c)) & np.uint32(0xFFFF))).all()


def test_a_truth_table_is_for_bitop3_alone() -> None:
    with pytest.raises(UnknownError, match="bitop3"):
        compile_instruction(parse("v_and_or_b32 v0, v1, v2, v3 bitop3:0x96"), Chip(True, 64, gfx950=True))


@pytest.mark.parametrize(("name", "low", "high"), [("v_ashr_pk_i8_i32", -128, 127), ("v_ashr_pk_u8_i32", 0, 255)])
def test_shifted_and_packed(name: str, low: int, high: int) -> None:
    def packs(a: int, b: int, count: int) -> int:
        first, second = (min(max(x >> (count & 31), low), high) & 0xFF for x in (a, b))
        return first | second << 8

    check(name, packs, operands(OPERATIONS[name].operands), np.uint16)


def test_prng_steps_a_shift_register() -> None:
    check("v_prng_b32", lambda a: (a << 1) ^ (0xC5 if a >> 31 else 0), operands([U32]), np.uint32)


def to_bf16(bits: int) -> int:
    """Nearest even by exact arithmetic on the bits of a float32, as units of a bfloat16's last place."""
    sign, size = bits & 0x80000000, bits & 0x7FFFFFFF
    if size > 0x7F800000:
        return (bits >> 16) | 0x40
    return (sign >> 16) | round(Fraction(size, 1 << 16))


def test_bf16_rounds_to_nearest_even() -> None:
    values = operands([F32, F32])
    words = [value.view(np.uint32) for value in values]
    got = run("v_cvt_pk_bf16_f32", *values)
    want = [
        to_bf16(a) | to_bf16(b) << 16 for a, b in zip(words[0].ravel().tolist(), words[1].ravel().tolist(), strict=True)
    ]
    assert_same(got, np.array(want, np.uint32).reshape(got.shape), *values)
    half = np.array([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x00008000, 0x00018000], np.uint32).view(np.float32)
    assert cdna4.narrow_bf16(half).tolist() == [0x3F80, 0x3F82, 0x7F80, 0x0000, 0x0002]


def test_bf16_widens_exactly(m: Machine) -> None:
    bits = m.v[1].copy()
    m.run("v_cvt_f32_bf16_e32 v2, v1", "v_cvt_f32_bf16_sdwa v3, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1")
    assert (m.v[2] == bits << np.uint32(16)).all()
    assert (m.v[3] == bits & np.uint32(0xFFFF0000)).all()


def test_two_floats_to_halves(m: Machine) -> None:
    numbers = m.random.normal(size=(2, *m.v[1].shape)).astype(np.float32) * np.float32(300)
    m.v[1], m.v[2] = numbers.view(np.uint32)
    m.run("v_cvt_pk_f16_f32 v3, v1, v2", "v_cvt_pk_bf16_f32 v4, v1, -v2")
    halves = numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
    assert (m.v[3] == (halves[0] | halves[1] << np.uint32(16))).all()
    short = [cdna4.narrow_bf16(x).astype(np.uint32) for x in (numbers[0], -numbers[1])]
    assert (m.v[4] == (short[0] | short[1] << np.uint32(16))).all()


def test_dot2c_of_bf16_is_dot2_into_its_accumulator() -> None:
    values = pairs([*OPERATIONS["v_dot2c_f32_bf16"].operands, F32])
    assert_same(run("v_dot2c_f32_bf16", *values), run("v_dot2_f32_bf16", *values), *values)


@pytest.mark.parametrize(("name", "choose"), [("v_minimum3_f32", min), ("v_maximum3_f32", max)])
def test_the_extreme_of_three_is_nan_where_one_is(name: str, choose: Callable[..., float]) -> None:
    def extreme(*values: float) -> float:
        if any(map(math.isnan, values)):
            return math.nan
        return choose(values, key=lambda x: (x, math.copysign(1.0, x)))

    check_float(name, extreme, F32)


def test_the_packed_extremes_work_on_both_halves(m: Machine) -> None:
    numbers = m.random.normal(size=(3, *m.v[1].shape, 2)).astype(np.float16)
    numbers[1, 0, 5, 1] = np.nan
    for index in range(3):
        m.v[index + 1] = np.ascontiguousarray(numbers[index]).view(np.uint32)[..., 0]
    m.run("v_pk_minimum3_f16 v4, v1, v2, v3", "v_pk_maximum3_f16 v5, v1, v2, v3")
    for index, extreme in ((4, np.min), (5, np.max)):
        got = np.ascontiguousarray(m.v[index]).view(np.float16).reshape(*m.v[index].shape, 2)
        assert np.array_equal(got, extreme(numbers, axis=0), equal_nan=True)


# swaps ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize("form", ["e32", "e64"])
def test_odd_rows_change_places_with_even_ones(m: Machine, rows: int, form: str) -> None:
    first, second = m.v[1].copy(), m.v[2].copy()
    m.run(f"v_permlane{rows}_swap_b32_{form} v1, v2")
    for lane in range(64):
        odd = lane // rows % 2
        assert (m.v[1, :, lane] == (second[:, lane - rows] if odd else first[:, lane])).all()
        assert (m.v[2, :, lane] == (second[:, lane] if odd else first[:, lane + rows])).all()


def test_swaps_want_every_lane(m: Machine) -> None:
    m.some_lanes()
    with pytest.raises(InstructionError, match="v_permlane32_swap_b32 with lanes switched off"):
        m.run("v_permlane32_swap_b32_e32 v1, v2")


# loads from memory into LDS -------------------------------------------------------------------------------------------


def local(m: Machine, workgroup: int = 0) -> Array:
    memory = m.batch.chunk.local
    return memory.data[workgroup * memory.stride :][: memory.size]


def with_memory(machine: Make, arch: str = "gfx950") -> tuple[Machine, Array, int]:
    memory = Memory()
    data = np.random.default_rng(3).integers(0, 256, 1 << 14, np.uint8)
    address = memory.add("data", data)
    m = machine(arch, lds=4096, waves=2, waves_per_workgroup=1, memory=memory)
    lane = np.arange(64)
    m.v[1] = 36 * lane[::-1]  # bytes of each lane's address from the base in s[2:3]
    m.s[2], m.s[3] = address & 0xFFFFFFFF, address >> 32
    return m, data, address


@pytest.mark.parametrize(
    ("name", "size", "stride", "signed"),
    [
        ("dword", 4, 4, False),
        ("dwordx3", 12, 16, False),
        ("dwordx4", 16, 16, False),
        ("ubyte", 1, 4, False),
        ("sbyte", 1, 4, True),
        ("ushort", 2, 4, False),
        ("sshort", 2, 4, True),
    ],
)
@pytest.mark.parametrize("how", ["global", "buffer"])
def test_memory_to_lds(machine: Make, how: str, name: str, size: int, stride: int, signed: bool) -> None:
    m, data, _ = with_memory(machine)
    m.s[M0] = [64, 256]
    before = [local(m, n).copy() for n in range(2)]
    if how == "global":
        m.run(f"global_load_lds_{name} v1, s[2:3] offset:8")
    else:
        m.s[4], m.s[5], m.s[6], m.s[7] = m.s[2].copy(), m.s[3].copy(), 1 << 14, 0
        m.run(f"buffer_load_{name} v1, s[4:7], 0 offen offset:8 lds")
    for workgroup, base in enumerate((64, 256)):
        expected = before[workgroup]
        for lane in range(64):
            source = data[36 * (63 - lane) + 8 :][:size].tobytes()
            value = int.from_bytes(source, "little", signed=signed)
            wide = (value & (1 << 8 * max(size, 4)) - 1).to_bytes(max(size, 4), "little")
            at = base + 8 + stride * lane
            expected[at : at + len(wide)] = np.frombuffer(wide, np.uint8)
        assert (local(m, workgroup) == expected).all()
    assert m.tally.vmem_load == 2 * 64 * size


def test_lanes_that_are_off_leave_their_place(machine: Make) -> None:
    m, data, _ = with_memory(machine)
    m.s[M0] = 3  # the global form counts words
    on, before = m.some_lanes(), [local(m, n).copy() for n in range(2)]
    m.run("global_load_lds_dword v1, s[2:3]")
    for workgroup in range(2):
        expected = before[workgroup]
        for lane in np.flatnonzero(on[workgroup]):
            expected[4 * lane : 4 * lane + 4] = data[36 * (63 - lane) :][:4]
        assert (local(m, workgroup) == expected).all()


def test_a_load_past_the_end_of_lds_is_a_fault(machine: Make) -> None:
    m, _, _ = with_memory(machine)
    m.s[M0] = 4096 - 64 * 16 + 4
    with pytest.raises(InstructionError, match="4 past the end"):
        m.run("global_load_lds_dwordx4 v1, s[2:3]")


def test_a_load_to_lds_past_the_records_is_a_fault(machine: Make) -> None:
    m, _, _ = with_memory(machine)
    m.s[M0] = 0
    m.s[4], m.s[5], m.s[6], m.s[7] = m.s[2].copy(), m.s[3].copy(), 36 * 63 + 3, 0
    with pytest.raises(InstructionError, match="past the records"):
        m.run("buffer_load_dword v1, s[4:7], 0 offen lds")


@pytest.mark.parametrize("text", ["global_load_lds_dwordx4 v1, s[2:3]", "buffer_load_dwordx3 v1, s[4:7], 0 offen lds"])
def test_wide_loads_to_lds_are_gfx950s(text: str) -> None:
    with pytest.raises(UnknownError, match="to LDS"):
        compile_instruction(parse(text), Chip(True, 64))


def test_narrow_loads_to_lds_are_gfx942s_too(machine: Make) -> None:
    m, data, _ = with_memory(machine, "gfx942")
    m.s[M0] = 0
    m.run("global_load_lds_dword v1, s[2:3]")
    assert (local(m)[: 64 * 4].reshape(64, 4) == data[36 * np.arange(63, -1, -1)[:, None] + np.arange(4)]).all()


# transposed loads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "size"), [("b16", 2), ("b8", 1)])
def test_a_transposed_load_gives_each_lane_a_column(m: Machine, name: str, size: int) -> None:
    """A matrix of 8 / size rows and 16 columns for every 16 lanes, each row somewhere else in LDS."""
    rows, per_row = 8 // size, 2 * size
    starts = m.random.permutation(64)[: 4 * rows].reshape(4, rows) * 32
    lane = np.arange(64)
    m.v[1] = starts[lane // 16, lane % 16 // per_row] + 8 * (lane % per_row)
    memory = local(m).view(f"<u{size}")
    m.run(f"ds_read_b64_tr_{name} v[2:3], v1 offset:16")
    got = np.ascontiguousarray(m.v[2:4].transpose(1, 2, 0)).view(f"<u{size}")
    for wave, n in np.ndindex(2, 64):
        column = [memory[(starts[n // 16, row] + 16) // size + n % 16] for row in range(rows)]
        assert got[wave, n].tolist() == [int(x) for x in column]


def test_transposed_loads_want_every_lane_and_aligned_addresses(m: Machine) -> None:
    m.v[1] = 8 * np.arange(64) + 4
    with pytest.raises(InstructionError, match="8 bytes of LDS"):
        m.run("ds_read_b64_tr_b8 v[2:3], v1")
    m.some_lanes()
    with pytest.raises(InstructionError, match="with lanes switched off"):
        m.run("ds_read_b64_tr_b16 v[2:3], v1")


@pytest.mark.parametrize("text", ["ds_read_b64_tr_b4 v[2:3], v1", "ds_read_b96_tr_b6 v[2:4], v1"])
def test_other_transposes_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnknownError, match=text.split()[0]):
        compile_instruction(parse(text), Chip(True, 64, gfx950=True))


def test_wide_matrix_instructions_are_gfx950s() -> None:
    text = "v_mfma_i32_16x16x64_i8 v[0:3], v[4:7], v[8:11], v[0:3]"
    with pytest.raises(UnknownError, match="v_mfma_i32_16x16x64_i8"):
        compile_instruction(parse(text), Chip(True, 64))
    assert compile_instruction(parse(text), Chip(True, 64, gfx950=True)) is not None
