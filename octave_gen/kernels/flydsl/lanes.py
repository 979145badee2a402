"""A wave's lanes: who a lane is, exchanges between lanes, values that all lanes share, barriers."""

from __future__ import annotations

from collections.abc import Callable

import flydsl.expr as fx

from octave_gen.kernels.flydsl import unstable
from octave_gen.kernels.flydsl.unstable import Value

WAVE = 64
"""Lanes of a wave of gfx9."""

# Control words of the DPP modifier, from AMD's instruction set documents.
QUAD_XOR_1, QUAD_XOR_2, QUAD_XOR_3 = 0xB1, 0x4E, 0x1B
ROW_ROTATE_8 = 0x128
ROW_MIRROR, HALF_ROW_MIRROR = 0x140, 0x141

_SWIZZLE_XOR_16 = (16 << 10) | 0x1F


def thread_index() -> Value:
    """Uint32: of the workgroup's threads."""
    return fx.Uint32(fx.thread_idx.x)


def lane_index() -> Value:
    """Uint32."""
    return thread_index() % WAVE


def wave_index() -> Value:
    """Uint32, in a scalar register."""
    return uniform(thread_index() // WAVE)


def uniform(value: Value) -> Value:
    """A 32-bit value that is the same in all lanes of a wave, in a scalar register."""
    return _in_bits(lambda bits: unstable.intrinsic(fx.Int32, "llvm.amdgcn.readfirstlane.i32", bits), value)


def lane_value(value: Value, lane: Value | int) -> Value:
    """The 32-bit value of one lane, for all of the wave."""
    return _in_bits(lambda bits: unstable.intrinsic(fx.Int32, "llvm.amdgcn.readlane.i32", bits, fx.Int32(lane)), value)


def lane_value64(value: Value, lane: Value | int) -> Value:
    """The same for an Int64."""
    low, high = fx.Uint32(fx.Uint64(value)), fx.Int32(value >> 32)
    return fx.Int64(lane_value(high, lane)) << 32 | fx.Int64(fx.Uint64(lane_value(low, lane)))


def ballot(condition: Value) -> Value:
    """Int64: bit l is lane l's condition."""
    return unstable.intrinsic(fx.Int64, "llvm.amdgcn.ballot.i64", condition)


def move_dpp(value: Value, control: int) -> Value:
    """The 32-bit value of the lane that a DPP control word names."""

    def move(bits: Value) -> Value:
        flags = (fx.Int32(control), fx.Int32(0xF), fx.Int32(0xF), fx.Boolean(True))
        return unstable.intrinsic(fx.Int32, "llvm.amdgcn.update.dpp.i32", bits, bits, *flags)

    return _in_bits(move, value)


def lane_xor(value: Value, mask: int) -> Value:
    """The 32-bit value of the lane whose index differs in the one bit ``mask``."""
    if mask == 1:
        return move_dpp(value, QUAD_XOR_1)
    if mask == 2:
        return move_dpp(value, QUAD_XOR_2)
    if mask == 4:
        return move_dpp(move_dpp(value, HALF_ROW_MIRROR), QUAD_XOR_3)
    if mask == 8:
        return move_dpp(value, ROW_ROTATE_8)
    if mask == 16:
        return _in_bits(
            lambda bits: unstable.intrinsic(fx.Int32, "llvm.amdgcn.ds.swizzle", bits, fx.Int32(_SWIZZLE_XOR_16)), value
        )
    assert mask == 32
    place = fx.Int32((lane_index() ^ mask) << 2)
    return _in_bits(lambda bits: unstable.intrinsic(fx.Int32, "llvm.amdgcn.ds.bpermute", place, bits), value)


def row_reduce(value: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Combines the values of each 16 lanes; every one of them gets the result."""
    for control in (QUAD_XOR_1, QUAD_XOR_2, HALF_ROW_MIRROR, ROW_MIRROR):
        value = combine(value, move_dpp(value, control))
    return value


def workgroup_barrier() -> None:
    """All waves of the workgroup arrive, and see each other's LDS writes; loads from memory go on."""
    unstable.local_barrier()


def schedule_barrier() -> None:
    """The compiler moves no instruction across."""
    unstable.intrinsic(None, "llvm.amdgcn.sched.barrier", fx.Int32(0))


def together(argument: Value, *others: Value) -> Value:
    """A kernel argument for which the others are waited for as well: one wait at the start instead of one for each."""
    for other in others:
        argument = unstable.inline_asm(type(argument), "", "=s,0,s", argument, other)
    return argument


def opaque(value: Value) -> Value:
    """The same value in vector registers, of which the compiler does not know where it comes from."""
    return unstable.inline_asm(type(value), "", "=v,0", value)


def after(value: Value, *others: Value) -> Value:
    """A value in vector registers, which the compiler uses only when the others, in such registers too, are there."""
    for other in others:
        value = unstable.inline_asm(type(value), "", "=v,0,v", value, other)
    return value


def after_scalar(value: Value, address: Value) -> Value:
    """A value in vector registers, as if it depended on a pointer that all lanes share."""
    return unstable.inline_asm(type(value), "", "=v,0,s", value, fx.ptrtoint(address))


def after_half(value: Value, other: Value) -> Value:
    """The same for one other of a Float16, which is no operand of assembly."""
    return fx.Int16(after(fx.Int32(value.bitcast(fx.Int16)), other)).bitcast(fx.Float16)


def hold(value: Value) -> None:
    """Keeps the registers of a value until here."""
    unstable.inline_asm(None, "", "v", value, volatile=True)


def _in_bits(move: Callable[[Value], Value], value: Value) -> Value:
    """A move of 32 bits, for a value of any 32-bit type."""
    kind = type(value)
    if kind is fx.Float32:
        return move(value.bitcast(fx.Int32)).bitcast(fx.Float32)
    return kind(move(fx.Int32(value)))
