"""Vector instructions out of the tables: fetch, compute, write under EXEC."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from octave_gen.isa.decode import EXEC, Instruction, Operand
from octave_gen.isa.modifiers import DppLanes, clamped, sdwa_reader, sdwa_result, selection
from octave_gen.isa.operands import Chip, Reader, Step, UnknownError, mask_reader, reader, write_vector
from octave_gen.isa.types import Array, Operation, Type

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

Compute = Callable[["Batch"], Any]
Commit = Callable[["Batch", Any], None]
Writer = Callable[["Batch", Array], None]

_TAKEN = {"op_sel", "op_sel_hi", "neg_lo", "neg_hi", "clamp"}
_TRUTH_TABLE = "bitop3"
_DPP_WORDS = {"row_mask", "bank_mask", "bound_ctrl", "fi"}
_SDWA_WORDS = {"src0_sel", "src1_sel", "dst_sel", "dst_unused"}
_BOTH_DESTINATIONS = "v_cmpx_"


def build(instruction: Instruction, operation: Operation, chip: Chip) -> Step:
    """One step for the launch loop; raises UnknownError for a form that is not executed."""
    compute, commit = halves(instruction, operation, chip)
    return lambda b: commit(b, compute(b))


def halves(instruction: Instruction, operation: Operation, chip: Chip) -> tuple[Compute, Commit]:
    """Computing and writing apart, as dual issue needs it."""
    dpp = _dpp(instruction, chip)
    destinations = 1 + operation.carry_out
    if operation.compare and instruction.base.startswith(_BOTH_DESTINATIONS) and not chip.gfx9:
        destinations = 0
    sources = instruction.operands[destinations : destinations + len(operation.operands)]
    if len(sources) < len(operation.operands):
        raise UnknownError(f"{instruction.mnemonic} with {len(instruction.operands)} operands")
    readers = [
        _source(instruction, operand, position, type_, dpp)
        for position, (operand, type_) in enumerate(zip(sources, operation.operands, strict=True))
    ]
    rest = instruction.operands[destinations + len(operation.operands) :]
    if operation.reads_destination and operation.result is not None:
        readers.append(reader(_plain(instruction.operands[0]), operation.result))
    if operation.carry_in:
        readers.append(mask_reader(rest[0] if rest else None))
    compute = compose(_function(instruction, operation), readers)
    if operation.compare:
        return compute, _mask_commit(instruction, chip, dpp)
    if operation.result is None:
        raise UnknownError(instruction.mnemonic)
    write = _writer(instruction, operation, operation.result, chip, dpp)
    if not operation.carry_out:
        return compute, write
    carry = instruction.operands[1]
    if carry.kind != "s":
        raise UnknownError(f"{instruction.mnemonic}: carry operand {carry.text}")

    def commit(b: Batch, results: tuple[Array, Mask]) -> None:
        write(b, results[0])
        mask = dpp.mask(b) if dpp else b.exec
        b.set_mask(carry.index, results[1] & mask)

    return compute, commit


def compose(function: Callable[..., Any], readers: list[Reader]) -> Compute:
    """``function`` on what the readers fetch, without a loop for the usual counts."""
    if len(readers) == 1:
        (one,) = readers
        return lambda b: function(one(b))
    if len(readers) == 2:
        one, two = readers
        return lambda b: function(one(b), two(b))
    if len(readers) == 3:
        one, two, three = readers
        return lambda b: function(one(b), two(b), three(b))
    return lambda b: function(*[read(b) for read in readers])


def _plain(operand: Operand) -> Operand:
    return Operand(operand.text, operand.kind, operand.index, operand.count, half=operand.half)


def _dpp(instruction: Instruction, chip: Chip) -> DppLanes | None:
    encoding, words = instruction.encoding, set(instruction.modifiers)
    if encoding.endswith("dpp"):
        return DppLanes(instruction, chip.lanes)
    unknown = words - _TAKEN - (_SDWA_WORDS if encoding == "sdwa" else set()) - {_TRUTH_TABLE}
    if unknown:
        raise UnknownError(f"{instruction.mnemonic}: modifier {sorted(unknown)[0]}")
    return None


def _source(instruction: Instruction, operand: Operand, position: int, type_: Type, dpp: DppLanes | None) -> Reader:
    if instruction.encoding == "sdwa":
        return sdwa_reader(instruction, operand, position, type_)
    read = reader(operand, type_, selection=selection(instruction, position, type_))
    if dpp is None or position:
        return read
    if type_.registers != 1 or type_.elements != 1:
        raise UnknownError(f"{instruction.mnemonic}: DPP of a {type_.name} operand")
    return dpp.wrap(read)


def _function(instruction: Instruction, operation: Operation) -> Callable[..., Any]:
    function = operation.function
    clamp = "clamp" in instruction.modifiers
    if operation.sign_flags:
        signs = instruction.flags("neg_lo", (0, 0, 0))
        function = partial(function, signed=(bool(signs[0]), bool(signs[1])))
    if operation.truth_table:
        function = partial(function, table=instruction.number(_TRUTH_TABLE))
    elif _TRUTH_TABLE in instruction.modifiers:
        raise UnknownError(f"{instruction.mnemonic}: modifier {_TRUTH_TABLE}")
    if operation.saturates:
        function = partial(function, clamp=clamp)
    elif clamp:
        if operation.result is None or operation.result.dtype.kind != "f":
            raise UnknownError(f"{instruction.mnemonic}: clamp")
        plain = function
        if operation.carry_out:
            raise UnknownError(f"{instruction.mnemonic}: clamp")
        return lambda *operands: clamped(plain(*operands))
    return function


def _mask_commit(instruction: Instruction, chip: Chip, dpp: DppLanes | None) -> Commit:
    """Comparisons write one bit per lane, 0 where the lane is off; ``v_cmpx_*`` write EXEC (and on gfx9 VCC too)."""
    into_exec = instruction.base.startswith(_BOTH_DESTINATIONS)
    indices = []
    if not into_exec or chip.gfx9:
        destination = instruction.operands[0]
        if destination.kind != "s":
            raise UnknownError(f"{instruction.mnemonic}: destination {destination.text}")
        indices.append(destination.index)
    if into_exec:
        indices.append(EXEC)

    def commit(b: Batch, value: Mask) -> None:
        mask = value & (dpp.mask(b) if dpp else b.exec)
        for index in indices:
            b.set_mask(index, mask)

    return commit


def _writer(instruction: Instruction, operation: Operation, result: Type, chip: Chip, dpp: DppLanes | None) -> Writer:
    destination = instruction.operands[0]
    index = destination.index
    if destination.kind != "v":
        raise UnknownError(f"{instruction.mnemonic}: destination {destination.text}")
    if instruction.encoding == "sdwa":
        return _sdwa_writer(instruction, result, index)
    if result.elements == 2 and result.registers == 1:
        return _masked(index, dpp, lambda value: np.ascontiguousarray(value).view(np.uint32)[..., 0])
    if result.elements == 2:

        def write_pair(b: Batch, value: Array) -> None:
            write_vector(b, index, value[..., 0])
            write_vector(b, index + 1, value[..., -1])  # the low one again where all sources name one element twice

        return write_pair
    if result.registers == 2:

        def write_wide(b: Batch, value: Array) -> None:
            words = np.ascontiguousarray(value).view(np.uint32)
            write_vector(b, index, words[..., 0::2])
            write_vector(b, index + 1, words[..., 1::2])

        return write_wide
    if result.dtype.itemsize == 2:
        return _half_writer(instruction, operation, chip, dpp)
    if dpp is None:
        return lambda b, value: write_vector(b, index, value)
    return lambda b, value: write_vector(b, index, value, dpp.mask(b))


def _masked(index: int, dpp: DppLanes | None, pack: Callable[[Array], Array]) -> Writer:
    if dpp is None:
        return lambda b, value: write_vector(b, index, pack(value))
    return lambda b, value: write_vector(b, index, pack(value), dpp.mask(b))


def _half_writer(instruction: Instruction, operation: Operation, chip: Chip, dpp: DppLanes | None) -> Writer:
    """A 16-bit result: which half it goes to, and whether the other half stays.

    gfx11 keeps it; most gfx9 instructions clear it when they write the low half ("VOP3 OP_SEL" in the CDNA3 document,
    and ``GCNSubtarget::zeroesHigh16BitsOfDest`` of LLVM).
    """
    destination = instruction.operands[0]
    index = destination.index
    if destination.half is not None:
        part = destination.half
    else:
        position = len(operation.operands)
        part = int(operation.high_half or instruction.flags("op_sel", (0, 0, 0, 0))[position] == 1)
    clear = chip.gfx9 and part == 0 and not operation.keeps_half

    def write(b: Batch, value: Array) -> None:
        mask = dpp.mask(b) if dpp else b.exec
        if clear:
            write_vector(b, index, value.view(np.uint16).astype(np.uint32), mask)
        else:
            np.copyto(b.v.u16[index][..., part], value.view(np.uint16), where=mask)

    return write


def _sdwa_writer(instruction: Instruction, result: Type, index: int) -> Writer:
    if result.registers != 1 or result.elements != 1:
        raise UnknownError(f"{instruction.mnemonic}: SDWA result of type {result.name}")
    merge = sdwa_result(instruction)
    unsigned = np.dtype(f"<u{result.dtype.itemsize}")

    def write(b: Batch, value: Array) -> None:
        bits = value.view(unsigned).astype(np.uint32)
        write_vector(b, index, bits if merge is None else merge(bits, b.v.u32[index]))

    return write
