"""Is a shared object the file that its manifest describes, and may this process load it? Asked before dlopen does.

dlopen answers too late: a truncated file ends the process with SIGBUS.
"""

from __future__ import annotations

import hashlib
import platform
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from octave_gen.errors import OctaveError

_ELF_HEADER = struct.Struct("<4sBBB9xHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_MACHINES = {"x86_64": 62, "aarch64": 183}
_SHARED_OBJECT = 3


def check_library(path: Path, described: Mapping[str, Any], rebuild: str) -> None:
    """Raises OctaveError unless ``path`` has the size and sha256 that ``described`` (a manifest's ``library``) gives,
    and is a whole ELF shared object for this machine. ``rebuild``: the command that makes it anew."""
    where = str(path)
    hint = f"build it again: {rebuild}"
    if not path.is_file():
        raise OctaveError("the library that the manifest names is missing", where=where, hint=hint)
    data = path.read_bytes()
    if len(data) != described["size"]:
        what = f"the library has {len(data)} bytes, its manifest says {described['size']}: it is truncated or replaced"
        raise OctaveError(what, where=where, hint=hint)
    found = hashlib.sha256(data).hexdigest()
    if found != described["sha256"]:
        what = f"the library's sha256 is {found}, its manifest says {described['sha256']}"
        raise OctaveError(what, where=where, hint=hint)
    problem = elf_problem(data)
    if problem:
        raise OctaveError(f"the library {problem}", where=where, hint=hint)


def elf_problem(data: bytes) -> str | None:
    """Why ``data`` is no shared object that this machine can map whole, or None."""
    if len(data) < _ELF_HEADER.size or data[:4] != b"\x7fELF":
        return "is no ELF file"
    header = _ELF_HEADER.unpack_from(data)
    elf_class, byte_order, kind, machine = header[1], header[2], header[4], header[5]
    program_offset, section_offset = header[8], header[9]
    program_size, program_count, section_size, section_count = header[12], header[13], header[14], header[15]
    if (elf_class, byte_order, kind) != (2, 1, _SHARED_OBJECT) or program_size != _PROGRAM_HEADER.size:
        return "is no 64-bit little-endian ELF shared object"
    if machine != _MACHINES.get(platform.machine()):
        return f"is made for another processor (ELF machine {machine}), this one is {platform.machine()}"
    ends = [section_offset + section_size * section_count, program_offset + program_size * program_count]
    if max(ends) <= len(data):
        for index in range(program_count):
            fields = _PROGRAM_HEADER.unpack_from(data, program_offset + index * program_size)
            ends.append(fields[2] + fields[5])
    if max(ends) > len(data):
        return f"is truncated: it has {len(data)} bytes of {max(ends)}"
    return None


def release(version: str) -> tuple[int, ...]:
    """``2.13.0a0+git1c57`` -> (2, 13, 0): a build of the release's branch counts as the release."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def check_torch(running: str, target: str, rebuild: str, where: str) -> None:
    """Raises OctaveError when the running torch is older than the ``target`` a library was built for."""
    if not release(target):
        raise OctaveError(f"{target!r} is no torch version", where=where, hint=f"build it again: {rebuild}")
    if release(running) < release(target):
        raise OctaveError(
            f"the library was built for torch {target} or newer; this is torch {running}",
            where=where,
            hint=f"upgrade torch to {target} or newer; libraries for older versions cannot be built",
        )
