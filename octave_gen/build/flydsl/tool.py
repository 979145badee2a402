"""flydsl itself: whether it is here, what it is, and how its processes are started. Imports no flydsl."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from octave_gen import paths, settings
from octave_gen.build import toolchain
from octave_gen.build.toolchain import DeviceCompiler
from octave_gen.errors import OctaveError
from octave_gen.kernels.flydsl.tiers import EXTRA, VERSION

ARCHS: Final = ("gfx942", "gfx950", "gfx1100")
"""The chips that this version is known to compile for. Another name would end it, or be taken for gfx942."""

CODE_OBJECT_VERSION: Final = 6

REMEDY: Final = f"install it with `{EXTRA}`"

_ROCM = "rocm"
_OF_FLYDSL = ("FLYDSL_", "LLVM_", "MLIR_")
_ALSO_OF_FLYDSL = ("ARCH", "COMPILE_ONLY", "HSA_OVERRIDE_GFX_VERSION")
_OF_PYTHON = "PYTHON"
"""Some make it print, which would be taken for a compiler's words, or leave out checks."""
_WHERE_PYTHON_IS = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE")


@dataclass(frozen=True)
class FlyDSL:
    """flydsl with what it needs. identity: sha256 of all that decides its output; linker: the command of ``ld.lld``."""

    version: str
    identity: str
    linker: tuple[str, ...]


def flags(arch: str) -> tuple[str, ...]:
    """What decides a compile besides sources and constants: settings of the child's environment, free of paths."""
    return (f"FLYDSL_GPU_ARCH={arch}", "FLYDSL_RUNTIME_ENABLE_CACHE=0", "PYTHONHASHSEED=0")


def installed() -> str | None:
    """The version of flydsl that is installed, or None. Nothing is imported."""
    try:
        return metadata.version("flydsl")
    except metadata.PackageNotFoundError:
        return None


def problem(arch: str | None = None) -> str | None:
    """Why kernels in FlyDSL cannot be compiled here (for ``arch``), or None."""
    found = installed()
    if found is None:
        return "flydsl is not installed"
    if found != VERSION:
        return f"flydsl {found} is installed, and the kernels are written for {VERSION}"
    if arch is not None and arch not in ARCHS:
        return f"flydsl {VERSION} is not known to compile for {arch} (only for {', '.join(ARCHS)})"
    return None


def unchecked() -> str | None:
    """Why what flydsl compiles cannot be looked at, so that no build takes it, or None."""
    from octave_gen.isa import disassembly  # takes numpy along, which commands that build nothing do without

    return None if disassembly.available() else "the disassembler that its kernels are checked with is not installed"


def remedy(arch: str | None = None) -> str:
    """What to do about :func:`problem`."""
    if arch is not None and arch not in ARCHS:
        return "build the other tiers of this chip"
    return REMEDY


def find() -> FlyDSL:
    """flydsl and its linker, ziglang's; raises OctaveError saying how to get what is not there."""
    reason = problem()
    if reason is not None:
        raise OctaveError(reason, where="flydsl", hint=REMEDY)
    zig = toolchain.find("ziglang")
    assert zig.linker is not None
    return FlyDSL(VERSION, _identity(zig), zig.linker)


@cache
def _identity(zig: DeviceCompiler) -> str:
    """Of flydsl's files as pip recorded them, their sha256 included, and of the linker."""
    record = metadata.distribution("flydsl").read_text("RECORD") or ""
    files = sorted(line for line in record.splitlines() if line.startswith("flydsl/") and ".pyc," not in line)
    if not files:
        raise OctaveError("flydsl's list of files is missing", where="flydsl", hint=REMEDY)
    return hashlib.sha256("\n".join([VERSION, *files, zig.identity]).encode()).hexdigest()


def environment(arch: str, scratch: Path) -> dict[str, str]:
    """The environment of a child that compiles for ``arch`` in ``scratch``, which :func:`write_linker` prepared."""
    kept = {name: value for name, value in settings.tool_environment().items() if _is_kept(name)}
    return kept | fixed_environment(arch, scratch)


def _is_kept(name: str) -> bool:
    if name.startswith(_OF_PYTHON):
        return name in _WHERE_PYTHON_IS
    return not name.startswith(_OF_FLYDSL) and name not in _ALSO_OF_FLYDSL


def fixed_environment(arch: str, scratch: Path) -> dict[str, str]:
    """What :func:`environment` sets."""
    fixed = dict(flag.split("=", 1) for flag in flags(arch))
    import_path = os.pathsep.join(_import_path())
    return fixed | {"PYTHONPATH": import_path, "ROCM_PATH": str(scratch / _ROCM), "TMPDIR": str(scratch)}


def _import_path() -> list[str]:
    """Where the child finds this package, and flydsl where that is not of the interpreter's own: the one that
    :func:`find` names, and no other."""
    package = str(paths.PACKAGE.parent)
    try:
        place = str(Path(str(metadata.distribution("flydsl").locate_file(""))).absolute())
    except metadata.PackageNotFoundError:
        return [package]
    return [package] if place in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")) else [package, place]


def write_linker(folder: Path, tool: FlyDSL) -> None:
    """Puts ``ld.lld`` into ``folder`` at the place where flydsl looks for it; it can be told no other."""
    script = folder / _ROCM / "llvm" / "bin" / "ld.lld"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {shlex.join(tool.linker)} "$@"\n')
    script.chmod(0o755)


def child(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package in a process that may import flydsl."""
    return [sys.executable, "-m", f"octave_gen.build.flydsl.{module}", *arguments]
