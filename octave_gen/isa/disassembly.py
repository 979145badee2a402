"""Which disassembler there is, and its text.

Two are supported, in this order: LLVM's C disassembler in the PyPI package ``rocm-llvm-python`` (through ctypes;
nothing of the package is imported), and ``llvm-objdump`` of LLVM 22 or later on PATH (older ones misread newer gfx11
code). On all 164 code objects of this project's catalogue, 554 554 instructions of both chips, their texts are the same
but for 336 literals that fit an inline constant: objdump writes ``lit(0xffffffff)``, the library ``-1``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from octave_gen.errors import OctaveError

_TRIPLE = b"amdgcn-amd-amdhsa"
_OLDEST_OBJDUMP = 22
_MISSING = "install it with `pip install octave-gen[verify]`, or put llvm-objdump of LLVM 22 or later on PATH"
_LINE = re.compile(r"^\t(\S.*?)\s*// ([0-9A-F]{12}): ([0-9A-F ]+?)(?: <.*>)?$")
_UNKNOWN = "<unknown>"
_THIRD_SOURCE = 0x1FF << 18
"""Of the second word of a VOP3 instruction."""


@dataclass(frozen=True)
class Line:
    """One disassembled instruction; ``size`` in bytes."""

    address: int
    size: int
    text: str


@dataclass(frozen=True)
class Disassembler:
    """name: ``rocm-llvm-python`` or ``llvm-objdump``; path: the library or program."""

    name: str
    path: Path


def available() -> list[Disassembler]:
    """The disassemblers of this machine, the one that is used first."""
    found = []
    library = _library()
    if library is not None:
        found.append(Disassembler("rocm-llvm-python", library))
    objdump = _objdump()
    if objdump is not None:
        found.append(Disassembler("llvm-objdump", objdump))
    return found


def which() -> Disassembler:
    """The disassembler in use; raises OctaveError with the remedy when there is none."""
    found = available()
    if not found:
        raise OctaveError("no disassembler for AMD code objects was found", where="disassembly", hint=_MISSING)
    return found[0]


def disassemble(
    elf: bytes, text: bytes, address: int, arch: str, wave_size: int, disassembler: Disassembler | None = None
) -> list[Line]:
    """The instructions of ``text``, which lies at ``address`` of the code object ``elf``.

    Words that are no instruction come as lines of 4 bytes that say so.
    """
    chosen = disassembler or which()
    features = f"+wavefrontsize{wave_size}"
    if chosen.name == "rocm-llvm-python":
        return list(_by_library(chosen.path, text, address, arch, features))
    return _by_objdump(chosen.path, elf, features)


def _library() -> Path | None:
    spec = importlib.util.find_spec("rocm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "llvm" / "librocmllvm.so"
        if path.is_file():
            return path
    return None


@cache
def _objdump() -> Path | None:
    for name in ("llvm-objdump", *(f"llvm-objdump-{version}" for version in range(_OLDEST_OBJDUMP, 40))):
        found = shutil.which(name)
        if not found:
            continue
        words = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"LLVM version (\d+)", words)
        if version and int(version[1]) >= _OLDEST_OBJDUMP and "amdgcn" in words:
            return Path(found)
    return None


@cache
def _loaded(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
        for part in ("TargetInfo", "TargetMC", "Disassembler"):
            getattr(library, f"LLVMInitializeAMDGPU{part}")()
        create, step = library.LLVMCreateDisasmCPUFeatures, library.LLVMDisasmInstruction
    except (OSError, AttributeError) as error:
        raise OctaveError(
            f"the disassembler cannot be used: {error}", where="rocm-llvm-python", hint="install it again"
        ) from error
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    create.restype, create.argtypes = pointer, [text, text, text, pointer, ctypes.c_int, pointer, pointer]
    step.restype, step.argtypes = size, [pointer, pointer, ctypes.c_uint64, ctypes.c_uint64, text, size]
    library.LLVMDisasmDispose.argtypes = [pointer]
    return library


def _by_library(path: Path, text: bytes, address: int, arch: str, features: str) -> Iterator[Line]:
    library = _loaded(path)
    context = library.LLVMCreateDisasmCPUFeatures(_TRIPLE, arch.encode(), features.encode(), None, 0, None, None)
    if not context:
        raise OctaveError(f"the disassembler does not know {arch}", where="rocm-llvm-python", hint=_MISSING)
    code = ctypes.create_string_buffer(text, len(text))
    buffer = ctypes.create_string_buffer(512)
    base, step, at = ctypes.addressof(code), library.LLVMDisasmInstruction, 0
    try:
        while at < len(text):
            size = step(context, base + at, len(text) - at, address + at, buffer, 512)
            if not size:
                older = _as_older_compilers_wrote(text[at : at + 8])
                size = step(context, older, len(older), address + at, buffer, 512) if older else 0
            line = buffer.value.decode("ascii", "replace").strip() if size else _UNKNOWN
            yield Line(address + at, size or 4, line)
            at += size or 4
    finally:
        library.LLVMDisasmDispose(context)


def _as_older_compilers_wrote(word: bytes) -> bytes:
    """A VOP3 instruction with 0 in the field of its third source; nothing for any other instruction.

    LLVM 24 puts the constant 0 into that field where an instruction has two sources, and the decoder of the PyPI
    package insists on what LLVM wrote before. An instruction that has a third source never comes here.
    """
    if len(word) < 8 or word[3] & 0xF8 != 0xD0:
        return b""
    first, second = struct.unpack("<II", word)
    return struct.pack("<II", first, second & ~_THIRD_SOURCE)


def _by_objdump(path: Path, elf: bytes, features: str) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "code.o"
        file.write_bytes(elf)
        command = [str(path), "-d", f"--mattr={features}", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise OctaveError(f"llvm-objdump failed: {run.stderr.strip()}", where=str(path))
    matches = (_LINE.match(line) for line in run.stdout.splitlines())
    return [Line(int(m[2], 16), 4 * len(m[3].split()), m[1].strip()) for m in matches if m]
