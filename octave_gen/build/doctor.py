"""What this machine has of the tools that octave-gen can use. Nothing is loaded or initialised."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from octave_gen import arch as archs
from octave_gen import settings
from octave_gen.build import link, toolchain
from octave_gen.build.flydsl import tool as flydsl
from octave_gen.errors import OctaveError

PYTHON: Final = (3, 10)
OBJDUMP: Final = (22,)
KFD_NODES: Final = Path("/sys/class/kfd/kfd/topology/nodes")
TOOL_SECONDS: Final = 20

HIP_NAMES: Final = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")
"""What a built library opens at its first launch, in this order."""


@dataclass(frozen=True)
class Finding:
    """One tool. ``version``: what was found, or None; ``problem``: why what was found will not do; ``needed``: whether
    the default build needs it; ``remedy``: how to get it."""

    name: str
    version: str | None
    purpose: str
    needed: bool
    remedy: str
    problem: str | None = None

    @property
    def usable(self) -> bool:
        return self.version is not None and self.problem is None


def examine() -> list[Finding]:
    """Every tool, those that the default build needs first."""
    return [
        _python(),
        _torch(),
        _compiler("ziglang", "device compiler and linker (default)", "pip install ziglang==0.17.1", needed=True),
        _host_compiler(),
        _package("ninja", "runs the compilers in parallel", "pip install ninja", needed=True),
        _compiler("clang-22", "device compiler: build --compiler clang-22", "apt install clang-22 lld-22"),
        _compiler("rocm", "device compiler: build --compiler rocm", "install ROCm, or name its folder in ROCM_PATH"),
        _flydsl(),
        _tool(
            ("ld.lld-22", "ld.lld", "lld"),
            "lld",
            "linker of clang-22 (ziglang and ROCm bring their own)",
            "apt install lld-22",
        ),
        _disassembler(),
        _hip_runtime(),
        gpus(),
    ]


def can_build(findings: list[Finding]) -> bool:
    """Whether everything that the default build needs is there."""
    return all(finding.usable for finding in findings if finding.needed)


def _python() -> Finding:
    found = platform.python_version()
    return Finding("python", found, "runs octave-gen", True, "install Python 3.10 or newer", _too_old(found, PYTHON))


def _torch() -> Finding:
    pinned = ".".join(map(str, link.TORCH_TARGET))
    finding = _package(
        "torch",
        "headers for the host half; loads what is built",
        f"pip install torch=={pinned} --index-url with the index of PyTorch's CPU builds; without it, pip may choose a "
        "CUDA build of several GB",
        needed=True,
    )
    return Finding(**{**vars(finding), "problem": _too_old(finding.version, link.TORCH_TARGET)})


def _package(name: str, purpose: str, remedy: str, *, needed: bool = False) -> Finding:
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        found = None
    return Finding(name, found, purpose, needed, remedy)


def _compiler(name: str, purpose: str, remedy: str, *, needed: bool = False) -> Finding:
    try:
        return Finding(name, toolchain.find(name).version, purpose, needed, remedy)
    except OctaveError as error:
        return Finding(name, None, purpose, needed, error.hint or remedy)


def _host_compiler() -> Finding:
    command = settings.read().host_compiler
    purpose = "compiles the host half (or another compiler, named in CXX)"
    remedy = "apt install g++"
    try:
        return Finding(command, link.find_compiler().version, purpose, True, remedy)
    except OctaveError as error:
        return Finding(command, None, purpose, True, error.hint or remedy, error.what)


def _tool(commands: tuple[str, ...], name: str, purpose: str, remedy: str) -> Finding:
    versions = (_version_of(command) for command in commands)
    return Finding(name, next((version for version in versions if version), None), purpose, False, remedy)


def _flydsl() -> Finding:
    found = flydsl.installed()
    purpose = "compiles the kernels of the flydsl tier, which a build leaves out without it"
    return Finding(
        "flydsl", found, purpose, False, flydsl.REMEDY, flydsl.problem() or flydsl.unchecked() if found else None
    )


def _disassembler() -> Finding:
    purpose = "reads a code object's instructions; build needs it for kernels in FlyDSL alone"
    remedy = "apt install llvm-22, or pip install rocm-llvm-python"
    tool = _tool(("llvm-objdump-22", "llvm-objdump"), "disassembler", purpose, remedy)
    if tool.version and not _too_old(tool.version, OBJDUMP):
        return tool
    package = _package("rocm-llvm-python", purpose, remedy)
    if package.version:
        return Finding("disassembler", f"rocm-llvm-python {package.version}", purpose, False, remedy)
    return Finding(**{**vars(tool), "problem": _too_old(tool.version, OBJDUMP)})


def _hip_runtime() -> Finding:
    found = find_library("amdhip64")
    if found is None:
        libraries = (settings.read().rocm_path / "lib" / name for name in HIP_NAMES)
        found = next((str(path) for path in libraries if path.exists()), None)
    return Finding("HIP runtime", found, "runs kernels; build does not need it", False, "install ROCm's HIP runtime")


def gpus(nodes: Path = KFD_NODES) -> Finding:
    """The AMD GPUs that the driver lists; kernels for other chips than the supported ones do not exist."""
    found = Counter(_gpu_archs(nodes))
    problem = None
    if found and not set(found) & set(archs.ARCHS):
        problem = f"no kernels for it; supported: {', '.join(archs.ARCHS)}"
    text = ", ".join(f"{count} x {name}" for name, count in sorted(found.items()))
    remedy = f"needs one of {', '.join(archs.ARCHS)} and the amdgpu driver"
    return Finding("GPU", text or None, "runs kernels; build does not need one", False, remedy, problem)


def _gpu_archs(nodes: Path) -> Iterator[str]:
    """gfx942 from the driver's ``gfx_target_version 90402``; CPUs are nodes with version 0."""
    for properties in sorted(nodes.glob("*/properties")):
        try:
            text = properties.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            continue  # nodes of other containers' GPUs cannot be read
        match = re.search(r"^gfx_target_version (\d+)$", text, re.MULTILINE)
        if match and int(match[1]):
            number = int(match[1])
            yield f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def _version_of(command: str) -> str | None:
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_SECONDS,
            env=settings.tool_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\d+\.\d+(\.\d+)*", done.stdout)
    return match[0] if match and done.returncode == 0 else None


def _too_old(version: str | None, least: tuple[int, ...]) -> str | None:
    if version is None or _numbers(version) >= least:
        return None
    return f"too old: {'.'.join(map(str, least))} or newer is needed"


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()
