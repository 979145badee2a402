"""Reading code objects: what they say, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Compile, Launcher, assemble

from octave_gen import isa
from octave_gen.arch import get as arch_facts
from octave_gen.build import resources
from octave_gen.build.bundle import code_objects
from octave_gen.errors import OctaveError

TEXT = """
KERNEL(128) first(u32* out, u16 small, u64 wide) {
  SHARED u32 pad[100];
  pad[thread() % 100] = small;
  barrier();
  out[thread()] = pad[(thread() + 1) % 100] + wide;
}
KERNEL(64) second(float* out) { out[thread()] = 1.0f; }
"""


def test_a_kernel_as_the_code_object_describes_it(arch: str, compile_kernels: Compile) -> None:
    loaded = isa.load(compile_kernels(arch, TEXT))
    assert loaded.arch == arch
    assert loaded.version == 5
    assert set(loaded.kernels) == {"first", "second"}
    first = loaded.kernel("first")
    assert first.lds_bytes == 400
    assert first.scratch_bytes == 0
    assert first.wave_size == (64 if arch == "gfx942" else 32)
    assert first.max_threads == 128
    explicit = [(a.offset, a.size, a.value_kind) for a in first.arguments if not a.hidden]
    assert explicit == [(0, 8, "global_buffer"), (8, 2, "by_value"), (16, 8, "by_value")]
    assert first.explicit_bytes == 24
    assert first.entry in loaded.instructions
    assert loaded.kernel_at(first.entry) == "first"
    assert loaded.kernel_at(first.entry + 4) == "first"


@pytest.mark.parametrize("version", [5, 6])
def test_code_object_versions(arch: str, version: int, compile_kernels: Compile) -> None:
    data = compile_kernels(arch, TEXT, f"-mcode-object-version={version}")
    launch = Launcher(data)
    assert launch.code_object.version == version
    out = np.zeros(64, np.float32)
    launch("second", out)
    assert (out == 1).all()


def test_target_with_features(compile_kernels: Compile) -> None:
    data = compile_kernels("gfx942", TEXT, "--no-offload-arch=gfx942", "--offload-arch=gfx942:sramecc+:xnack-")
    assert isa.load(data).arch == "gfx942"


def test_figures_are_those_of_the_resource_gate(arch: str, small_build: Path) -> None:
    """Two readers of one note: the gate's and this one."""
    library = next((small_build / arch).glob("*.so"))
    facts = arch_facts(arch)
    for symbol, data in code_objects(library).items():
        kernel = isa.load(data).kernel(symbol)
        notes = {note[".name"]: note for note in resources.read(data, symbol).kernels.values()}
        gate = resources.resources(notes[symbol], facts, notes[symbol][".max_flat_workgroup_size"])
        assert kernel.lds_bytes == gate.lds_bytes
        assert kernel.scratch_bytes == gate.scratch_bytes
        assert kernel.kernarg_bytes == gate.kernarg_bytes
        # a kernel that LDS keeps from more waves is given their registers
        given = max(gate.vgprs, facts.vgpr_file // (gate.occupancy + 1) + 1)
        assert gate.vgprs <= kernel.vgprs + kernel.agprs < given + 8


def test_no_such_kernel(compile_kernels: Compile) -> None:
    loaded = isa.load(compile_kernels("gfx942", TEXT))
    with pytest.raises(OctaveError, match=r"no kernel 'secnd' \(did you mean second\?\)") as raised:
        loaded.kernel("secnd")
    assert raised.value.hint == "it has first, second"


def test_truncated_anywhere(compile_kernels: Compile) -> None:
    data = compile_kernels("gfx1100", TEXT)
    refused = []
    for size in [0, 1, 15, 63, 64, 100, 200, *range(256, len(data), 331)]:
        try:
            loaded = isa.load(data[:size])
        except OctaveError as error:
            refused.append((error.where, "\n" in error.what))
        else:  # the section table lies at the end, and is not needed by all that is read
            assert loaded.image == isa.load(data).image
    assert set(refused) == {("load", False)}
    assert len(refused) > 10


def test_damaged_bytes_never_leave_another_exception(compile_kernels: Compile) -> None:
    data = compile_kernels("gfx942", TEXT)
    random = np.random.default_rng(5)
    for _ in range(60):
        damaged = bytearray(data)
        for at in random.integers(0, 2000, 8):
            damaged[at] = random.integers(0, 256)
        try:
            isa.load(bytes(damaged))
        except OctaveError:
            continue


def test_foreign_files(compile_kernels: Compile) -> None:
    with pytest.raises(OctaveError, match="no AMD GPU code object"):
        isa.load(Path(sys.executable).read_bytes())
    with pytest.raises(OctaveError, match="damaged or no ELF file"):
        isa.load(b"#!/bin/sh\n" * 100)
    cuda = bytearray(compile_kernels("gfx942", TEXT))
    cuda[7], cuda[18:20] = 51, (190).to_bytes(2, "little")
    with pytest.raises(OctaveError, match="EM_CUDA, no AMD GPU code object"):
        isa.load(bytes(cuda))


@pytest.mark.parametrize(
    ("other", "reason"), [("gfx906", "no kernel has been built"), ("gfx1030", "RDNA2"), ("gfx90a", "CDNA2")]
)
def test_other_chips(other: str, reason: str, compile_kernels: Compile) -> None:
    with pytest.raises(OctaveError, match=rf"{other} is not supported: {reason}"):
        isa.load(compile_kernels(other, "KERNEL(64) k(u32* p) { *p = 1; }"))


def test_object_that_is_not_linked(tmp_path: Path) -> None:
    assemble(tmp_path, "gfx942", 64, ["s_endpgm"])
    with pytest.raises(OctaveError, match="no AMD metadata note"):
        isa.load((tmp_path / "text.o").read_bytes())


def test_older_abi(compile_kernels: Compile) -> None:
    old = bytearray(compile_kernels("gfx942", TEXT))
    old[8] = 2
    with pytest.raises(OctaveError, match="ABI version 2 is not read"):
        isa.load(bytes(old))
