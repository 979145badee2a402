"""Operands as typed arrays: readers for registers and constants, writers under EXEC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from octave_gen.isa.decode import EXEC, NULL, VCC, Operand
from octave_gen.isa.types import U32, Array, Type

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

Reader = Callable[["Batch"], Array]
Step = Callable[["Batch"], None]


class UnknownError(Exception):
    """An instruction, or a form of one, that has no semantics here; the message is its name or form."""


@dataclass(frozen=True)
class Chip:
    """What instructions depend on. gfx9: gfx942 or, with gfx950, that; else gfx1100."""

    gfx9: bool
    lanes: int
    gfx950: bool = False

    @property
    def arch(self) -> str:
        return "gfx950" if self.gfx950 else "gfx942" if self.gfx9 else "gfx1100"


@dataclass(frozen=True)
class Selection:
    """Which part of an operand is read: halves and signs for (low, high) results; ``mixed``: widen a half."""

    low: int = 0
    high: int = 1
    negate_low: bool = False
    negate_high: bool = False
    half: int | None = None
    mixed: bool = False


_INVERSE_TWO_PI = {"f16": 0x3118, "f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882}
_APERTURES = {"src_shared_base": 0x20000 << 32, "src_private_base": 0x10000 << 32}
"""Flat addresses of LDS and of scratch memory; the upper 32 bits tell the three kinds apart."""
SHARED_APERTURE = 0x20000
PRIVATE_APERTURE = 0x10000


def constant_bits(text: str, type_: Type) -> int:
    """The bits of a constant operand read as ``type_``.

    Inline floats take the width of the operand, integers are sign-extended to it, and a 32-bit literal is the upper
    half of a float64 ("Operands" and "Literal constants" in the CDNA3 and RDNA3 instruction set documents).
    """
    kind = type_.name.split("x")[0]
    wide = type_.registers == 2 and type_.elements == 1
    if "." in text and not text.startswith("0x"):
        width = "f64" if wide else "f16" if kind in ("f16", "u16", "i16") else "f32"
        if text.lstrip("-").startswith("0.159"):
            bits = _INVERSE_TWO_PI[width]
        else:
            value = np.array(float(text), {"f16": "<f2", "f32": "<f4", "f64": "<f8"}[width])
            bits = int(value.view({"f16": "<u2", "f32": "<u4", "f64": "<u8"}[width]))
        return bits >> 16 if kind == "bf16" else bits
    number = int(text, 0)
    literal = text.startswith("0x")
    if kind == "f64" and literal and number >> 32 == 0:
        return number << 32
    if kind == "i64" and literal and number >> 31 == 1:
        number -= 1 << 32
    return number & ((1 << 64) - 1 if wide else 0xFFFFFFFF)


def _constant(operand: Operand, type_: Type, selection: Selection) -> Array:
    bits = constant_bits(operand.text, type_)
    if type_.elements == 2 and type_.registers == 1:
        halves = np.array([bits >> 16 * selection.low & 0xFFFF, bits >> 16 * selection.high & 0xFFFF], np.uint16)
        return halves.view(type_.dtype)
    if type_.elements == 2:
        if selection.high or selection.low:
            raise UnknownError("a constant in the high half of a packed 32-bit operand")
        return np.array([bits, bits], np.uint32).view(type_.dtype)
    if type_.mixed and selection.mixed:
        half = constant_bits(operand.text, Type("f16", np.dtype("<f2"), 1)) >> 16 * (selection.half or 0)
        return np.array([half & 0xFFFF], np.uint16).view(np.float16).astype(np.float32)
    size = type_.dtype.itemsize
    if size == 2 and selection.half:
        bits >>= 16
    return np.array([bits & ((1 << 8 * size) - 1)], f"<u{size}").view(type_.dtype)


def _signs(read: Reader, operand: Operand, type_: Type, selection: Selection) -> Reader:
    """``read`` with absolute value and negation, which act on the sign bit alone."""
    absolute = operand.absolute
    negate = operand.negate
    if type_.elements == 2:
        if absolute or negate:
            raise UnknownError("neg or abs of a packed operand")
        if not (selection.negate_low or selection.negate_high):
            return read
        unsigned = np.dtype(f"<u{type_.dtype.itemsize}")
        top = 8 * type_.dtype.itemsize - 1
        flip = np.array([selection.negate_low << top, selection.negate_high << top], unsigned)
        return lambda b: (read(b).view(unsigned) ^ flip).view(type_.dtype)
    if type_.mixed:
        negate, absolute = negate or selection.negate_low, absolute or selection.negate_high
    if not (absolute or negate):
        return read
    if type_.dtype.kind == "f":
        if not absolute:
            return lambda b: np.negative(read(b))
        return (lambda b: -np.abs(read(b))) if negate else (lambda b: np.abs(read(b)))
    unsigned = np.dtype(f"<u{type_.dtype.itemsize}")
    sign = unsigned.type(1 << 8 * type_.dtype.itemsize - 1)
    keep, flip_bit = unsigned.type(~sign if absolute else ~unsigned.type(0)), unsigned.type(sign if negate else 0)
    return lambda b: ((read(b).view(unsigned) & keep) ^ flip_bit).view(type_.dtype)


def reader(operand: Operand, type_: Type, *, scalar: bool = False, selection: Selection | None = None) -> Reader:
    """Reads ``operand`` as ``type_``: arrays [waves, lanes], or [waves] when ``scalar``; extents of 1 where all agree.

    Raises UnknownError for an operand that cannot be read so.
    """
    chosen = selection or Selection()
    if operand.half is not None:
        chosen = Selection(half=operand.half)
    if operand.kind == "constant" or (operand.kind == "s" and operand.index == NULL):
        value = _constant(operand if operand.kind == "constant" else Operand("0", "constant"), type_, chosen)
        if not scalar:
            value = value.reshape(1, 1, *value.shape[value.ndim - type_.elements + 1 :])
        return _signs(lambda b: value, operand, type_, chosen)
    if operand.kind == "named":
        return _named(operand, type_, scalar)
    if operand.sign_extend:
        raise UnknownError(f"operand {operand.text}")
    if operand.half is not None and type_ is U32:
        narrow = _register(operand, Type("u16", np.dtype("<u2"), 1), chosen, scalar)
        return lambda b: narrow(b).astype(np.uint32)
    if operand.half is not None and type_.dtype.itemsize != 2:
        raise UnknownError(f"half register {operand.text} read as {type_.name}")
    return _signs(_register(operand, type_, chosen, scalar), operand, type_, chosen)


def _named(operand: Operand, type_: Type, scalar: bool) -> Reader:
    shape = (1,) if scalar else (1, 1)
    if operand.text in _APERTURES:
        base = np.full(shape, _APERTURES[operand.text] >> (0 if type_.registers == 2 else 32), np.uint64)
        value = base.astype(type_.dtype)
        return lambda b: value
    if operand.text in ("scc", "src_scc") and type_.registers == 1:
        if scalar:
            return lambda b: b.scc.astype(type_.dtype)
        return lambda b: b.scc.astype(type_.dtype)[:, None]
    raise UnknownError(f"operand {operand.text}")


def _register(operand: Operand, type_: Type, chosen: Selection, scalar: bool) -> Reader:
    if scalar and operand.kind != "s":
        raise UnknownError(f"vector operand {operand.text} of a scalar instruction")
    lift = operand.kind == "s" and not scalar
    read = _wide(operand, type_, chosen) if type_.registers == 2 else _narrow(operand, type_, chosen)
    if not lift:
        return read
    return lambda b: read(b)[:, None]


def _narrow(operand: Operand, type_: Type, chosen: Selection) -> Reader:
    """Registers of 32 bits and less; trailing axes: lanes (vector registers), then the pair of a packed type."""
    file, index = operand.kind, operand.index
    if type_.mixed:
        if not chosen.mixed:
            return _view(file, index, "f32")
        halves = _view(file, index, "f16")
        part = chosen.half or 0
        return lambda b: halves(b)[..., part].astype(np.float32)
    name = type_.name.split("x")[0].replace("bf16", "u16")
    view = _view(file, index, name)
    if type_.elements == 2:
        if (chosen.low, chosen.high) == (0, 1):
            return view
        order = [chosen.low, chosen.high]
        return lambda b: view(b)[..., order]
    if type_.dtype.itemsize == 2:
        part = chosen.half or 0
        return lambda b: view(b)[..., part]
    return view


def _view(file: str, index: int, name: str) -> Reader:
    """``batch.<file>.<name>[index]``, spelled out for the common ones: this is the innermost loop."""
    if file == "v":
        if name == "u32":
            return lambda b: b.v.u32[index]
        if name == "f32":
            return lambda b: b.v.f32[index]
        if name == "i32":
            return lambda b: b.v.i32[index]
    if file == "s" and name == "u32":
        return lambda b: b.s.u32[index]

    def read(b: Batch) -> Array:
        values: Array = getattr(getattr(b, file), name)[index]
        return values

    return read


def _wide(operand: Operand, type_: Type, chosen: Selection) -> Reader:
    """Pairs of registers: one 64-bit value, or two 32-bit ones with a last axis."""
    file, index = operand.kind, operand.index
    if type_.elements == 2:
        name, step = type_.name.split("x")[0], chosen.high - chosen.low
        low = index + chosen.low
        rows = slice(low, index + chosen.high + (step or 1), step or 1)
        if step < 0:
            rows = slice(low, index + chosen.high - 1 if index + chosen.high else None, step)

        def pair(b: Batch) -> Any:
            """The two registers as a view with the pair last; one register twice has extent 1 there."""
            registers = getattr(getattr(b, file), name)[rows]
            return registers.T if file == "s" else registers.transpose(1, 2, 0)

        return pair
    first, second = _view(file, index, "u32"), _view(file, index + 1, "u32")
    if operand.count == 1:
        return lambda b: first(b).astype(np.uint64).view(type_.dtype)
    shift = np.uint64(32)
    return lambda b: ((second(b).astype(np.uint64) << shift) | first(b)).view(type_.dtype)


def mask_reader(operand: Operand | None) -> Callable[[Batch], Mask]:
    """A lane mask out of scalar registers; None: VCC."""
    if operand is not None and operand.kind == "constant":
        bits = int(operand.text, 0)
        return lambda b: (np.int64(bits) >> np.arange(b.lanes) & 1).astype(np.bool_)[None]
    if operand is not None and operand.kind != "s":
        raise UnknownError(f"mask operand {operand.text}")
    index = VCC if operand is None else operand.index
    if index == NULL:
        return lambda b: np.zeros((1, b.lanes), np.bool_)
    return lambda b: b.mask(index)


def write_vector(b: Batch, index: int, value: Array, mask: Mask | None = None) -> None:
    """Writes 32-bit values of any dtype to a vector register, in the lanes of EXEC or of ``mask``."""
    row = b.v.u32[index]
    bits = value if value.dtype == np.uint32 else value.view(np.uint32)
    if mask is not None:
        np.copyto(row, bits, where=mask)
    elif b.full:
        row[...] = bits
    else:
        np.copyto(row, bits, where=b.exec)


def scalar_writer(operand: Operand, type_: Type) -> Callable[[Batch, Array], None]:
    """Writes one value per wave to scalar registers; EXEC takes effect at once, NULL drops it."""
    if operand.kind != "s":
        raise UnknownError(f"destination {operand.text} of a scalar instruction")
    index = operand.index
    if index == NULL:
        return lambda b, value: None

    if type_.registers == 1:

        def write(b: Batch, value: Array) -> None:
            b.s.u32[index] = value if value.dtype == np.uint32 else value.view(np.uint32)

    else:

        def write(b: Batch, value: Array) -> None:
            words = np.ascontiguousarray(value).view(np.uint32)
            b.s.u32[index] = words[0::2]
            b.s.u32[index + 1] = words[1::2]

    if index not in (EXEC, EXEC + 1):
        return write

    def write_exec(b: Batch, value: Array) -> None:
        write(b, value)
        b.refresh()

    return write_exec
