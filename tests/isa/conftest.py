"""Machines that run single instructions, and code objects compiled from small kernels."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # machine, matrix_tables, values

from machine import ARCHS, Machine, written_texts

from octave_gen import isa
from octave_gen.build import compile, toolchain
from octave_gen.isa import decode, disassembly

PRELUDE = """\
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long;
#define KERNEL(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, threads))) void
#define DEVICE [[maybe_unused]] static inline __attribute__((device, always_inline))
#define FUNCTION __attribute__((device, noinline))
#define SHARED __attribute__((shared))
DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 block() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
"""

Compile = Callable[..., bytes]


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Machine]]:
    """``machine(arch)`` runs instruction texts on a few waves.

    After the last test every text that was run is assembled and disassembled again: it must be what LLVM prints.
    """
    yield Machine
    for arch, lanes in sorted(written_texts):
        texts = sorted(written_texts[arch, lanes])
        read = assemble(tmp_path_factory.mktemp("texts"), arch, lanes, texts)
        assert read == texts, [pair for pair in zip(texts, read, strict=False) if pair[0] != pair[1]][:5]


def assemble(folder: Path, arch: str, lanes: int, texts: Sequence[str]) -> list[str]:
    """The texts after LLVM has assembled and disassembled them."""
    compiler = toolchain.find("ziglang")
    (folder / "text.s").write_text("\n".join(texts) + "\n")
    feature = () if arch != "gfx1100" else ("-mwavefrontsize64" if lanes == 64 else "-mno-wavefrontsize64",)
    command = [*compiler.command, "-x", "assembler", "--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", *feature]
    done = subprocess.run([*command, "-c", "text.s", "-o", "text.o"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    elf = (folder / "text.o").read_bytes()
    code = section(elf, ".text")
    lines = disassembly.disassemble(elf, code, 0, arch, lanes)
    return [decode.parse(line.text).text for line in lines]


def section(elf: bytes, name: str) -> bytes:
    import io

    from elftools.elf.elffile import ELFFile

    found = ELFFile(io.BytesIO(elf)).get_section_by_name(name)
    assert found is not None
    data: bytes = found.data()
    return data


@pytest.fixture(scope="session")
def compile_kernels(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """``compile_kernels(arch, text, *flags) -> bytes``: HIP text behind the prelude, compiled once."""
    compiler = toolchain.find("ziglang")
    made: dict[tuple[str, ...], bytes] = {}

    def build(arch: str, text: str, *flags: str) -> bytes:
        key = (arch, text, *flags)
        if key not in made:
            folder = tmp_path_factory.mktemp("kernels")
            compile.write_linker(folder, compiler)
            (folder / "k.hip").write_text(PRELUDE + text)
            command = [*compile.call(compiler, arch, folder, "k"), *flags]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            made[key] = (folder / "k.hsaco").read_bytes()
        return made[key]

    return build


class Launcher:
    """Launches kernels of one code object on numpy arrays."""

    def __init__(self, data: bytes) -> None:
        self.code_object = isa.load(data)

    def __call__(
        self,
        symbol: str,
        *arguments: np.ndarray | int | float,
        grid: int | tuple[int, int, int] = 1,
        threads: int = 64,
        read_only: Sequence[int] = (),
        **options: object,
    ) -> isa.Counters:
        """Arrays become pointers (positions in ``read_only`` cannot be stored to), the rest 4-byte values."""
        memory = isa.Memory()
        packed = b""
        rows = [argument for argument in self.code_object.kernel(symbol).arguments if not argument.hidden]
        for position, (row, value) in enumerate(zip(rows, arguments, strict=True)):
            packed += bytes(row.offset - len(packed))
            if isinstance(value, np.ndarray):
                flat = value.reshape(-1).view(np.uint8)
                packed += struct.pack(
                    "<Q", memory.add(f"argument {position}", flat, writable=position not in read_only)
                )
            elif isinstance(value, float):
                packed += struct.pack("<f", value)
            else:
                packed += (value & (1 << 8 * row.size) - 1).to_bytes(row.size, "little")
        where = (grid, 1, 1) if isinstance(grid, int) else grid
        return isa.execute(
            self.code_object,
            symbol,
            grid=where,
            threads=threads,
            kernargs=packed,
            memory=memory,
            options=isa.Options(**options),  # type: ignore[arg-type]
        )


@pytest.fixture(params=ARCHS)
def arch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
