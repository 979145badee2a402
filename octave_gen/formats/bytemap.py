"""Where the bytes of a slot lie, as a drawing. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final

_ROW: Final = 64
_RULER: Final = 16
_ZERO: Final = "."


@dataclass(frozen=True)
class Field:
    """Runs of bytes in a slot: ``count`` of ``size`` bytes each, ``stride`` bytes apart. what: begins with K or V where
    one of them alone depends on it. bits: of each value in it; 0 for bytes that are always zero."""

    what: str
    offset: int
    size: int
    bits: int = 0
    count: int = 1
    stride: int = 0

    @property
    def offsets(self) -> list[int]:
        """Of all its bytes, run by run."""
        return [self.offset + i * self.stride + byte for i in range(self.count) for byte in range(self.size)]


def draw(fields: Sequence[Field], slot_bytes: int) -> str:
    """A letter per byte, 64 to a row, and what each letter is; every line ends with a newline. Fields without bytes are
    left out. ValueError unless the fields are exactly the bytes of the slot."""
    present = [field for field in fields if field.offsets]
    letters = iter(ascii_uppercase)
    marks = [next(letters) if field.bits else _ZERO for field in present]
    cells: dict[int, str] = {}
    for field, mark in zip(present, marks, strict=True):
        for offset in field.offsets:
            if offset in cells:
                raise ValueError(f"byte {offset} is in two fields, {cells[offset]} and {mark}")
            cells[offset] = mark
    if sorted(cells) != list(range(slot_bytes)):
        raise ValueError(f"the fields are not the bytes 0 to {slot_bytes - 1}")
    ruler = "".join(f"{offset:<{_RULER}}" for offset in range(0, min(_ROW, slot_bytes), _RULER))
    lines = [f"      {ruler}".rstrip()]
    for first in range(0, slot_bytes, _ROW):
        lines.append(f"{first:4}  " + "".join(cells[i] for i in range(first, min(first + _ROW, slot_bytes))))
    lines += ["", f"{'':4}{'bytes':<16}{'size':>6}{'bits':>6}  what"]
    for field, mark in zip(present, marks, strict=True):
        size = f"{field.count} x {field.size}" if field.count > 1 else str(field.size)
        lines.append(f"{mark:<4}{_place(field):<16}{size:>6}{field.bits or '':>6}  {field.what}")
    return "".join(f"{line}\n" for line in lines)


def _place(field: Field) -> str:
    first = f"{field.offset}-{field.offset + field.size - 1}" if field.size > 1 else str(field.offset)
    return f"{first}, +{field.stride}, …" if field.count > 1 else first
