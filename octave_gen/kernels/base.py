"""What a kernel kind is: its op, what its variants depend on, its tiers, their arguments and launch geometry."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from octave_gen.arch import Arch
from octave_gen.errors import OctaveError

Language = Literal["hip", "flydsl"]
HIP: Final = "hip"
FLYDSL: Final = "flydsl"


@dataclass(frozen=True)
class QueryDtype:
    """A dtype of queries, keys and values: what a spec, variant names, C++ and torch call it."""

    spec: str
    name: str
    cpp: str
    torch: str


QUERY_DTYPES = (QueryDtype("fp16", "f16", "_Float16", "float16"), QueryDtype("bf16", "bf16", "__bf16", "bfloat16"))
SCALARS: dict[str, str] = {dtype.spec: dtype.name for dtype in QUERY_DTYPES}
"""Query dtypes as a spec names them, and as variant names carry them."""

MAX_GRID_YZ = 65535
"""Workgroups of a grid in its second and third dimension."""
WIDE = "_wide"
"""What the symbol of a variant's second kernel has behind that of the first."""
MAX_GROUP = 16
"""The largest gqa_group and query_group of any kernel."""


@dataclass(frozen=True)
class Shape:
    """What one variant is specialised on; a field is None where the kind does not depend on it."""

    family: str
    head_size: int
    scalar: str
    cache_dtype: str | None = None
    rotary_dims: int | None = None
    gqa_group: int | None = None
    query_group: int | None = None
    encoder: str | None = None


@dataclass(frozen=True)
class ArgumentType:
    """A kernel argument's type: C spelling, size in bytes, the code object notes' word for it, struct format."""

    c_type: str
    size: int
    value_kind: str
    pack: str


POINTER_KIND = "global_buffer"
I32 = ArgumentType("int32_t", 4, "by_value", "i")
I64 = ArgumentType("int64_t", 8, "by_value", "q")
F32 = ArgumentType("float", 4, "by_value", "f")


def pointer(c_type: str) -> ArgumentType:
    """A pointer into global memory, such as ``pointer("const uint8_t*")``."""
    return ArgumentType(c_type, 8, POINTER_KIND, "Q")


@dataclass(frozen=True)
class Argument:
    """One kernel argument; ``c_type`` may name ``Scalar``, the variant's query dtype."""

    name: str
    type: ArgumentType


@dataclass(frozen=True)
class KernargEntry:
    """Where an argument lies in the kernarg segment, in bytes."""

    name: str
    offset: int
    size: int
    value_kind: str


def kernarg_table(arguments: tuple[Argument, ...]) -> tuple[KernargEntry, ...]:
    """The kernarg segment that the HIP calling convention gives ``arguments``: in order, each aligned to its size."""
    table, offset = [], 0
    for argument in arguments:
        offset = -(-offset // argument.type.size) * argument.type.size
        table.append(KernargEntry(argument.name, offset, argument.type.size, argument.type.value_kind))
        offset += argument.type.size
    return tuple(table)


def pack_arguments(arguments: tuple[Argument, ...], values: Mapping[str, int | float]) -> bytes:
    """The kernarg segment for ``values`` (pointers as addresses); raises OctaveError for a missing or unknown name."""
    names = {argument.name for argument in arguments}
    if names != set(values):
        wrong = ", ".join(sorted(names ^ set(values)))
        raise OctaveError(f"kernel arguments do not match: {wrong}", where="pack_arguments")
    buffer = bytearray()
    for argument in arguments:
        buffer += bytes(-len(buffer) % argument.type.size)
        value = values[argument.name]
        try:
            buffer += struct.pack("<" + argument.type.pack, value)
        except (struct.error, OverflowError) as error:
            raise OctaveError(f"{value} does not fit in {argument.type.c_type}", where=argument.name) from error
    return bytes(buffer)


@dataclass(frozen=True)
class Extent:
    """One grid dimension: ``ceil(count / per_workgroup)`` workgroups, where ``count`` names a run-time count."""

    count: str
    per_workgroup: int = 1


@dataclass(frozen=True)
class Wide:
    """A variant's second kernel, for launches of at most ``workgroups`` workgroups, which have ``threads`` each."""

    threads: int
    workgroups: int

    def serves(self, workgroups: int) -> bool:
        """Whether a launch of so many takes it."""
        return workgroups <= self.workgroups


@dataclass(frozen=True)
class Geometry:
    """Launch geometry: threads of a workgroup (x only) and the grid as formulas of run-time counts.

    wide: the second kernel that launches of few workgroups take; None: one kernel serves all.
    """

    threads: int
    grid: tuple[Extent, ...]
    wide: Wide | None = None

    @property
    def kernels(self) -> dict[str, Geometry]:
        """The kernels of a variant, each with a geometry of its own, by what its symbol has behind the variant's."""
        dense = replace(self, wide=None)
        return {"": dense} if self.wide is None else {"": dense, WIDE: replace(dense, threads=self.wide.threads)}

    def kernel_for(self, workgroups: int) -> str:
        """Which of ``kernels`` a launch of so many workgroups takes."""
        return WIDE if self.wide is not None and self.wide.serves(workgroups) else ""

    def workgroups(self, counts: Mapping[str, int]) -> tuple[int, int, int]:
        """The grid for the given counts; dimensions that are not named are 1."""
        sizes = [-(-counts[extent.count] // extent.per_workgroup) for extent in self.grid]
        x, y, z = [*sizes, 1, 1, 1][:3]
        return x, y, z


@dataclass(frozen=True)
class Accuracy:
    """What a tier computes, and how near it must come; for kinds whose results are not the reference's bit for bit.

    query_mode: the form of the query (``octave_gen.reference.query``) that the tier's results are compared with.
    exact_bound: for N(0, 1) queries and keys the largest difference from the result for the exact query, as a share of
    the output row's largest value.
    rounding: what fp32 arithmetic in another order may add to that, in halves of a unit in the last place of an fp32
    number of the size of the largest value.
    score_rounding: the same for a score (log2 units) by its own size, which is |score| for decode and |q| |k| for
    prefill; the exponential makes it a relative error.
    """

    query_mode: Literal["exact", "int8", "int16", "fp16"] = "exact"
    exact_bound: float = 1e-3
    rounding: float = 8.0
    score_rounding: float = 1.0


@dataclass(frozen=True)
class Tier:
    """One implementation of a kind: its source, arguments, geometry, constants, limits.

    template: of a HIP tier a file of ``templates/hip/``; of a FlyDSL one the kernel module, relative to
    ``octave_gen/kernels/``.
    refuse: the reason why a shape cannot be held on a chip, or None.
    constants: what the source gets beside the format's constants.
    block_size_multiple: tokens; the tier reads caches whose block size is a multiple of it.
    mnemonics: instructions that every kernel of the tier holds, as the disassembler spells them; each is a tuple of
    spellings of which one will do.
    """

    name: str
    template: str
    arguments: tuple[Argument, ...]
    geometry: Callable[[Shape, Arch], Geometry]
    constants: Callable[[Shape, Arch], dict[str, int]]
    refuse: Callable[[Shape, Arch], str | None]
    accuracy: Accuracy = Accuracy()
    block_size_multiple: int = 1
    language: Language = HIP
    mnemonics: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class KernelKind:
    """A kind of kernel. ``fields``: the fields of :class:`Shape`, besides family, head_size and scalar, that its
    variants depend on; ``op``: the operator that launches it; ``purpose``: one line for listings."""

    name: str
    op: str
    purpose: str
    fields: tuple[str, ...]
    tiers: tuple[Tier, ...]

    def tier(self, name: str) -> Tier:
        """The tier ``name``; raises OctaveError naming the ones that exist."""
        for tier in self.tiers:
            if tier.name == name:
                return tier
        raise OctaveError(
            f"kernel kind {self.name} has no tier {name!r}", hint=f"it has {', '.join(t.name for t in self.tiers)}"
        )

    def tiers_on(self, arch: Arch) -> tuple[Tier, ...]:
        """The tiers that the chip offers, in the order of the kind."""
        return tuple(tier for tier in self.tiers if tier.name in arch.tiers)


def power_of_two_head(shape: Shape) -> str | None:
    """The refusal of tiers that hold a whole head in a wave's registers and rotate it with one transform."""
    return head_size_in((64, 128, 256, 512), "portable", shape)


def head_size_in(sizes: Collection[int], tier: str, shape: Shape) -> str | None:
    """The refusal of a tier that holds the head sizes ``sizes``, in rising order, and no others."""
    if shape.head_size in sizes:
        return None
    *most, last = map(str, sizes)
    return f"the {tier} tier holds head_size {', '.join(most)} and {last}, not {shape.head_size}"


WAVES_PER_WORKGROUP = 4
"""Of the kernels that give each row to one wave."""


def portable_tier(
    template: str, arguments: tuple[Argument, ...], *grid: Extent, waves: int = WAVES_PER_WORKGROUP
) -> Tier:
    """The portable tier of a kind whose waves hold a row (slot, vector, output row) each."""
    return Tier(
        "portable",
        template,
        arguments,
        geometry=lambda shape, arch: Geometry(waves * arch.wave_size, grid),
        constants=lambda shape, arch: {"waves": waves},
        refuse=lambda shape, arch: power_of_two_head(shape),
    )
