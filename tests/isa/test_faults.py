"""Every kind of fault, with kernel, code offset, instruction text and address."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from conftest import Compile, Launcher

from octave_gen.errors import OctaveError
from octave_gen.isa import Place
from octave_gen.isa.faults import KINDS, fault

KERNELS = """
KERNEL(64) load(const u32* in, u32* out, u64 at) { out[thread()] = in[thread() + at]; }
KERNEL(64) store(const u32* in, u32* out, u64 at) { out[thread() + at] = in[thread()]; }
FUNCTION u32 inner(const u32* p, u64 at) { return p[at]; }
KERNEL(64) through_a_function(const u32* in, u32* out, u64 at) { out[thread()] = inner(in, thread() + at); }
KERNEL(256) shared(const u32* in, u32* out, u32 at) {
  SHARED u32 tile[256];
  tile[thread() + at] = in[thread()];
  barrier();
  out[thread()] = tile[255 - thread()];
}
KERNEL(256) no_barrier(const u32* in, u32* out) {
  SHARED u32 tile[256];
  tile[thread()] = in[thread()];
  __builtin_amdgcn_wave_barrier();
  out[thread()] = tile[255 - thread()];
}
KERNEL(256) second_barrier_missing(const u32* in, u32* out) {
  SHARED u32 tile[256];
  u32 sum = 0;
  for (int i = 0; i < 4; ++i) {
    tile[thread()] = in[(thread() + i * 64) % 256];
    barrier();
    sum += tile[255 - thread()];
  }
  out[thread()] = sum;
}
KERNEL(256) barriers_apart(const u32* in, u32* out) {
  SHARED u32 tile[256];
  tile[thread()] = in[thread()];
  if (__builtin_amdgcn_readfirstlane(thread()) < 64) { barrier(); out[1] = tile[3]; }
  else { barrier(); out[2] = tile[5] * 3; }
}
KERNEL(256) early_exit(const u32* in, u32* out) {
  SHARED u32 tile[256];
  if (__builtin_amdgcn_readfirstlane(thread()) >= 128) return;
  tile[thread()] = in[thread()];
  barrier();
  out[thread()] = tile[127 - thread()];
}
KERNEL(64) trap(const u32* in, u32* out) {
  if (in[thread()] == 9) __builtin_trap();
  out[thread()] = 1;
}
KERNEL(64) deep(u32* out, int at) {
  u32 frame[16];
  for (int i = 0; i < 16; ++i) frame[i] = out[i];
  ((volatile u32*)frame)[at] = 1;
  out[thread()] = frame[out[0] & 15];
}
KERNEL(64) wild(void (*target)()) { target(); }
"""


@pytest.fixture
def kernels(arch: str, compile_kernels: Compile) -> Launcher:
    return Launcher(compile_kernels(arch, KERNELS))


def place_of(error: OctaveError) -> Place:
    assert isinstance(error.where, Place)
    return error.where


def words(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)


@pytest.mark.parametrize(
    ("name", "at", "side"),
    [
        ("load", 1, "past the end"),
        ("load", 1 << 40, "past the end"),
        ("load", -5, "before the start"),
        ("store", 60, "past the end"),
        ("store", -(1 << 30), "before the start"),
    ],
)
def test_outside_every_buffer(kernels: Launcher, name: str, at: int, side: str) -> None:
    data, out = words(64), np.zeros(64, np.uint32)
    with pytest.raises(OctaveError, match=rf"access outside every buffer at 0x.*{name} of 4 bytes.*{side}") as raised:
        kernels(name, data, out, at)
    place = place_of(raised.value)
    assert (place.kind, place.kernel, place.function) == ("memory", name, name)
    assert place.instruction.startswith(f"global_{name}_")
    entry = kernels.code_object.kernels[name].entry
    assert kernels.code_object.instructions[entry + place.offset].text == place.instruction
    assert str(raised.value).startswith(f"{name}+{place.offset:#x}: {place.instruction}: ")
    assert place.address is not None
    nearest = "argument 0" if name == "load" else "argument 1"
    if abs(at) < 1 << 20:
        assert f"nearest is {nearest} (256 bytes at " in raised.value.what
    assert "workgroups 0, waves 0" in raised.value.what
    if name == "store":
        assert not out.any()


def test_how_far_outside(kernels: Launcher) -> None:
    with pytest.raises(
        OctaveError, match=r"31 lanes; nearest is argument 0 \(256 bytes at 0x[0-9a-f]*\): 4 bytes past the end"
    ):
        kernels("load", words(64), np.zeros(64, np.uint32), 33, threads=62)
    kernels("load", words(64), np.zeros(64, np.uint32), 0)


def test_write_to_a_read_only_buffer(kernels: Launcher) -> None:
    out = np.zeros(64, np.uint32)
    with pytest.raises(OctaveError, match=r"write to a read-only buffer.*store of 4 bytes to argument 1") as raised:
        kernels("store", words(64), out, 0, read_only=(1,))
    assert place_of(raised.value).kind == "read_only"
    assert not out.any()


def test_in_a_function(kernels: Launcher) -> None:
    with pytest.raises(OctaveError, match=r"^through_a_function: _Z5inner\w+\+0x\w+: (global|flat)_load") as raised:
        kernels("through_a_function", words(64), np.zeros(64, np.uint32), 1)
    place = place_of(raised.value)
    assert place.kernel == "through_a_function"
    assert place.function.startswith("_Z5inner")


@pytest.mark.parametrize(("at", "past"), [(1, 4), (100, 400)])
def test_lds_bounds(kernels: Launcher, at: int, past: int) -> None:
    with pytest.raises(
        OctaveError, match=f"4 bytes at {1020 + 4 * at} of 1024 bytes of LDS, {past} past the end"
    ) as raised:
        kernels("shared", words(256), np.zeros(256, np.uint32), at, threads=256)
    assert place_of(raised.value).kind == "lds_bounds"
    assert place_of(raised.value).address == 1020 + 4 * at
    assert place_of(raised.value).instruction.startswith("ds_")


@pytest.mark.parametrize("name", ["no_barrier", "second_barrier_missing"])
def test_lds_races(kernels: Launcher, name: str) -> None:
    with pytest.raises(
        OctaveError, match=r"LDS race between two barriers at 0x.* by wave . and .* by wave . with no"
    ) as raised:
        kernels(name, words(256), np.zeros(256, np.uint32), threads=256)
    assert place_of(raised.value).kind == "lds_race"
    kernels(name, words(256), np.zeros(256, np.uint32), threads=256, check_races=False)


def test_one_wave_needs_no_barrier(kernels: Launcher) -> None:
    kernels("no_barrier", words(256), np.zeros(256, np.uint32), threads=kernels.code_object.wave_size)


def test_barrier_divergence(kernels: Launcher) -> None:
    with pytest.raises(
        OctaveError, match=r"waves of a workgroup wait at different barriers: workgroup 1 waits at|workgroup 0 waits at"
    ) as raised:
        kernels("barriers_apart", words(256), np.zeros(256, np.uint32), threads=256, grid=2)
    assert place_of(raised.value).kind == "barrier_divergence"
    assert place_of(raised.value).instruction == "s_barrier"


def test_waves_that_ended_are_not_waited_for(kernels: Launcher) -> None:
    data, out = words(256), np.zeros(256, np.uint32)
    kernels("early_exit", data, out, threads=256)
    assert (out == np.concatenate([data[127::-1], np.zeros(128, np.uint32)])).all()


def test_trap(kernels: Launcher) -> None:
    data, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    with pytest.raises(OctaveError, match="the kernel trapped") as raised:
        kernels("trap", data, out)
    assert place_of(raised.value).kind == "trap"
    kernels("trap", data + 100, out)


@pytest.mark.parametrize("at", [5000, -5000])
def test_scratch_bounds(kernels: Launcher, at: int) -> None:
    with pytest.raises(OctaveError, match="access outside the lane's scratch memory") as raised:
        kernels("deep", np.zeros(64, np.uint32), at)
    assert place_of(raised.value).kind == "scratch_bounds"
    kernels("deep", np.zeros(64, np.uint32), 3)


def test_wild_jump(kernels: Launcher) -> None:
    with pytest.raises(OctaveError, match="jump to an address that holds no instruction") as raised:
        kernels("wild", np.zeros(16, np.uint8))
    assert place_of(raised.value).kind == "wild_jump"


def test_the_error_of_a_fault() -> None:
    error = fault("memory", "k", 0x40, "global_load_dword v0, v[1:2], off", 0x1234, "load of 4 bytes", "look there")
    assert str(error) == (
        "k+0x40: global_load_dword v0, v[1:2], off: access outside every buffer at 0x1234: load of 4 bytes\n"
        "  hint: look there"
    )
    assert place_of(error) == "k+0x40: global_load_dword v0, v[1:2], off"
    for kind in KINDS:
        assert KINDS[kind] in fault(kind, "k", 0, "s_nop 0", None, "x").what


def test_faults_travel_between_processes() -> None:
    error = fault("lds_race", "k", 8, "ds_read_b32 v0, v1", 12, "load", "hint", "inner")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert vars(place_of(copy)) == vars(place_of(error))
