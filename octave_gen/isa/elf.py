"""Code objects: the ELF files that clang makes for AMD GPUs, and the kernels in them.

Source of the formats: LLVM's "User Guide for AMDGPU Backend" (ELF header, kernel descriptor, code object v4 and later
metadata). Versions 5 and 6 are read; they differ in nothing that matters to a launch.
"""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from octave_gen import arch as chips
from octave_gen.errors import OctaveError, wrong_request

if TYPE_CHECKING:
    from octave_gen.isa.decode import Instruction

_EM_AMDGPU = 224
_OS_HSA = 64
_ABI_VERSIONS = {3: 5, 4: 6}
"""ABI version byte of the ELF header to code object version."""
_METADATA_NOTE = 32
_RELATIVE64 = 13
_LARGEST_IMAGE = 1 << 30
_TARGET = re.compile(r"gfx\w+(:\w+[+-])*$")
_REBUILD = "rebuild the code object, or name the right file"


@dataclass(frozen=True)
class KernelArgument:
    """One row of the kernel's argument table, in bytes; ``hidden_*`` kinds are filled at the launch."""

    name: str
    offset: int
    size: int
    value_kind: str

    @property
    def hidden(self) -> bool:
        return self.value_kind.startswith("hidden_")


@dataclass(frozen=True)
class KernelDescriptor:
    """What the code object says of one kernel.

    entry: address of the first instruction in the image; lds_bytes: static LDS of a workgroup; scratch_bytes: of a
    lane; vgprs, agprs: registers a lane may name, sgprs: a wave; user_sgprs: what is put into the first SGPRs;
    workgroup_ids: which of x, y, z follow them; dynamic_stack: it calls through pointers or recursively; float_mode:
    round and denormal bits of MODE.
    """

    symbol: str
    entry: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    wave_size: int
    vgprs: int
    agprs: int
    sgprs: int
    arguments: tuple[KernelArgument, ...]
    max_threads: int
    required_threads: int | None
    user_sgprs: tuple[str, ...]
    user_sgpr_count: int
    dynamic_stack: bool
    workgroup_ids: tuple[bool, bool, bool]
    float_mode: int

    @property
    def stack_bytes(self) -> int:
        """Scratch memory of a lane at a launch: HIP adds 1 KiB where the compiler cannot tell how deep calls go."""
        return self.scratch_bytes + 1024 * self.dynamic_stack

    @property
    def explicit_bytes(self) -> int:
        """End of the last argument that a caller gives."""
        return max((a.offset + a.size for a in self.arguments if not a.hidden), default=0)


@dataclass(frozen=True)
class CodeObject:
    """One loaded code object. elf: the file; image: its segments at their addresses; text: (address, size) of the code.

    symbols: functions and kernels by name, with their addresses; relocations: (address, addend) of the words of the
    image that hold an address of it; writable_image: it has variables.
    """

    elf: bytes
    arch: str
    version: int
    image: bytes
    text: tuple[int, int]
    kernels: dict[str, KernelDescriptor]
    symbols: dict[str, int]
    relocations: tuple[tuple[int, int], ...]
    writable_image: bool

    @property
    def wave_size(self) -> int:
        """Lanes of a wave, the same for all its kernels."""
        return next(iter(self.kernels.values())).wave_size

    @cached_property
    def instructions(self) -> dict[int, Instruction]:
        """All instructions by address, decoded at the first use; raises OctaveError when there is no disassembler."""
        from octave_gen.isa.decode import decode

        return decode(self)

    @cached_property
    def programs(self) -> dict[str, Any]:
        """Compiled instructions of earlier launches (:mod:`octave_gen.isa.program`)."""
        return {}

    def kernel(self, symbol: str) -> KernelDescriptor:
        """The kernel ``symbol``; raises OctaveError naming what there is."""
        from octave_gen.errors import did_you_mean

        if symbol not in self.kernels:
            raise wrong_request(
                f"the code object has no kernel {symbol!r}{did_you_mean(symbol, list(self.kernels))}",
                where=symbol,
                hint=f"it has {', '.join(sorted(self.kernels))}",
            )
        return self.kernels[symbol]

    def kernel_at(self, address: int) -> str:
        """The function or kernel whose code holds ``address``."""
        starts = [(value, name) for name, value in self.symbols.items() if value <= address]
        return max(starts)[1] if starts else "?"


def load(data: bytes) -> CodeObject:
    """Reads a code object of gfx942, gfx950 or gfx1100; raises OctaveError for anything else, saying what it is."""
    from elftools.common.exceptions import ELFError

    try:
        return _load(data)
    except (ELFError, struct.error, KeyError, ValueError, AttributeError, IndexError, TypeError) as error:
        raise OctaveError(
            f"the code object is damaged or no ELF file: {error or type(error).__name__}", where="load", hint=_REBUILD
        ) from error


def _load(data: bytes) -> CodeObject:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(data))
    machine, os_abi = elf.header["e_machine"], data[7]
    if machine not in ("EM_AMDGPU", _EM_AMDGPU) or os_abi != _OS_HSA:
        raise wrong_request(f"this ELF file is for {machine}, no AMD GPU code object", where="load", hint=_REBUILD)
    if data[8] not in _ABI_VERSIONS:
        raise wrong_request(
            f"code object ABI version {data[8]} is not read", where="load", hint="compile with -mcode-object-version=5"
        )
    note = _note(elf)
    target = _TARGET.search(note["amdhsa.target"])
    chip = chips.get(chips.parse_target_id(target[0]).arch if target else note["amdhsa.target"])
    image = _image(elf, data)
    table: Any = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    symbols = {symbol.name: int(symbol["st_value"]) for symbol in table.iter_symbols() if symbol.name}
    kernels = {
        entry[".name"]: _descriptor(image, symbols[entry[".symbol"]], entry, chip) for entry in note["amdhsa.kernels"]
    }
    if not kernels:
        raise wrong_request("the code object holds no kernel", where="load", hint=_REBUILD)
    if len({kernel.wave_size for kernel in kernels.values()}) > 1:
        raise wrong_request("its kernels have different wave sizes", where="load", hint="one wave size to a file")
    text: Any = elf.get_section_by_name(".text")
    functions = {n: v for n, v in symbols.items() if text["sh_addr"] <= v < text["sh_addr"] + text["sh_size"]}
    return CodeObject(
        elf=data,
        arch=chip.name,
        version=_ABI_VERSIONS[data[8]],
        image=image,
        text=(text["sh_addr"], text["sh_size"]),
        kernels=kernels,
        symbols=functions,
        relocations=_relocations(elf),
        writable_image=any(section.name in (".data", ".bss") for section in elf.iter_sections()),
    )


def _note(elf: Any) -> dict[str, Any]:
    import msgpack

    for segment in elf.iter_segments():
        if segment["p_type"] != "PT_NOTE":
            continue
        for note in segment.iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] in (_METADATA_NOTE, "NT_AMDGPU_METADATA"):
                contents = note["n_descdata"] if "n_descdata" in note else note["n_desc"]
                raw = contents if isinstance(contents, bytes) else contents.encode("latin-1")
                unpacked: dict[str, Any] = msgpack.unpackb(raw, strict_map_key=False)
                return unpacked
    raise ValueError("it has no AMD metadata note")


def _image(elf: Any, data: bytes) -> bytes:
    loads = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
    size = max((segment["p_vaddr"] + segment["p_memsz"] for segment in loads), default=0)
    if not 0 < size <= _LARGEST_IMAGE:
        raise ValueError(f"its segments take {size} bytes")
    image = bytearray(size)
    for segment in loads:
        if segment["p_offset"] + segment["p_filesz"] > len(data):
            raise ValueError("it is shorter than its segments")
        image[segment["p_vaddr"] : segment["p_vaddr"] + segment["p_filesz"]] = segment.data()
    return bytes(image)


def _relocations(elf: Any) -> tuple[tuple[int, int], ...]:
    """(address, addend) of the words that hold an address of the image."""
    found = []
    for section in elf.iter_sections():
        if section["sh_type"] not in ("SHT_RELA", "SHT_REL"):
            continue
        for relocation in section.iter_relocations():
            if relocation["r_info_type"] != _RELATIVE64 or section["sh_type"] != "SHT_RELA":
                raise wrong_request(
                    f"relocation type {relocation['r_info_type']} is not executed",
                    where="load",
                    hint="link the code object with no undefined symbols",
                )
            found.append((int(relocation["r_offset"]), int(relocation["r_addend"])))
    return tuple(found)


_USER_SGPRS = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
"""Name and SGPRs of what the bits of ``kernel_code_properties`` ask for, in order."""


def user_sgpr_size(name: str) -> int:
    """SGPRs that the user data ``name`` takes."""
    return dict(_USER_SGPRS)[name]


def _descriptor(image: bytes, at: int, entry: dict[str, Any], chip: chips.Arch) -> KernelDescriptor:
    lds, scratch, kernarg, _, offset = struct.unpack_from("<IIIIq", image, at)
    rsrc3, rsrc1, rsrc2, properties = struct.unpack_from("<IIIH", image, at + 44)
    wave_size = 64 if chip.gfx9 or not properties >> 10 & 1 else 32
    granule = 8 if chip.gfx9 or wave_size == 32 else 4
    total = ((rsrc1 & 0x3F) + 1) * granule
    vgprs = min(total, ((rsrc3 & 0x3F) + 1) * 4) if chip.gfx9 else total
    arguments = tuple(
        KernelArgument(row.get(".name", ""), row[".offset"], row[".size"], row[".value_kind"])
        for row in entry.get(".args", [])
    )
    required = entry.get(".reqd_workgroup_size")
    return KernelDescriptor(
        symbol=entry[".name"],
        entry=at + offset,
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        wave_size=wave_size,
        vgprs=vgprs,
        agprs=total - vgprs,
        sgprs=int(entry[".sgpr_count"]),
        arguments=arguments,
        max_threads=int(entry[".max_flat_workgroup_size"]),
        required_threads=required[0] * required[1] * required[2] if required else None,
        user_sgprs=tuple(label for bit, (label, _) in enumerate(_USER_SGPRS) if properties >> bit & 1),
        user_sgpr_count=rsrc2 >> 1 & 0x1F,
        dynamic_stack=bool(properties >> 11 & 1),
        workgroup_ids=(bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
        float_mode=rsrc1 >> 12 & 0xFF,
    )
