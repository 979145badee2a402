"""Atomic read-modify-write: ``global_atomic_*``, ``flat_atomic_*``, ``buffer_atomic_*`` and ``ds_*``.

Lanes take their turn in order of wave and lane; hardware promises no order. Float minimum and maximum return the number
when the other operand is NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import Instruction, Operand
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.operands import PRIVATE_APERTURE, SHARED_APERTURE, Chip, Step, UnknownError
from octave_gen.isa.transfers import Format, chosen, loaded, stored
from octave_gen.isa.types import Array
from octave_gen.isa.vector_memory import address_reader, check_hints

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

Update = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Atomic:
    """One operation on elements of ``dtype``: ``update(old, operand)``; ``compare``: the operand is (new, expected).

    ``packed``: two 16-bit floats of one word.
    """

    dtype: str
    update: Update
    compare: bool = False
    packed: bool = False

    @property
    def size(self) -> int:
        return 4 if self.packed else int(np.dtype(self.dtype).itemsize)


def _wrap_increment(old: Array, limit: Array) -> Array:
    wrapped: Array = np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))
    return wrapped


def _wrap_decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _replace(old: Array, new: Array) -> Array:
    return new


_INTEGER: dict[str, Update] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": _wrap_increment,
    "dec": _wrap_decrement,
}
_FLOAT: dict[str, Update] = {"add": np.add, "min": np.fmin, "max": np.fmax}
_GFX9_NAMES = {
    "add": ("add", "u"),
    "sub": ("sub", "u"),
    "smin": ("min", "i"),
    "umin": ("min", "u"),
    "smax": ("max", "i"),
    "umax": ("max", "u"),
    "and": ("and", "u"),
    "or": ("or", "u"),
    "xor": ("xor", "u"),
    "inc": ("inc", "u"),
    "dec": ("dec", "u"),
}
_EXCHANGES = ("swap", "wrxchg", "storexchg")
_COMPARES = ("cmpswap", "cmpst", "cmpstore")


def _table() -> dict[str, Atomic]:
    """By the mnemonic without ``global_atomic_`` or ``ds_`` and without ``_rtn``, in gfx9's and gfx11's spelling."""
    table: dict[str, Atomic] = {}
    for bits, wide in ((32, ""), (64, "_x2")):
        size = bits // 8
        for name, update in _INTEGER.items():
            for kind in "uib":
                letter = "i" if kind == "i" else "u"
                table[f"{name}_{kind}{bits}"] = Atomic(f"<{letter}{size}", update)
        for name, update in _FLOAT.items():
            table[f"{name}_f{bits}"] = Atomic(f"<f{size}", update)
        for name, (operation, kind) in _GFX9_NAMES.items():
            table[f"{name}{wide}"] = Atomic(f"<{kind}{size}", _INTEGER[operation])
        for name in _EXCHANGES:
            table[f"{name}{wide}"] = table[f"{name}_b{bits}"] = Atomic(f"<u{size}", _replace)
        for name in _COMPARES:
            table[f"{name}{wide}"] = table[f"{name}_b{bits}"] = Atomic(f"<u{size}", _replace, compare=True)
    table["pk_add_f16"] = Atomic("<f2", np.add, packed=True)
    return table


ATOMICS = _table()
_DS_NAME = re.compile(r"ds_(\w+?)(_rtn)?(_[uibf]\d+|_f16)")


def apply(atomic: Atomic, words: Array, index: NDArray[np.intp], operand: Array, expected: Array | None) -> Array:
    """Updates ``words[index]`` one after the other and returns the old values.

    words: a view of the memory with one element (packed: a row of two) per index.
    """
    old = words[index]
    alone = len(np.unique(index)) == len(index)
    if alone:
        new = atomic.update(old, operand).astype(words.dtype)
        words[index] = new if expected is None else np.where(old == expected, new, old)
        return old
    for lane, place in enumerate(index.tolist()):
        current = words[place].copy()
        old[lane] = current
        if expected is None or current == expected[lane]:
            words[place] = atomic.update(current, operand[lane])
    return old


def _view(data: NDArray[np.uint8], atomic: Atomic) -> Array:
    whole = data[: len(data) // atomic.size * atomic.size].view(atomic.dtype)
    return whole.reshape(-1, 2) if atomic.packed else whole


def _operand(b: Batch, atomic: Atomic, data: Operand, mask: Mask | None) -> Array:
    units = np.ascontiguousarray(stored(b, data, Format(atomic.size), mask))
    typed = units.view(atomic.dtype)
    return typed.reshape(-1, 2) if atomic.packed else typed.reshape(-1)


def _finish(b: Batch, atomic: Atomic, destination: Operand | None, mask: Mask | None, old: Array) -> None:
    if destination is None:
        return
    words = np.ascontiguousarray(old).view(np.uint32).reshape(len(old), -1)
    loaded(b, destination, Format(atomic.size), mask, words if atomic.size == 8 else words[:, 0])


def on_memory(
    b: Batch,
    atomic: Atomic,
    addresses: NDArray[np.uint64],
    mask: Mask | None,
    data: Operand,
    destination: Operand | None,
    key: int,
) -> None:
    """The operation on global memory, for the lanes in ``mask``."""
    picked = chosen(addresses, mask)
    if not picked.size:
        return
    if (picked % np.uint64(atomic.size)).any():
        address = int(picked[picked % np.uint64(atomic.size) != 0][0])
        raise InstructionError("alignment", f"{atomic.size} bytes", address)
    operand, expected = _operands(b, atomic, data, mask)
    b.chunk.counters.vmem_store += len(picked) * atomic.size
    old = np.empty(operand.shape, atomic.dtype)
    for region, offsets, lanes in b.chunk.space.locate(picked, atomic.size, write=True, key=key):
        shift = int(offsets[0]) % atomic.size
        words = _view(region.data[shift:], atomic)
        part = slice(None) if lanes is None else lanes
        old[part] = apply(
            atomic, words, offsets // atomic.size, operand[part], None if expected is None else expected[part]
        )
    _finish(b, atomic, destination, mask, old)


def _operands(b: Batch, atomic: Atomic, data: Operand, mask: Mask | None) -> tuple[Array, Array | None]:
    operand = _operand(b, atomic, data, mask)
    if not atomic.compare:
        return operand, None
    return operand, _operand(b, atomic, data.from_register(data.index + atomic.size // 4), mask)


def on_local(
    b: Batch,
    atomic: Atomic,
    address: NDArray[np.int64],
    mask: Mask | None,
    operands: tuple[Array, Array | None],
    destination: Operand | None,
) -> None:
    """The operation on LDS: byte addresses of the lanes in ``mask``, (operand, expected)."""
    if not address.size:
        return
    if (address % atomic.size).any():
        raise InstructionError("alignment", f"{atomic.size} bytes of LDS", int(address[address % atomic.size != 0][0]))
    local = b.chunk.local
    where = local.offsets(b, address, atomic.size, mask, "atomic")
    old = apply(atomic, _view(local.data, atomic), where // atomic.size, *operands)
    _finish(b, atomic, destination, mask, old)


def build_memory(instruction: Instruction, chip: Chip) -> Step:
    """``global_atomic_*`` and ``flat_atomic_*``."""
    kind, _, name = instruction.base.partition("_atomic_")
    if name not in ATOMICS:
        raise UnknownError(instruction.mnemonic)
    check_hints(instruction)
    atomic = ATOMICS[name]
    operands = instruction.operands
    returns = len(operands) == (4 if kind == "global" else 3)
    destination = operands[0] if returns else None
    first = operands[1:] if returns else operands
    where, data = (first[0], *first[2:]), first[1]
    addresses, key = address_reader(where, instruction.number("offset")), instruction.address
    if kind == "global":
        return lambda b: on_memory(b, atomic, addresses(b), None if b.full else b.exec, data, destination, key)

    def flat(b: Batch) -> None:
        every = addresses(b)
        aperture = every >> np.uint64(32)
        shared: Mask = b.exec & (aperture == SHARED_APERTURE)
        if (b.exec & (aperture == PRIVATE_APERTURE)).any():
            raise InstructionError("unsupported", "atomic access to scratch memory")
        if shared.any():
            address = chosen((every & np.uint64(0xFFFFFFFF)).view(np.int64), shared)
            on_local(b, atomic, address, shared, _operands(b, atomic, data, shared), destination)
        rest: Mask = b.exec & ~shared
        on_memory(b, atomic, every, rest, data, destination, key)

    return flat


def build_local(instruction: Instruction, chip: Chip) -> Step:
    """``ds_add_u32``, ``ds_cmpst_rtn_b32`` and the like."""
    match = _DS_NAME.fullmatch(instruction.base)
    name = f"{match[1]}{match[3]}" if match else ""
    if match is None or name not in ATOMICS or set(instruction.modifiers) - {"offset"}:
        raise UnknownError(instruction.mnemonic)
    atomic, offset = ATOMICS[name], np.uint32(instruction.number("offset"))
    operands = instruction.operands
    destination, rest = (operands[0], operands[1:]) if match[2] else (None, operands)
    register, data = rest[0].index, rest[1:]
    swapped = "cmpst_" in instruction.base  # gfx9 names the expected value first, gfx11 the new one

    def step(b: Batch) -> None:
        mask = None if b.full else b.exec
        total = b.v.u32[register] + offset
        values = [_operand(b, atomic, operand, mask) for operand in data]
        if swapped:
            values.reverse()
        expected = values[1] if atomic.compare else None
        on_local(b, atomic, chosen(total, mask).astype(np.int64), mask, (values[0], expected), destination)
        b.chunk.counters.local(total, b.exec, atomic.size, load=False, chip=chip, atomic=True)

    return step
