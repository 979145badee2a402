"""Addresses: pointers into memory and LDS with a stated alignment, buffer resources and raw loads from them."""

from __future__ import annotations

import flydsl.expr as fx

from octave_gen.kernels.flydsl import unstable
from octave_gen.kernels.flydsl.unstable import Value

_EVERYTHING, _NOTHING = 0xFFFFFFFF, 0


def pointer(address: Value, kind: Value, alignment: int) -> Value:
    """The same address as a pointer to ``kind`` that promises ``alignment`` bytes, whatever was promised before."""
    return fx.recast_iter(fx.PointerType.get(kind.ir_type, address.address_space, alignment), address)


def memory(address: Value, offset: Value | int = 0) -> Value:
    """A pointer to bytes, ``offset`` of them behind a pointer of any kind."""
    return pointer(address, fx.Uint8, 1) + offset


def load(address: Value, kind: Value, count: int = 1, *, alignment: int | None = None) -> Value:
    """``count`` neighbours from an address in bytes: a value, or a vector. alignment: None is that of ``kind``."""
    aligned = pointer(address, kind, kind.width // 8 if alignment is None else alignment)
    return fx.generic_load(aligned, dtype=kind, count=count)


def load_constant(address: Value) -> Value:
    """A value that the kernel does not write, from a typed pointer: a scalar load where all lanes read the same."""
    return unstable.load_invariant(address)


def store(address: Value, value: Value, *, alignment: int | None = None) -> None:
    """A value or a vector to an address in bytes; the counterpart of :func:`load`."""
    kind = value.dtype
    fx.generic_store(pointer(address, kind, kind.width // 8 if alignment is None else alignment), value)


def shared_bytes(size: int) -> Value:
    """The LDS of the workgroup, ``size`` bytes of it; once per kernel."""
    return fx.SharedAllocator().allocate(fx.Array[fx.Uint8, size, 16]).peek().ptr


def buffer_of(base: Value, there: Value | None = None) -> Value:
    """A buffer resource of what lies from ``base`` on.

    there: where it is false, loads read no memory and give zeros.
    """
    size = fx.Int64(_EVERYTHING)
    if there is not None:
        size = there.select(size, fx.Int64(_NOTHING))
    return fx.rocdl.get_buffer_rsrc(fx.rocdl.make_buffer_ptr(base, size))


def load_word(buffer: Value, offset: Value, row: Value | int = 0) -> Value:
    """Int32 at a lane's byte offset; ``row``: the same offset for all lanes, in a scalar register."""
    return _raw(fx.Int32, "i32", buffer, offset, row)


def load_words(buffer: Value, offset: Value, row: Value | int, count: int) -> list[Value]:
    """``count`` neighbouring Int32, from 1 to 4."""
    if count == 1:
        return [load_word(buffer, offset, row)]
    if count == 3:
        return [*load_words(buffer, offset, row, 2), load_word(buffer, offset + 8, row)]
    kind = {2: fx.Int32x2, 4: fx.Int32x4}[count]
    return list(_raw(kind, f"v{count}i32", buffer, offset, row))


def load_half(buffer: Value, offset: Value, row: Value | int = 0) -> Value:
    """Float16 at a byte offset."""
    return _raw(fx.Float16, "f16", buffer, offset, row)


def _raw(kind: Value, name: str, buffer: Value, offset: Value, row: Value | int) -> Value:
    operands = (buffer, fx.Int32(offset), fx.Int32(row), fx.Int32(0))
    return unstable.intrinsic(kind, f"llvm.amdgcn.raw.ptr.buffer.load.{name}", *operands)
