"""What a code object's notes say of its kernels, and the gate that holds it against arch, arguments and budget."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from octave_gen.arch import Arch
from octave_gen.build import instructions, toolchain
from octave_gen.build.flydsl import tool
from octave_gen.errors import OctaveError
from octave_gen.kernels.base import FLYDSL, HIP, kernarg_table
from octave_gen.plan import Unit, Variant

_MACHINE_MASK = 0xFF
_FEATURES = {"xnack": (0x300, (0x000, 0x100)), "sramecc": (0xC00, (0x000, 0x400))}
"""Mask of a feature in the ELF flags, and the values that run on a device with any setting: unsupported, any."""
_ABI_OF_VERSION_4 = 2
_VERSIONS = {HIP: toolchain.CODE_OBJECT_VERSION, FLYDSL: tool.CODE_OBJECT_VERSION}
_TRIPLES = {HIP: "amdgcn-amd-amdhsa-", FLYDSL: "amdgcn-amd-amdhsa-unknown"}
"""By language: the code object's version, and what its notes call the system."""
_METADATA_OWNER = "AMDGPU"


@dataclass(frozen=True)
class Resources:
    """What one kernel takes: registers per lane, bytes, and the waves per SIMD that this leaves room for."""

    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int
    kernarg_bytes: int
    occupancy: int


@dataclass(frozen=True)
class CodeObject:
    """The parts of a code object that the gate looks at. ``kernels``: the metadata of each kernel by symbol."""

    flags: int
    abi: int
    target: str
    symbols: frozenset[str]
    kernels: dict[str, dict[str, Any]]


def read(data: bytes, where: str) -> CodeObject:
    """Reads a code object; raises OctaveError when it is damaged or is no code object."""
    import msgpack
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import NoteSection, SymbolTableSection

    try:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] != "EM_AMDGPU":
            raise ValueError(f"it is for the machine {elf['e_machine']}")
        table = elf.get_section_by_name(".dynsym")
        sections = [section for section in elf.iter_sections() if isinstance(section, NoteSection)]
        notes = [note for section in sections for note in section.iter_notes()]
        found = [note["n_descdata"] for note in notes if note["n_name"] == _METADATA_OWNER]
        if len(found) != 1 or not isinstance(table, SymbolTableSection):
            raise ValueError("it has no AMDGPU metadata")
        metadata = msgpack.unpackb(found[0])
        return CodeObject(
            flags=elf["e_flags"],
            abi=elf["e_ident"]["EI_ABIVERSION"],
            target=metadata["amdhsa.target"],
            symbols=frozenset(symbol.name for symbol in table.iter_symbols()),
            kernels={kernel[".name"]: kernel for kernel in metadata["amdhsa.kernels"]},
        )
    except (ELFError, ValueError, KeyError, TypeError, msgpack.UnpackException) as error:
        raise OctaveError(f"the code object cannot be read: {error}", where=where) from error


def resources(kernel: dict[str, Any], arch: Arch, threads: int) -> Resources:
    """The resources of one kernel, from its metadata; raises KeyError for a figure that is not there."""
    vgprs, lds_bytes = kernel[".vgpr_count"], kernel[".group_segment_fixed_size"]
    return Resources(
        vgprs=vgprs,
        agprs=kernel[".agpr_count"] if arch.unified_registers else 0,
        sgprs=kernel[".sgpr_count"],
        lds_bytes=lds_bytes,
        vgpr_spills=kernel[".vgpr_spill_count"],
        sgpr_spills=kernel[".sgpr_spill_count"],
        scratch_bytes=kernel[".private_segment_fixed_size"],
        kernarg_bytes=kernel[".kernarg_segment_size"],
        occupancy=arch.occupancy(vgprs, lds_bytes, threads),
    )


@dataclass(frozen=True)
class Verdict:
    """What the gate found of a unit. ``problems``: one line each, empty when it may pass."""

    resources: dict[str, Resources]
    problems: tuple[str, ...]


def gate(unit: Unit, data: bytes) -> Verdict:
    """Holds a unit's code object against its arch and each variant's arguments, geometry and budget.

    What cannot be evaluated is a problem, like what is over the budget. Of what flydsl compiled the instructions are
    looked at, too.
    """
    try:
        code = read(data, unit.name)
    except OctaveError as error:
        return Verdict({}, (str(error),))
    found: dict[str, Resources] = {}
    problems = [f"{unit.name}: {problem}" for problem in _of_code_object(code, unit)]
    bodies = None
    if unit.language == FLYDSL and not problems:
        try:
            bodies = instructions.of_kernels(data, unit.name)
        except OctaveError as error:
            problems.append(str(error))
    for variant in unit.variants:
        lines = list(_of_variant(code, variant, found))
        lines += instructions.problems(variant, bodies.get(variant.name, ())) if bodies is not None else ()
        problems += [f"{variant.name}: {line} ({', '.join(variant.specs)})" for line in lines]
    return Verdict(found, tuple(problems))


def _of_code_object(code: CodeObject, unit: Unit) -> Iterator[str]:
    arch = unit.first.arch
    if code.flags & _MACHINE_MASK != arch.elf_machine or code.target != f"{_TRIPLES[unit.language]}-{arch.name}":
        yield f"the code object is for {code.target} (ELF flags {code.flags:#x}), not for {arch.name}"
    for feature, (mask, any_setting) in _FEATURES.items():
        if code.flags & mask not in any_setting:
            yield f"the code object is bound to one setting of {feature} (ELF flags {code.flags:#x})"
    version = code.abi - _ABI_OF_VERSION_4 + 4
    if version != _VERSIONS[unit.language]:
        yield f"the code object has version {version}, not {_VERSIONS[unit.language]}"
    for symbol in sorted(set(code.kernels) - {variant.name for variant in unit.variants}):
        yield f"the code object holds a kernel that is not planned: {symbol}"


def _of_variant(code: CodeObject, variant: Variant, found: dict[str, Resources]) -> Iterator[str]:
    kernel = code.kernels.get(variant.name)
    if kernel is None or not {variant.name, f"{variant.name}.kd"} <= code.symbols:
        yield "the code object has no such symbol"
        return
    try:
        taken = resources(kernel, variant.arch, variant.geometry.threads)
        yield from _of_launch(kernel, variant)
    except KeyError as error:
        yield f"cannot be evaluated: the notes have no {error.args[0]}"
        return
    found[variant.name] = taken
    limit = variant.arch.max_workgroup_lds
    if taken.lds_bytes > limit:
        yield f"lds_bytes is {taken.lds_bytes}, more than the {limit} that a workgroup of {variant.arch.name} can have"
    budget = variant.budget
    for name in ("vgprs", "agprs", "sgprs", "lds_bytes", "vgpr_spills", "sgpr_spills", "scratch_bytes"):
        if getattr(taken, name) > getattr(budget, name):
            yield f"{name} is {getattr(taken, name)}, at most {getattr(budget, name)} allowed"
    if taken.occupancy < budget.occupancy:
        yield f"occupancy is {taken.occupancy}, at least {budget.occupancy} wanted"


def _of_launch(kernel: dict[str, Any], variant: Variant) -> Iterator[str]:
    threads, wave_size = variant.geometry.threads, variant.arch.wave_size
    if kernel[".wavefront_size"] != wave_size:
        yield f"it is compiled for waves of {kernel['.wavefront_size']}, not {wave_size}"
    if kernel[".max_flat_workgroup_size"] < threads:
        yield f"it holds {kernel['.max_flat_workgroup_size']} threads, but is launched with {threads}"
    if kernel[".uses_dynamic_stack"]:
        yield "it uses a dynamic stack, so its scratch is not known"
    wanted = [(entry.offset, entry.size, entry.value_kind) for entry in kernarg_table(variant.tier.arguments)]
    passed = [entry for entry in kernel[".args"] if not entry[".value_kind"].startswith("hidden_")]
    got = [(entry[".offset"], entry[".size"], entry[".value_kind"]) for entry in passed]
    if got != wanted:
        at = next(i for i in range(max(len(got), len(wanted))) if got[i : i + 1] != wanted[i : i + 1])
        yield (
            f"its arguments differ from the plan's at number {at}: compiled {_shown(got, at)}, planned "
            f"{_shown(wanted, at)}"
        )


def _shown(table: list[tuple[int, int, str]], at: int) -> str:
    if at >= len(table):
        return "no more"
    offset, size, value_kind = table[at]
    return f"{value_kind} of {size} bytes at offset {offset}"
