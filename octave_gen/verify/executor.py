"""Runs one launch of a code object on the CPU, on the tensors themselves: what is not part of a tensor cannot be read.

The kernarg segment of a launch holds the tensors' own addresses; the interpreter's memory maps exactly those bytes.
Two tensors may share a storage as long as both are read or both are written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt
from torch import Tensor

from octave_gen import isa
from octave_gen.errors import OctaveError
from octave_gen.kernels.base import POINTER_KIND, Argument
from octave_gen.runtime.launch import Launch

NEAR_BYTES = 1 << 20
"""Parts of a tensor that lie farther apart than this are mapped one by one, so that the hole between costs nothing."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Interpreter:
    """The functional interpreter as executor."""

    options: isa.Options = field(default_factory=isa.Options)

    def run(
        self, code_object: isa.CodeObject, launch: Launch, tensors: Mapping[str, Tensor], outputs: Collection[str]
    ) -> isa.Counters:
        """Executes ``launch``, whose arguments point into ``tensors``; those named in ``outputs`` may be written.

        Nothing is copied: the kernel changes the tensors. An access to any other byte, holes of a strided tensor
        included, is a fault (OctaveError). ``written`` tells the outputs of a kernel from its arguments.
        """
        memory = isa.Memory()
        for region in regions(tensors, outputs):
            memory.add(region.name, region.bytes, address=region.address, writable=region.writable, valid=region.valid)
        return isa.execute(
            code_object,
            launch.symbol,
            grid=launch.grid,
            threads=launch.threads,
            kernargs=launch.kernargs,
            memory=memory,
            options=self.options,
        )


def written(arguments: Sequence[Argument]) -> frozenset[str]:
    """Names of the pointer arguments through which a kernel writes."""
    return frozenset(
        argument.name
        for argument in arguments
        if argument.type.value_kind == POINTER_KIND and not argument.type.c_type.startswith("const ")
    )


@dataclass(frozen=True)
class Region:
    """Bytes of one tensor, or of several that interleave. ``valid``: which of them are theirs; None: all."""

    name: str
    address: int
    size: int
    writable: bool
    valid: Mask | None

    @property
    def end(self) -> int:
        return self.address + self.size

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """The memory itself; valid as long as the tensor lives."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))


def regions(tensors: Mapping[str, Tensor], outputs: Collection[str]) -> list[Region]:
    """What of the address space belongs to ``tensors``, sorted by address, without overlap.

    Raises OctaveError where an input and an output interleave, and for an output that is no tensor of these.
    """
    unknown = sorted(set(outputs) - set(tensors))
    if unknown:
        raise OctaveError(f"no tensor is given for {', '.join(unknown)}", where="regions")
    parts = [part for name, tensor in tensors.items() for part in _parts(name, tensor, name in outputs)]
    joined: list[Region] = []
    for part in sorted(parts, key=lambda region: region.address):
        if joined and part.address < joined[-1].end:
            joined[-1] = _join(joined[-1], part)
        else:
            joined.append(part)
    return joined


def _parts(name: str, tensor: Tensor, writable: bool) -> Iterator[Region]:
    if tensor.numel() == 0:
        return
    item = tensor.element_size()
    dims = [(stride * item, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
    dims = sorted(dim for dim in dims if dim[0] > 0)
    span, near = item, 0
    while near < len(dims) and dims[near][0] - span <= NEAR_BYTES:
        stride, size = dims[near]
        span += stride * (size - 1)
        near += 1
    valid = _mask(dims[:near], item, span)
    for steps in product(*(range(size) for _, size in dims[near:])):
        offset = sum(step * stride for step, (stride, _) in zip(steps, dims[near:], strict=True))
        label = f"{name} + {offset:#x}" if offset else name
        yield Region(label, tensor.data_ptr() + offset, span, writable, valid)


def _mask(dims: Sequence[tuple[int, int]], item: int, span: int) -> Mask | None:
    """Which of ``span`` bytes hold elements of ``item`` bytes at the given (stride, size) dims; None when all do."""
    mask = np.zeros(span, dtype=np.bool_)
    shape, strides = [size for _, size in dims] + [item], [stride for stride, _ in dims] + [1]
    np.lib.stride_tricks.as_strided(mask, shape, strides)[...] = True
    return None if mask.all() else mask


def _join(first: Region, second: Region) -> Region:
    if first.writable != second.writable:
        raise OctaveError(
            f"{first.name} and {second.name} share memory, and only one of them is an output",
            where="regions",
            hint="give each a storage of its own",
        )
    size = max(first.end, second.end) - first.address
    valid = np.zeros(size, dtype=np.bool_)
    for region in (first, second):
        start = region.address - first.address
        valid[start : start + region.size] |= True if region.valid is None else region.valid
    return Region(
        f"{first.name}, {second.name}",
        first.address,
        size,
        first.writable,
        None if valid.all() else valid,
    )
