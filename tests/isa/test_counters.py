"""What a launch counts, on kernels small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Compile, Launcher

from octave_gen.isa import CLASSES, Counters
from octave_gen.isa.counters import class_of, name_of
from octave_gen.isa.decode import parse
from octave_gen.isa.program import program_of

KERNELS = """
KERNEL(256) work(const float* in, float* out, u32 rounds) {
  SHARED float tile[256];
  float x = in[thread()];
  for (u32 i = 0; i < rounds; ++i) {
    tile[thread()] = x;
    barrier();
    x = __builtin_amdgcn_exp2f(tile[255 - thread()]) * 0.5f;
    barrier();
  }
  out[thread()] = x;
}
"""


@pytest.fixture
def work(arch: str, compile_kernels: Compile) -> Launcher:
    return Launcher(compile_kernels(arch, KERNELS))


def run(work: Launcher, rounds: int, threads: int = 256, grid: int = 1) -> Counters:
    return work("work", np.zeros(256, np.float32), np.zeros(256, np.float32), rounds, threads=threads, grid=grid)


def test_counts_of_one_round(work: Launcher) -> None:
    waves = 256 // work.code_object.wave_size
    one = run(work, 5) - run(work, 4)
    assert one.instructions["barrier"] == 2 * waves
    assert one.instructions["transcendental"] == waves
    assert one.instructions["lds"] == 2 * waves
    assert one.instructions["vmem"] == one.instructions["smem"] == one.instructions["matrix"] == 0
    assert one.instructions["branch"] == waves
    assert (one.lds_load_bytes, one.lds_store_bytes, one.lds_bytes) == (1024, 1024, 2048)
    assert one.vmem_bytes == one.smem_bytes == 0
    assert one.lds_cycles == 16
    assert one.lds_conflict_cycles == 0
    assert one.histogram["v_exp_f32"] == one.instructions["transcendental"]
    assert one.histogram["s_barrier"] == 2 * waves


def test_bytes(work: Launcher) -> None:
    counters = run(work, 0, threads=100)
    assert (counters.vmem_load_bytes, counters.vmem_store_bytes) == (400, 400)
    waves = -(-100 // work.code_object.wave_size)
    assert counters.smem_bytes % (4 * waves) == 0
    assert counters.smem_bytes >= 20 * waves


def test_sums_agree(work: Launcher) -> None:
    counters = run(work, 3)
    assert sum(counters.histogram.values()) == sum(counters.instructions.values()) == counters.total
    assert set(counters.instructions) == set(CLASSES)


def test_adding_and_subtracting(work: Launcher) -> None:
    small, large = run(work, 1), run(work, 2)
    assert (large - small) + small == large
    assert small + Counters() == small
    assert (small - small).histogram == {}
    assert (small - small).total == 0
    assert run(work, 1, grid=3) == small + small + small


def test_divergent_waves_are_counted_each(work: Launcher) -> None:
    """A wave that is not full counts as one."""
    assert run(work, 1, threads=1).instructions["transcendental"] == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("v_add_f32_e32 v0, v1, v2", "valu"),
        ("v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v2, v3", "valu"),
        ("v_exp_f32_e32 v0, v1", "transcendental"),
        ("v_rcp_iflag_f32_e32 v0, v1", "transcendental"),
        ("v_rsq_f16_e32 v0, v1", "transcendental"),
        ("v_readfirstlane_b32 s0, v1", "valu"),
        ("v_cmp_lt_u32_e64 s[0:1], v0, v1", "valu"),
        ("v_mfma_i32_16x16x32_i8 a[0:3], v[0:1], v[2:3], 0", "matrix"),
        ("v_wmma_i32_16x16x16_iu8 v[0:7], v[8:11], v[12:15], v[0:7]", "matrix"),
        ("v_accvgpr_read_b32 v0, a1", "valu"),
        ("s_add_u32 s0, s1, s2", "salu"),
        ("s_and_saveexec_b64 s[0:1], vcc", "salu"),
        ("s_getpc_b64 s[0:1]", "salu"),
        ("s_load_dwordx2 s[0:1], s[2:3], 0x0", "smem"),
        ("s_buffer_load_b32 s0, s[4:7], 0x0", "smem"),
        ("global_load_dword v0, v[2:3], off", "vmem"),
        ("scratch_store_b32 off, v0, s32", "vmem"),
        ("flat_load_b32 v0, v[2:3]", "vmem"),
        ("buffer_load_b32 v0, off, s[4:7], 0", "vmem"),
        ("global_atomic_add_u32 v[2:3], v0, off", "vmem"),
        ("ds_read_b32 v0, v1", "lds"),
        ("ds_bpermute_b32 v0, v1, v2", "lds"),
        ("ds_add_u32 v0, v1", "lds"),
        ("s_branch 5", "branch"),
        ("s_cbranch_execz 5", "branch"),
        ("s_swappc_b64 s[0:1], s[2:3]", "branch"),
        ("s_barrier", "barrier"),
        ("s_waitcnt vmcnt(0)", "other"),
        ("s_nop 0", "other"),
        ("s_delay_alu instid0(VALU_DEP_1)", "other"),
        ("s_endpgm", "other"),
        ("buffer_gl0_inv", "other"),
        ("buffer_wbl2 sc1", "other"),
    ],
)
def test_classes(text: str, kind: str, work: Launcher) -> None:
    assert program_of(work.code_object).class_of(parse(text)) == kind
    assert class_of(parse("v_exp_f32_e32 v0, v1"), transcendental=True) == "transcendental"


def test_names_in_the_histogram() -> None:
    assert name_of(parse("v_add_f32_e64 v0, v1, v2")) == "v_add_f32"
    assert name_of(parse("v_mov_b32_dpp v0, v1 row_shl:1 row_mask:0xf bank_mask:0xf")) == "v_mov_b32"
    dual = parse("v_dual_mov_b32 v0, v1 :: v_dual_fmac_f32 v3, v1, v2")
    assert name_of(dual) == "v_dual_mov_b32::v_dual_fmac_f32"


def test_bank_conflicts_of_a_launch(arch: str, compile_kernels: Compile) -> None:
    text = """
    KERNEL(64) strided(u32* out, u32 stride) {
      SHARED u32 tile[2048];
      for (u32 i = 0; i < 32; ++i) tile[i * 64 + thread()] = i;
      barrier();
      out[thread()] = tile[thread() * stride];
    }
    """
    launch = Launcher(compile_kernels(arch, text))
    counted = {stride: launch("strided", np.zeros(64, np.uint32), stride) for stride in (0, 1, 2, 8, 32)}
    conflicts = {stride: counters.lds_conflict_cycles for stride, counters in counted.items()}
    assert conflicts == {0: 0, 1: 0, 2: 2, 8: 14, 32: 62}
    assert {counters.lds_cycles - counters.lds_conflict_cycles for counters in counted.values()} == {66}
