"""Code objects in clang's offload bundle format, and the blob of bundles with its index that a shared object carries.

The format: the magic, the number of entries (u64), then per entry its offset, its size, the length of its id (u64
each) and the id; then the entries, each at a multiple of the alignment. All numbers are little-endian. A bundle for
HIP begins with an empty entry for the host.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from octave_gen.arch import TargetId, parse_target_id
from octave_gen.errors import OctaveError

ALIGNMENT = 4096
BUNDLE_SECTION = ".hip_fatbin"
INDEX_SECTION = ".octave_index"

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_HOST = "host-x86_64-unknown-linux-gnu-"
_DEVICE = "hipv4-amdgcn-amd-amdhsa--"
_INDEX_TITLE = "octave-gen index 1"


@dataclass(frozen=True)
class Entry:
    """One entry of a bundle. ``target``: the target id of device code, None for the host's entry."""

    target: TargetId | None
    data: bytes


@dataclass(frozen=True)
class Kernel:
    """Where the blob holds a symbol's bundle, and the bytes of its packed arguments."""

    symbol: str
    offset: int
    size: int
    argument_bytes: int


def bundle(target: TargetId, code_object: bytes) -> bytes:
    """A bundle of one code object, with clang's alignment of 4096."""
    ids = (_HOST.encode(), f"{_DEVICE}{target}".encode())
    header_size = len(_MAGIC) + 8 + sum(24 + len(name) for name in ids)
    start = -(-header_size // ALIGNMENT) * ALIGNMENT
    header = bytearray(_MAGIC + struct.pack("<Q", len(ids)))
    for name, size in zip(ids, (0, len(code_object)), strict=True):
        header += struct.pack("<QQQ", start, size, len(name)) + name
    return bytes(header.ljust(start, b"\0") + code_object)


def unbundle(data: bytes) -> list[Entry]:
    """The entries of a bundle; raises OctaveError for anything that is not a whole one."""
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("it does not begin with the magic")
        (count,) = struct.unpack_from("<Q", data, len(_MAGIC))
        entries, at = [], len(_MAGIC) + 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", data, at)
            name = data[at + 24 : at + 24 + length].decode("ascii")
            at += 24 + length
            if offset + size > len(data) or at > len(data):
                raise ValueError("it is shorter than its entries")
            entries.append(Entry(_target(name), data[offset : offset + size]))
    except (ValueError, struct.error) as error:
        raise OctaveError(f"this is no offload bundle: {error}", where="unbundle") from error
    return entries


def _target(name: str) -> TargetId | None:
    if name.startswith("host-"):
        return None
    if not name.startswith(_DEVICE):
        raise ValueError(f"its entry {name!r} is not for {_DEVICE}")
    return parse_target_id(name.removeprefix(_DEVICE))


def concatenate(parts: Iterable[tuple[bytes, dict[str, int]]]) -> tuple[bytes, tuple[Kernel, ...]]:
    """The blob of several bundles and where it holds each symbol, sorted by symbol.

    parts: per bundle its bytes, and the argument bytes of each symbol in it.
    """
    blob = bytearray()
    kernels = []
    for data, symbols in parts:
        blob.extend(bytes(-len(blob) % ALIGNMENT))
        kernels += [Kernel(symbol, len(blob), len(data), size) for symbol, size in symbols.items()]
        blob += data
    return bytes(blob), tuple(sorted(kernels, key=lambda kernel: kernel.symbol))


def index_text(kernels: Iterable[Kernel]) -> str:
    """The index as the shared object carries it: a title, then a line ``symbol offset size argument_bytes`` each."""
    lines = [f"{k.symbol} {k.offset} {k.size} {k.argument_bytes}" for k in kernels]
    return "\n".join([_INDEX_TITLE, *lines]) + "\n"


def parse_index(text: str) -> tuple[Kernel, ...]:
    """The kernels of an index; raises OctaveError for a text of another kind or version."""
    title, *lines = text.splitlines() or [""]
    if title != _INDEX_TITLE:
        raise OctaveError(f"this is no kernel index: it begins with {title!r}", hint="build the library again")
    try:
        fields = [line.split(" ") for line in lines]
        return tuple(Kernel(symbol, int(offset), int(size), int(count)) for symbol, offset, size, count in fields)
    except ValueError as error:
        raise OctaveError(f"the kernel index is damaged: {error}", hint="build the library again") from error


def code_objects(library: Path) -> dict[str, bytes]:
    """The code object of every symbol in a built shared object; variants of one unit share theirs.

    Raises OctaveError when the file is not a library of octave-gen, or is damaged.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    again = "build it again with `octave-gen build`"
    try:
        with library.open("rb") as file:
            elf = ELFFile(file)
            sections = (elf.get_section_by_name(name) for name in (BUNDLE_SECTION, INDEX_SECTION))
            blob, index = (section.data() if section else b"" for section in sections)
    except OSError as error:
        raise OctaveError(f"the library cannot be read: {error.strerror}", where=str(library), hint=again) from error
    except ELFError as error:
        raise OctaveError(f"the library is damaged: {error}", where=str(library), hint=again) from error
    if not blob or not index:
        raise OctaveError("this library holds no kernels of octave-gen", where=str(library), hint=again)
    found: dict[tuple[int, int], bytes] = {}
    kernels = parse_index(index.decode("ascii"))
    for place in {(kernel.offset, kernel.size) for kernel in kernels}:
        entries = unbundle(blob[place[0] : sum(place)])
        found[place] = next(entry.data for entry in entries if entry.target is not None)
    return {kernel.symbol: found[kernel.offset, kernel.size] for kernel in kernels}
