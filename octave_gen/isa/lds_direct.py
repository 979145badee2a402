"""Loads that LDS has a part in besides ``ds_read``: from memory straight into LDS, and out of LDS with a transpose.

From memory (``global_load_lds_*``, ``buffer_load_* lds``), by "Memory Buffer Load to LDS" and "Flat: Addressing" of
AMD's CDNA4 document: the lane ``n`` writes its data at M0 + offset + n * 4, for three and four registers at n * 16; the
offset counts for memory too, bytes and halves are widened to 4 bytes. M0 holds bytes (18 bits). Hardware may write as
late as the next wait for memory; here it is at once, so that a missing ``s_waitcnt`` does not show.

Transposed (``ds_read_b64_tr_b16``, ``_b8``): 16 lanes give 16 * 8 bytes, a matrix with 16 columns whose rows are 2 (b8)
or 4 (b16) lanes long, and lane ``n`` gets column ``n``. The CDNA4 document ("MFMA Transpose Load from LDS") says in
words what K and M a lane gets; the order of the lanes is that in which public kernels use it (HipKittens, FlyDSL).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import M0, Instruction
from octave_gen.isa.faults import InstructionError
from octave_gen.isa.operands import Chip, Step, UnknownError
from octave_gen.isa.transfers import FORMATS, Format, chosen, loaded
from octave_gen.isa.types import Array
from octave_gen.isa.vector_memory import address_reader, check_hints

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask


_LANES = 16
_OFFSET_BITS = np.uint32((1 << 18) - 1)
_WORDS = ("dword", "ubyte", "sbyte", "ushort", "sshort")
_WIDE = ("dwordx3", "dwordx4")
_GLOBAL = re.compile(r"global_load_lds_(\w+)")


def format_of(name: str, mnemonic: str, chip: Chip) -> Format:
    """The format of a load to LDS; raises UnknownError for one that the chip has not."""
    if not chip.gfx9 or (name not in _WORDS and not (name in _WIDE and chip.gfx950)):
        raise UnknownError(f"{mnemonic} to LDS")
    return FORMATS[name]


def stride_of(format_: Format) -> int:
    """Bytes of LDS from one lane to the next."""
    return 16 if format_.size > 4 else 4


def write_local(
    b: Batch, format_: Format, offset: int, mask: Mask | None, units: Array, *, keep_low_bits: bool = True
) -> None:
    """Writes the units of a load to where M0 says; flat ones (``keep_low_bits`` false) count M0 in words."""
    base = b.s.u32[M0] & _OFFSET_BITS
    if not keep_low_bits:
        base = base & ~np.uint32(3)
    lane = np.arange(b.lanes, dtype=np.int64) * stride_of(format_)
    place = base.astype(np.int64)[:, None] + offset + lane
    if format_.size < 4:
        kind = np.dtype(f"{'i' if format_.signed else 'u'}{format_.size}")
        units = units.view(kind).astype(np.int32 if format_.signed else np.uint32).view(np.uint32)
    size = max(format_.size, 4)
    local = b.chunk.local
    where = local.offsets(b, chosen(place, mask), size, mask, "store")
    local.store.scatter(where, size, units)


def build_global(instruction: Instruction, chip: Chip) -> Step:
    """``global_load_lds_*``."""
    match = _GLOBAL.fullmatch(instruction.base)
    if match is None:
        raise UnknownError(instruction.mnemonic)
    check_hints(instruction)
    format_ = format_of(match[1], instruction.mnemonic, chip)
    offset, key = instruction.number("offset"), instruction.address
    addresses = address_reader(instruction.operands, offset)

    def step(b: Batch) -> None:
        mask = None if b.full else b.exec
        picked = chosen(addresses(b), mask)
        if picked.size:
            b.chunk.counters.vmem_load += len(picked) * format_.size
            units = b.chunk.space.load(picked, format_.size, key)
            write_local(b, format_, offset, mask, units, keep_low_bits=False)

    return step


def _columns(size: int, lanes: int) -> NDArray[np.intp]:
    """Where the elements of ``size`` bytes of each lane's result come from, [lanes, elements]: lane * elements + place
    within what that lane gives."""
    elements = 8 // size
    lane, row = np.arange(lanes)[:, None], np.arange(elements)[None]
    column = lane % _LANES
    giver = lane - column + row * (_LANES // elements) + column // elements
    return giver * elements + column % elements


def build_transposed(instruction: Instruction, chip: Chip) -> Step:
    """``ds_read_b64_tr_b16`` and ``ds_read_b64_tr_b8``; every lane must be on."""
    size = {"ds_read_b64_tr_b16": 2, "ds_read_b64_tr_b8": 1}.get(instruction.base)
    if size is None or not chip.gfx950 or set(instruction.modifiers) - {"offset"}:
        raise UnknownError(instruction.mnemonic)
    target, register = instruction.operands[0], instruction.operands[1].index
    offset, format_ = np.uint32(instruction.number("offset")), FORMATS["b64"]
    columns = _columns(size, chip.lanes)

    def step(b: Batch) -> None:
        if not b.full:
            raise InstructionError("partial_exec", f"{instruction.base} with lanes switched off")
        total = b.v.u32[register] + offset
        if (total % np.uint32(8)).any():
            raise InstructionError("alignment", "8 bytes of LDS", int(total[total % np.uint32(8) != 0][0]))
        local = b.chunk.local
        where = local.offsets(b, total.reshape(-1).astype(np.int64), 8, None, "load")
        b.chunk.counters.local(total, b.exec, 8, load=True, chip=chip)
        given = np.ascontiguousarray(local.store.gather(where, 8)).view(f"<u{size}").reshape(b.waves, -1)
        taken = np.ascontiguousarray(given[:, columns.reshape(-1)]).view(np.uint32).reshape(-1, 2)
        loaded(b, target, format_, None, taken)

    return step
