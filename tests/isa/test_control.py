"""EXEC changes, branches, modes and instructions that do nothing; whole kernels for calls, loops and divergence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import Compile, Launcher
from machine import Array, Machine

from octave_gen.isa.control import branch_target, end_of
from octave_gen.isa.decode import parse
from octave_gen.isa.operands import Chip, UnknownError
from octave_gen.isa.program import compile_instruction

Make = Callable[..., Machine]

LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
}
SPELLED = {
    "gfx942": {"andn1": "~s & e", "andn2": "s & ~e", "orn1": "~s | e", "orn2": "s | ~e"},
    "gfx1100": {"and_not0": "~s & e", "and_not1": "s & ~e", "or_not0": "~s | e", "or_not1": "s | ~e"},
}


@pytest.mark.parametrize("name", [*LOGIC, *range(4)])
@pytest.mark.parametrize("off", [False, True])
def test_save_exec(machine: Make, arch: str, name: str | int, off: bool) -> None:
    if isinstance(name, int):
        name, rule = list(SPELLED[arch].items())[name]

        def function(s: Array, e: Array) -> Array:
            return {"~s & e": ~s & e, "s & ~e": s & ~e, "~s | e": ~s | e, "s | ~e": s | ~e}[rule]

    else:
        function = LOGIC[name]
    m = machine(arch)
    old = m.some_lanes()
    if off:
        m.exec = old = np.zeros_like(old)
    source = m.batch.mask(2)
    registers, bits = ("s[4:5], s[2:3]", 64) if m.lanes == 64 else ("s4, s2", 32)
    m.run(f"s_{name}_saveexec_b{bits} {registers}")
    assert (m.batch.mask(4) == old).all()
    assert (m.exec == function(source, old)).all()
    assert (m.batch.scc == m.exec.any(axis=1)).all()
    assert m.batch.full == m.exec.all()


def test_write_exec(machine: Make) -> None:
    m = machine("gfx942")
    old, source = m.some_lanes(), m.batch.mask(2)
    m.run("s_andn1_wrexec_b64 s[4:5], s[2:3]")
    assert (m.exec == ~source & old).all()
    assert (m.batch.mask(4) == m.exec).all()


def test_moves_into_exec_take_effect(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.run("s_mov_b64 exec, 5" if m.lanes == 64 else "s_mov_b32 exec_lo, 5", "v_mov_b32_e32 v0, 17")
    assert (m.v[0] == 17).sum() == 4
    assert (m.exec.sum(axis=1) == 2).all()
    m.run("s_mov_b64 exec, -1" if m.lanes == 64 else "s_mov_b32 exec_lo, -1")
    assert m.batch.full


def test_comparisons_write_zero_for_lanes_that_are_off(machine: Make, arch: str) -> None:
    m = machine(arch)
    on = m.some_lanes()
    m.run("v_cmp_lt_u32_e64 s[4:5], v1, v2" if m.lanes == 64 else "v_cmp_lt_u32_e64 s4, v1, v2")
    assert (m.batch.mask(4) == on & (m.v[1] < m.v[2])).all()


def test_comparisons_into_exec(machine: Make, arch: str) -> None:
    m = machine(arch)
    on = m.some_lanes()
    m.vcc = np.zeros_like(on)
    m.run("v_cmpx_lt_u32_e32 vcc, v1, v2" if m.lanes == 64 else "v_cmpx_lt_u32_e32 v1, v2")
    assert (m.exec == on & (m.v[1] < m.v[2])).all()
    assert (m.vcc == (m.exec if arch == "gfx942" else False)).all()


def test_scalar_results_and_scc(machine: Make, arch: str) -> None:
    m = machine(arch)
    m.s[1], m.s[2], m.s[3] = [0xF0, 0xFFFFFFFF], [0x0F, 1], [5, 6]
    m.run("s_and_b32 s0, s1, s2")
    assert m.s[0].tolist() == [0, 1]
    assert m.batch.scc.tolist() == [False, True]
    m.run("s_cselect_b32 s0, s3, 7")
    assert m.s[0].tolist() == [7, 6]
    m.run("s_add_u32 s0, s1, s2")
    assert m.s[0].tolist() == [0xFF, 0]
    assert m.batch.scc.tolist() == [False, True]
    m.run("s_addc_u32 s0, s3, 0")
    assert m.s[0].tolist() == [5, 7]
    assert m.batch.scc.tolist() == [False, False]
    m.run("s_cmp_gt_u32 s2, s3", "s_cselect_b64 s[4:5], -1, 0")
    assert m.s[4:6].tolist() == [[0xFFFFFFFF, 0], [0xFFFFFFFF, 0]]
    m.run("s_movk_i32 s0, 0x8000", "s_addk_i32 s0, 0xffff", "s_cmpk_lt_i32 s0, 0x8000")
    assert m.s[0].tolist() == [0xFFFF7FFF] * 2
    assert m.batch.scc.all()
    m.run("s_lshl_b64 s[4:5], s[2:3], 8")
    assert m.s[4].tolist() == [0xF00, 0x100]
    assert m.s[5].tolist() == [0x500, 0x600]


def test_null_drops_what_is_written(machine: Make) -> None:
    m = machine("gfx1100")
    before = m.s.copy()
    m.run("v_add_co_u32 v0, null, v1, v2", "s_and_b32 null, s1, s2")
    assert (m.s == before).all()
    assert (m.v[0] == m.v[1] + m.v[2]).all()
    m.run("s_or_b32 s0, null, s5")
    assert (m.s[0] == before[5]).all()


def test_carries(machine: Make, arch: str) -> None:
    m = machine(arch)
    on = m.some_lanes()
    m.v[3] = 0
    low, high = ("vcc", "v_addc_co_u32_e32") if m.lanes == 64 else ("vcc_lo", "v_add_co_ci_u32_e32")
    first = "v_add_co_u32_e32" if m.lanes == 64 else "v_add_co_u32"
    a, b = (m.v[n].astype(np.uint64) for n in (1, 2))
    m.run(f"{first} v0, {low}, v1, v2")
    assert (m.vcc == on & (a + b >> np.uint64(32) == 1)).all()
    carried = m.vcc.copy()
    m.run(f"{high} v3, {low}, v4, v5, {low}")
    total = m.v[4].astype(np.uint64) + m.v[5] + carried
    assert (m.v[3] == np.where(on, total.astype(np.uint32), 0)).all()
    assert (m.vcc == on & (total >> np.uint64(32) == 1)).all()


# branches, modes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("distance", "target"), [("3", 1000 + 4 + 12), ("65535", 1000), ("65505", 1000 + 4 - 31 * 4)])
def test_branch_targets(distance: str, target: int) -> None:
    assert branch_target(parse(f"s_cbranch_scc1 {distance}", 1000)) == target


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("scc0", lambda m: ~m.batch.scc),
        ("scc1", lambda m: m.batch.scc),
        ("vccz", lambda m: ~m.vcc.any(axis=1)),
        ("vccnz", lambda m: m.vcc.any(axis=1)),
        ("execz", lambda m: ~m.exec.any(axis=1)),
        ("execnz", lambda m: m.exec.any(axis=1)),
    ],
)
def test_conditions(machine: Make, arch: str, name: str, taken: Callable[[Machine], Array]) -> None:
    m = machine(arch)
    end = end_of(parse(f"s_cbranch_{name} 5", 0))
    assert end is not None
    assert end.condition is not None
    for first, second in ((True, False), (False, False), (True, True)):
        mask = np.zeros((2, m.lanes), np.bool_)
        mask[:, -1] = first, second
        m.exec = m.vcc = mask
        m.batch.scc[...] = first, second
        assert end.condition(m.batch).tolist() == taken(m).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "s_nop 0",
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_2)",
        "s_denorm_mode 15",
        "s_round_mode 0x0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0",
        "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)",
    ],
)
def test_what_changes_nothing(text: str) -> None:
    assert compile_instruction(parse(text), Chip(False, 32)) is None


@pytest.mark.parametrize(
    "text",
    [
        "s_denorm_mode 12",
        "s_round_mode 0x1",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3",
        "s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s3",
        "s_getreg_b32 s0, hwreg(HW_REG_HW_ID)",
    ],
)
def test_other_float_modes_are_refused(text: str) -> None:
    with pytest.raises(UnknownError):
        compile_instruction(parse(text), Chip(False, 32))


# kernels --------------------------------------------------------------------------------------------------------------

KERNELS = """
FUNCTION u32 collatz(u32 n) {
  u32 steps = 0;
  while (n > 1) {
    n = n & 1 ? 3 * n + 1 : n / 2;
    ++steps;
  }
  return steps;
}
KERNEL(256) loops(const u32* in, u32* out) {
  const u32 at = block() * 256 + thread();
  out[at] = collatz(in[at]);
}
FUNCTION u32 twice(u32 x) { return 2 * x; }
FUNCTION u32 square(u32 x) { return x * x; }
KERNEL(64) by_pointer(const u32* in, u32* out) {
  u32 (*chosen)(u32) = in[64] ? twice : square;
  out[thread()] = chosen(in[thread()]);
}
KERNEL(256) nested(u32* out) {
  u32 x = thread();
  if (x & 1) {
    if (x & 2) x = x * 3 + 1;
    else if (x & 4) x ^= 0xFF;
    else x += 1000;
  } else {
    for (u32 i = 0; i < thread() / 64; ++i) x = x * 5 + i;
  }
  out[thread()] = x;
}
KERNEL(64) dynamic(const u32* in, u32* out) {
  u32 table[8];
  for (u32 i = 0; i < 8; ++i) table[i] = in[i] + thread();
  out[thread()] = table[in[8 + thread()] & 7];
}
"""


@pytest.fixture(params=["-O0", "-O1", "-O3"])
def kernels(request: pytest.FixtureRequest, arch: str, compile_kernels: Compile) -> Launcher:
    return Launcher(compile_kernels(arch, KERNELS, request.param))


def test_calls_and_loops_of_unequal_length(kernels: Launcher) -> None:
    numbers = np.random.default_rng(0).integers(1, 60, 512, np.uint32)
    out = np.zeros(512, np.uint32)
    kernels("loops", numbers, out, grid=2, threads=256)

    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n = 3 * n + 1 if n & 1 else n // 2
            count += 1
        return count

    assert out.tolist() == [steps(int(n)) for n in numbers]


@pytest.mark.parametrize("choice", [0, 1])
def test_calls_by_pointer(kernels: Launcher, choice: int) -> None:
    numbers = np.arange(65, dtype=np.uint32)
    numbers[64] = choice
    out = np.zeros(64, np.uint32)
    kernels("by_pointer", numbers, out)
    assert (out == (numbers[:64] * 2 if choice else numbers[:64] ** 2)).all()


def test_nested_divergence(kernels: Launcher) -> None:
    out = np.zeros(256, np.uint32)
    kernels("nested", out, threads=256)

    def value(x: int) -> int:
        if x & 1:
            return x * 3 + 1 if x & 2 else x ^ 0xFF if x & 4 else x + 1000
        y = x
        for i in range(x // 64):
            y = y * 5 + i
        return y

    assert out.tolist() == [value(x) for x in range(256)]


def test_arrays_indexed_at_run_time(kernels: Launcher) -> None:
    numbers = np.random.default_rng(0).integers(0, 1 << 20, 72, np.uint32)
    out = np.zeros(64, np.uint32)
    kernels("dynamic", numbers, out)
    assert (out == numbers[numbers[8:] & 7] + np.arange(64)).all()
