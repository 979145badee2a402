"""The device compilers: where they are, what they are, and the flags that every kernel is compiled with."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from octave_gen import settings
from octave_gen.errors import OctaveError, did_you_mean, wrong_request

CODE_OBJECT_VERSION = 5

DEVICE_FLAGS: tuple[str, ...] = (
    *("-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output"),
    *("-O3", "-std=c++17"),
    # Nothing of the machine is included or linked: the templates bring their own headers.
    *("-nostdinc", "-nogpuinc", "-nogpulib"),
    # A symbol that hashes the path of the source would differ from folder to folder.
    "-fuse-cuid=none",
    f"-mcode-object-version={CODE_OBJECT_VERSION}",
    # The reference's arithmetic: nothing contracted, infinities kept, division and square root correctly rounded.
    *("-ffp-contract=off", "-fno-finite-math-only", "-fhip-fp32-correctly-rounded-divide-sqrt"),
    *("-Wall", "-Wextra", "-Werror"),
)
"""The flags of every kernel on every arch; without paths."""


def device_flags(arch: str) -> tuple[str, ...]:
    """The flags of every kernel on ``arch``, without paths; the manifest shows them."""
    return (*DEVICE_FLAGS, f"--offload-arch={arch}")


@dataclass(frozen=True)
class DeviceCompiler:
    """A compiler for kernels.

    identity: sha256 in hex of its version and of the programs that decide its output, wherever they are installed.
    command: how it is started. linker: the command behind the program ``lld`` in the folder that the compiler is given
    with ``-B``; None where it brings a linker of its own.
    """

    name: str
    version: str
    identity: str
    command: tuple[str, ...]
    linker: tuple[str, ...] | None = None


def find(name: str) -> DeviceCompiler:
    """The compiler ``name`` (a key of ``COMPILERS``); raises OctaveError saying how to get one that is not there."""
    if name not in COMPILERS:
        raise wrong_request(
            f"there is no compiler {name!r}{did_you_mean(name, tuple(COMPILERS))}",
            where="compiler",
            hint=f"name one of {', '.join(COMPILERS)}",
        )
    return COMPILERS[name]()


def _ziglang() -> DeviceCompiler:
    hint = "install the Python package ziglang, which octave-gen depends on, or name another compiler"
    spec = find_spec("ziglang")
    folders = spec.submodule_search_locations if spec else None
    zig = Path(folders[0]) / "zig" if folders else None
    if zig is None or not zig.is_file():
        raise OctaveError("the compiler ziglang is not installed", where=str(zig) if zig else None, hint=hint)
    package = f"ziglang {metadata.version('ziglang')}"
    clang = _first_line([str(zig), "clang", "--version"], hint)
    version = f"{clang} ({package})"
    return DeviceCompiler("ziglang", version, _identity(version, [zig]), (str(zig), "clang"), (str(zig), "ld.lld"))


def _debian() -> DeviceCompiler:
    hint = "install Debian's packages clang-22 and lld-22, or name another compiler"
    clang = shutil.which("clang-22")
    if clang is None:
        raise OctaveError("the compiler clang-22 is not on PATH", hint=hint)
    return _installed("clang-22", clang, hint)


def _rocm() -> DeviceCompiler:
    clang = settings.read().rocm_path / "llvm" / "bin" / "clang++"
    hint = "install ROCm's llvm, set ROCM_PATH to the folder of ROCm, or name another compiler"
    if not clang.is_file():
        raise OctaveError("there is no ROCm compiler", where=str(clang), hint=hint)
    return _installed("rocm", str(clang), hint)


COMPILERS: dict[str, Callable[[], DeviceCompiler]] = {"ziglang": _ziglang, "clang-22": _debian, "rocm": _rocm}


def _installed(name: str, clang: str, hint: str) -> DeviceCompiler:
    version = _first_line([clang, "--version"], hint)
    linker = shutil.which(_first_line([clang, "-print-prog-name=lld"], hint))
    if linker is None:
        raise OctaveError(f"the compiler {name} has no linker: there is no program lld", where=clang, hint=hint)
    programs = {Path(clang).resolve(), Path(linker).resolve()}
    programs |= {library for program in programs for library in _llvm_libraries(program)}
    return DeviceCompiler(name, version, _identity(version, sorted(programs, key=lambda p: p.name)), (clang,))


def _llvm_libraries(program: Path) -> list[Path]:
    """The shared libraries of LLVM that ``program`` loads: with them most of what decides its output."""
    static = 1
    listing = run(["ldd", str(program)], "install ldd, which comes with the C library", accepted=(0, static))
    found = re.findall(r"^\s*(lib(?:LLVM|clang|lld)\S*) => (/\S+)", listing, re.MULTILINE)
    return [Path(path).resolve() for _, path in found]


def _identity(version: str, programs: Sequence[Path]) -> str:
    digest = hashlib.sha256(version.encode())
    for program in programs:
        digest.update(b"\0")
        with program.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _first_line(command: Sequence[str], hint: str) -> str:
    return run(command, hint).partition("\n")[0].strip()


def run(command: Sequence[str], hint: str, accepted: Sequence[int] = (0,)) -> str:
    """The output of a tool that should just answer; raises OctaveError with ``hint`` when it does not."""
    try:
        done = subprocess.run(
            command, env=settings.tool_environment(), capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise OctaveError(f"cannot be run: {error.strerror}", where=command[0], hint=hint) from error
    if done.returncode not in accepted:
        raise OctaveError(
            f"`{' '.join(command)}` failed with status {done.returncode}: {done.stderr.strip()[:200]}", hint=hint
        )
    return done.stdout
