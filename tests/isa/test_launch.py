"""Launches: grids, waves that are not full, arguments, initial registers, limits, and what is refused."""

from __future__ import annotations

import dataclasses
import re
import time

import numpy as np
import pytest
from conftest import Compile, Launcher

from octave_gen import isa
from octave_gen.errors import OctaveError

KERNELS = """
KERNEL(256) where(u32* out, u32 width) {
  const u32 y = __builtin_amdgcn_workgroup_id_y(), z = __builtin_amdgcn_workgroup_id_z();
  out[((z * 3 + y) * 5 + block()) * width + thread()] = z << 24 | y << 16 | block() << 8 | thread();
}
KERNEL(256) sizes(u32* out) {
  const u32* hidden = (const u32*)__builtin_amdgcn_implicitarg_ptr();
  const u16* half = (const u16*)hidden;
  if (thread() == 0) {
    for (int i = 0; i < 3; ++i) { out[i] = hidden[i]; out[3 + i] = half[6 + i]; out[6 + i] = half[9 + i]; }
    out[9] = half[32];
  }
}
KERNEL(64) arguments(u32* out, u8 a, u16 b, u64 c, float d, u32 e) {
  const u32 values[] = {a, b, (u32)c, (u32)(c >> 32), __builtin_bit_cast(u32, d), e};
  if (thread() < 6) out[thread()] = values[thread()];
}
KERNEL(64) endless(u32* out) {
  while (__atomic_load_n(out, __ATOMIC_RELAXED) == 0) {}
}
KERNEL(256) endless_and_split(u32* out) {
  u32 x = 0;
  while (__atomic_load_n(out, __ATOMIC_RELAXED) == 0) {
    if (__builtin_amdgcn_readfirstlane(thread()) & 64) __atomic_store_n(out + 1, x, __ATOMIC_RELAXED);
    ++x;
  }
}
KERNEL(64) past_the_arguments(u32* out, u32 at) {
  out[0] = ((const __attribute__((address_space(4))) u32*)__builtin_amdgcn_kernarg_segment_ptr())[at];
}
KERNEL(256) reversed(const u32* in, u32* out) {
  SHARED u32 tile[256];
  tile[thread()] = in[block() * 256 + thread()];
  barrier();
  out[block() * 256 + thread()] = tile[255 - thread()];
}
KERNEL(256) never_written(u32* out) {
  SHARED u32 tile[256];
  if (out[0] == 77) tile[thread()] = 1;
  barrier();
  out[thread()] = tile[thread()];
}
__attribute__((device)) u32 counter = 40;
KERNEL(64) variable(u32* out) {
  if (thread() == 0) { counter += 2; out[0] = counter; }
}
"""


@pytest.fixture(
    params=[("gfx942", ()), ("gfx1100", ()), ("gfx1100", ("-mwavefrontsize64",))], ids=["gfx942", "gfx1100", "wave64"]
)
def kernels(request: pytest.FixtureRequest, compile_kernels: Compile) -> Launcher:
    arch, flags = request.param
    launcher = Launcher(compile_kernels(arch, KERNELS, *flags))
    assert launcher.code_object.wave_size == (32 if (arch, flags) == ("gfx1100", ()) else 64)
    return launcher


@pytest.mark.parametrize("threads", [1, 31, 32, 33, 64, 100, 256])
def test_grids_and_waves_that_are_not_full(kernels: Launcher, threads: int) -> None:
    out = np.full(4 * 3 * 5 * threads + 50, 0xEEEEEEEE, np.uint32)
    kernels("where", out, threads, grid=(5, 3, 4), threads=threads)
    z, y, x, t = np.meshgrid(*(np.arange(n) for n in (4, 3, 5, threads)), indexing="ij")
    assert (out[:-50] == (z << 24 | y << 16 | x << 8 | t).ravel()).all()
    assert (out[-50:] == 0xEEEEEEEE).all()


@pytest.mark.parametrize("lanes", [32, 100, 1 << 9, 1 << 20])
def test_chunks_change_nothing(kernels: Launcher, lanes: int) -> None:
    data = np.arange(2048, dtype=np.uint32)
    out = np.zeros(2048, np.uint32)
    counters = kernels("reversed", data, out, grid=8, threads=256, lanes_per_chunk=lanes)
    assert (out == data.reshape(8, 256)[:, ::-1].ravel()).all()
    assert counters.instructions == kernels("reversed", data, out, grid=8, threads=256).instructions


def test_an_empty_grid_does_nothing(kernels: Launcher) -> None:
    assert kernels("where", np.zeros(1, np.uint32), 1, grid=(0, 3, 4), threads=64).total == 0


def test_hidden_arguments(kernels: Launcher) -> None:
    out = np.zeros(10, np.uint32)
    kernels("sizes", out, grid=(7, 3, 2), threads=96)
    assert out.tolist() == [7, 3, 2, 96, 1, 1, 0, 0, 0, 3]


def test_arguments_of_all_sizes(kernels: Launcher) -> None:
    out = np.zeros(6, np.uint32)
    kernels("arguments", out, 200, 60000, 0x1122334455667788, 1.5, 0xFFFFFFFF)
    assert out.tolist() == [200, 60000, 0x55667788, 0x11223344, 0x3FC00000, 0xFFFFFFFF]


def test_registers_and_lds_begin_as_junk(kernels: Launcher) -> None:
    """What was never written shows, in another way for each seed, and again in the same way for the same seed."""
    runs = []
    for seed in (1, 1, 2):
        out = np.zeros(256, np.uint32)
        kernels("never_written", out, threads=256, seed=seed)
        runs.append(out)
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).mean() > 0.9
    assert len(np.unique(runs[0])) > 200


def test_variables_of_the_code_object(kernels: Launcher) -> None:
    """They hold their initial value at every launch."""
    out = np.zeros(1, np.uint32)
    for _ in range(2):
        kernels("variable", out)
        assert out[0] == 42


@pytest.mark.parametrize("name", ["endless", "endless_and_split"])
def test_step_limit(kernels: Launcher, name: str) -> None:
    """Also for waves that part and meet again in every round."""
    threads = 64 if name == "endless" else 256
    with pytest.raises(OctaveError, match="did not end: a wave executed more than 5000 instructions") as raised:
        kernels(name, np.zeros(2, np.uint32), step_limit=5000, threads=threads)
    assert isinstance(raised.value.where, isa.Place)
    assert raised.value.where.kind == "step_limit"
    assert raised.value.where.kernel == name
    kernels(name, np.ones(2, np.uint32), step_limit=5000, threads=threads)


def test_64_bytes_behind_the_arguments_can_be_read(kernels: Launcher) -> None:
    """clang loads in units that pass their end; what is there is junk."""
    size = kernels.code_object.kernel("past_the_arguments").kernarg_bytes
    out = np.zeros(1, np.uint32)
    kernels("past_the_arguments", out, size // 4 + 15)
    assert out[0] != 0
    with pytest.raises(OctaveError, match=r"nearest is the kernel arguments .* 4 bytes past the end"):
        kernels("past_the_arguments", out, size // 4 + 16)


# refused --------------------------------------------------------------------------------------------------------------


def launch(code_object: isa.CodeObject, symbol: str, kernargs: bytes, threads: int = 64) -> isa.Counters:
    return isa.execute(code_object, symbol, grid=(1, 1, 1), threads=threads, kernargs=kernargs, memory=isa.Memory())


@pytest.mark.parametrize("size", [0, 8, 35, 400])
def test_wrong_size_of_the_arguments(kernels: Launcher, size: int) -> None:
    with pytest.raises(OctaveError, match=rf"{size} bytes of arguments, the kernel takes 32") as raised:
        launch(kernels.code_object, "arguments", bytes(size))
    assert raised.value.hint is not None
    assert "at 24" in raised.value.hint


def test_no_such_kernel(kernels: Launcher) -> None:
    with pytest.raises(OctaveError, match=r"no kernel 'endles' \(did you mean endless\?\)"):
        launch(kernels.code_object, "endles", bytes(8))


@pytest.mark.parametrize("threads", [0, -1, 65, 4096])
def test_workgroups_it_was_not_compiled_for(kernels: Launcher, threads: int) -> None:
    with pytest.raises(OctaveError, match=f"a workgroup of {threads} threads") as raised:
        launch(kernels.code_object, "endless", bytes(8), threads)
    assert raised.value.hint == "it was compiled for 1 to 64"


def test_required_workgroup_size(kernels: Launcher) -> None:
    kernel = dataclasses.replace(kernels.code_object.kernel("where"), required_threads=128)
    code_object = dataclasses.replace(kernels.code_object, kernels={"where": kernel})
    with pytest.raises(OctaveError, match="a workgroup of 64 threads") as raised:
        launch(code_object, "where", bytes(12), 64)
    assert raised.value.hint == "it takes 128"


def test_other_float_modes(arch: str, compile_kernels: Compile) -> None:
    code_object = isa.load(
        compile_kernels(arch, "KERNEL(64) k(float* p) { *p *= 2; }", "-fgpu-flush-denormals-to-zero")
    )
    with pytest.raises(OctaveError, match="float mode 0xc0"):
        launch(code_object, "k", bytes(8))


def test_instructions_without_semantics_are_listed_before_anything_runs(arch: str, compile_kernels: Compile) -> None:
    text = """
    KERNEL(64) good(u32* p) { *p = 1; }
    KERNEL(64) bad(u32* p) {
      *p = 5;
      u32 x, y;
      asm volatile("s_getreg_b32 %0, hwreg(HW_REG_STATUS)" : "=s"(x));
      asm volatile("s_getreg_b32 %0, hwreg(HW_REG_LDS_ALLOC)" : "=s"(y));
      p[1] = x + y;
    }
    """
    code_object = isa.load(compile_kernels(arch, text))
    missing = isa.uncovered(code_object)
    texts = [re.sub(r"s\d+", "s0", line.partition(": ")[2]) for line in missing]
    assert texts == ["s_getreg_b32 s0, hwreg(HW_REG_STATUS)", "s_getreg_b32 s0, hwreg(HW_REG_LDS_ALLOC)"]
    assert all(line.startswith("bad+0x") for line in missing)
    data = np.zeros(16, np.uint8)
    memory = isa.Memory()
    kernargs = memory.add("p", data).to_bytes(8, "little")
    for symbol in ("bad", "good"):  # one unknown instruction refuses the whole code object
        with pytest.raises(
            OctaveError, match=r"2 instructions have no semantics in the interpreter:\n  bad\+0x.*s_getreg"
        ):
            isa.execute(code_object, symbol, grid=(1, 1, 1), threads=1, kernargs=kernargs, memory=memory)
    assert not data.any()


# speed ----------------------------------------------------------------------------------------------------------------


def test_many_waves_run_side_by_side(arch: str, compile_kernels: Compile) -> None:
    """A thousand waves cost far less than a thousand times one wave."""
    kernels = Launcher(compile_kernels(arch, KERNELS))
    data = np.arange(256 * 256, dtype=np.uint32)
    out = np.zeros_like(data)
    kernels("reversed", data, out, grid=1, threads=256)

    def seconds(grid: int) -> float:
        start = time.process_time()
        kernels("reversed", data, out, grid=grid, threads=256)
        return time.process_time() - start

    one = min(seconds(1) for _ in range(5))
    assert min(seconds(256) for _ in range(3)) < 64 * one
