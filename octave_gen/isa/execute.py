"""A launch: arguments, kernarg segment, initial registers, chunks of workgroups."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.errors import OctaveError, wrong_request
from octave_gen.isa.counters import Counters, Tally
from octave_gen.isa.decode import EXEC
from octave_gen.isa.elf import user_sgpr_size
from octave_gen.isa.launch import Chunk, Options, Runner
from octave_gen.isa.lds import LocalMemory
from octave_gen.isa.memory import AddressSpace, Memory
from octave_gen.isa.program import program_of, require_covered
from octave_gen.isa.registers import SCALAR_REGISTERS, Batch

if TYPE_CHECKING:
    from octave_gen.isa.elf import CodeObject, KernelDescriptor
    from octave_gen.isa.memory import Region

_DEFAULT_FLOAT_MODE = 0xF0
"""Round to nearest even, denormals kept, for all widths: what clang sets unless told otherwise."""
_PADDING = 64
"""Bytes behind the kernarg segment that exist: clang reads past its declared end."""


def execute(
    code_object: CodeObject,
    symbol: str,
    *,
    grid: tuple[int, int, int],
    threads: int,
    kernargs: bytes,
    memory: Memory,
    options: Options | None = None,
) -> Counters:
    """Runs one launch to its end and returns what it counted.

    grid: workgroups; threads: of a workgroup, in x; kernargs: the explicit arguments, packed as the kernel's table says
    (hidden ones are filled in here). Raises OctaveError for a launch that cannot be, for instructions without
    semantics (before anything runs), and at the first fault.
    """
    kernel = code_object.kernel(symbol)
    chosen = options or Options()
    _check(kernel, grid, threads, kernargs)
    require_covered(code_object)
    program = program_of(code_object)
    junk = np.random.default_rng(chosen.seed)
    scene = _Scene(code_object, kernel, grid, threads, kernargs, memory, junk)
    tally = Tally()
    runner = Runner(code_object, program, symbol, chosen)
    waves = -(-threads // kernel.wave_size)
    total = grid[0] * grid[1] * grid[2]
    per_chunk = max(1, chosen.lanes_per_chunk // (waves * kernel.wave_size))
    for first in range(0, total, per_chunk):
        count = min(per_chunk, total - first)
        local = LocalMemory(kernel.lds_bytes, count, waves, junk, chosen.check_races)
        chunk = Chunk(scene.space, local, tally, chosen, scene.code, first)
        runner.run(_start(kernel, chunk, count, waves, grid, threads, scene, junk))
    return tally.counters(runner.executed())


def _check(kernel: KernelDescriptor, grid: tuple[int, int, int], threads: int, kernargs: bytes) -> None:
    if min(grid) < 0 or len(grid) != 3:
        raise wrong_request(f"{grid} is no grid", where=kernel.symbol)
    if not 0 < threads <= kernel.max_threads:
        raise wrong_request(
            f"a workgroup of {threads} threads",
            where=kernel.symbol,
            hint=f"it was compiled for 1 to {kernel.max_threads}",
        )
    if kernel.required_threads not in (None, threads):
        raise wrong_request(
            f"a workgroup of {threads} threads", where=kernel.symbol, hint=f"it takes {kernel.required_threads}"
        )
    if not kernel.explicit_bytes <= len(kernargs) <= max(kernel.kernarg_bytes, kernel.explicit_bytes):
        rows = ", ".join(f"{a.name or a.value_kind} at {a.offset} ({a.size})" for a in kernel.arguments if not a.hidden)
        raise wrong_request(
            f"{len(kernargs)} bytes of arguments, the kernel takes {kernel.explicit_bytes}",
            where=kernel.symbol,
            hint=f"its arguments: {rows or 'none'}",
        )
    if kernel.float_mode != _DEFAULT_FLOAT_MODE:
        raise OctaveError(
            f"the kernel asks for float mode {kernel.float_mode:#x}",
            where=kernel.symbol,
            hint="only round to nearest even with denormals is executed; compile without -fgpu-flush-denormals-to-zero",
        )


class _Scene:
    """What is mapped for one launch beside the caller's memory, and the addresses that go into registers."""

    def __init__(
        self,
        code_object: CodeObject,
        kernel: KernelDescriptor,
        grid: tuple[int, int, int],
        threads: int,
        kernargs: bytes,
        memory: Memory,
        junk: np.random.Generator,
    ) -> None:
        own = Memory()
        own.adopt(memory)
        image = np.frombuffer(bytearray(code_object.image), np.uint8)
        self.code = own.add("the code object", image, writable=code_object.writable_image)
        for address, addend in code_object.relocations:
            image[address : address + 8] = np.frombuffer(struct.pack("<Q", self.code + addend), np.uint8)
        size = max(kernel.kernarg_bytes, len(kernargs)) + _PADDING
        segment = junk.integers(0, 256, size, np.uint8)
        filled = _hidden(kernel, grid, threads)
        segment[: kernel.kernarg_bytes] = 0
        segment[: len(kernargs)] = np.frombuffer(kernargs, np.uint8)
        for offset, value in filled.items():
            segment[offset : offset + len(value)] = np.frombuffer(value, np.uint8)
        packet = np.frombuffer(_packet(grid, threads), np.uint8)
        self.values = {
            "kernarg_segment_ptr": own.add("the kernel arguments", segment, writable=False),
            "dispatch_ptr": own.add("the dispatch packet", packet, writable=False),
            "private_segment_size": kernel.stack_bytes,
        }
        self.regions: tuple[Region, ...] = own.regions
        self.space = AddressSpace(own.regions)


def _hidden(kernel: KernelDescriptor, grid: tuple[int, int, int], threads: int) -> dict[int, bytes]:
    """Offset and bytes of the hidden arguments; those that need a runtime (heap, printf) stay 0."""
    blocks = (threads, 1, 1)
    dimensions = max((axis + 1 for axis in range(3) if grid[axis] > 1), default=1)
    values: dict[str, int] = {"hidden_grid_dims": dimensions, "hidden_dynamic_lds_size": 0}
    for axis, letter in enumerate("xyz"):
        values[f"hidden_block_count_{letter}"] = grid[axis]
        values[f"hidden_group_size_{letter}"] = blocks[axis]
        values[f"hidden_remainder_{letter}"] = 0
        values[f"hidden_global_offset_{letter}"] = 0
    values["hidden_private_base"], values["hidden_shared_base"] = 0x10000, 0x20000
    return {
        argument.offset: values.get(argument.value_kind, 0).to_bytes(argument.size, "little")
        for argument in kernel.arguments
        if argument.hidden
    }


def _packet(grid: tuple[int, int, int], threads: int) -> bytes:
    """The AQL dispatch packet: workgroup size, then grid size in threads."""
    sizes = struct.pack("<HHHHHH", 0, 0, threads, 1, 1, 0)
    return (sizes + struct.pack("<III", grid[0] * threads, grid[1], grid[2])).ljust(64, b"\0")


def _start(
    kernel: KernelDescriptor,
    chunk: Chunk,
    workgroups: int,
    waves: int,
    grid: tuple[int, int, int],
    threads: int,
    scene: _Scene,
    junk: np.random.Generator,
) -> Batch:
    """All waves of a chunk at the kernel's entry, with junk in every register that the launch does not set."""
    count, lanes = workgroups * waves, kernel.wave_size
    workgroup = np.repeat(np.arange(workgroups), waves)
    wave = np.tile(np.arange(waves), workgroups)
    scalar = np.broadcast_to(_random(junk, (SCALAR_REGISTERS, 1)), (SCALAR_REGISTERS, count)).copy()
    vector = np.broadcast_to(_random(junk, (kernel.vgprs, 1, lanes)), (kernel.vgprs, count, lanes)).copy()
    accumulators = np.broadcast_to(_random(junk, (kernel.agprs, 1, lanes)), (kernel.agprs, count, lanes)).copy()
    scratch = junk.integers(0, 256, (count, lanes, kernel.stack_bytes), np.uint8)
    thread = wave[:, None] * lanes + np.arange(lanes)
    vector[0] = thread
    active = np.packbits(thread < threads, axis=1, bitorder="little").view(np.uint32)
    scalar[EXEC : EXEC + 2] = 0
    scalar[EXEC : EXEC + active.shape[1]] = active.T
    _fill_scalars(scalar, kernel, chunk.first + workgroup, grid, scene)
    scc = np.zeros(count, np.bool_)
    return Batch(chunk, kernel.entry, vector, accumulators, scalar, scc, wave, workgroup, scratch, 0)


def _random(junk: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    return junk.integers(0, 1 << 32, shape, np.uint32)


def _fill_scalars(
    scalar: NDArray[np.uint32],
    kernel: KernelDescriptor,
    workgroup: NDArray[np.int64],
    grid: tuple[int, int, int],
    scene: _Scene,
) -> None:
    """User data in the order of the descriptor's bits, then the workgroup's coordinates."""
    at = 0
    for name in kernel.user_sgprs:
        size = user_sgpr_size(name)
        value = scene.values.get(name)
        if value is not None:
            for word in range(size):
                scalar[at + word] = value >> 32 * word & 0xFFFFFFFF
        at += size
    at = kernel.user_sgpr_count
    coordinates = (workgroup % grid[0], workgroup // grid[0] % grid[1], workgroup // (grid[0] * grid[1]))
    for wanted, coordinate in zip(kernel.workgroup_ids, coordinates, strict=True):
        if wanted:
            scalar[at] = coordinate
            at += 1
