"""Faults of an executed kernel: what happened, at which instruction, and where.

Instructions raise :class:`InstructionError`, which knows nothing of the kernel; the launch turns it into the one
exception type of the package with kernel, code offset and instruction text.
"""

from __future__ import annotations

from octave_gen.errors import OctaveError

KINDS: dict[str, str] = {
    "memory": "access outside every buffer",
    "read_only": "write to a read-only buffer",
    "alignment": "misaligned atomic access",
    "lds_bounds": "LDS access outside the workgroup's allocation",
    "lds_race": "LDS race between two barriers",
    "scratch_bounds": "access outside the lane's scratch memory",
    "barrier_divergence": "waves of a workgroup wait at different barriers",
    "matrix_operands": "WMMA operands that the chip does not accept",
    "partial_exec": "an instruction for whole waves with lanes switched off",
    "step_limit": "the kernel did not end",
    "trap": "the kernel trapped",
    "wild_jump": "jump to an address that holds no instruction",
    "internal": "the interpreter failed",
    "unsupported": "a state that the interpreter does not execute",
}


class Place(str):
    """Where a fault happened: the text of ``OctaveError.where`` that also carries its parts.

    kind: a key of :data:`KINDS`; kernel: the symbol; function: what the instruction is in, the kernel itself or a
    function that it calls; offset: bytes from its start; instruction: its text; address: of memory, LDS or scratch,
    None where there is none.
    """

    kind: str
    kernel: str
    function: str
    offset: int
    instruction: str
    address: int | None

    def __new__(
        cls, kind: str, kernel: str, offset: int, instruction: str, address: int | None, function: str | None = None
    ) -> Place:
        inner = function or kernel
        caller = "" if inner == kernel else f"{kernel}: "
        place = super().__new__(cls, f"{caller}{inner}+{offset:#x}: {instruction}")
        place.kind = kind
        place.kernel = kernel
        place.function = inner
        place.offset = offset
        place.instruction = instruction
        place.address = address
        return place

    def __getnewargs__(self) -> tuple[str, str, int, str, int | None, str]:  # type: ignore[override]
        return self.kind, self.kernel, self.offset, self.instruction, self.address, self.function


class InstructionError(Exception):
    """What an instruction ran into; never leaves this package."""

    def __init__(self, kind: str, detail: str, address: int | None = None, hint: str | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.address = address
        self.hint = hint


def fault(
    kind: str,
    kernel: str,
    offset: int,
    instruction_text: str,
    address: int | None,
    detail: str,
    hint: str | None = None,
    function: str | None = None,
) -> OctaveError:
    """The error of a fault; its ``where`` is a :class:`Place`."""
    at = "" if address is None else f" at {address:#x}"
    return OctaveError(
        f"{KINDS[kind]}{at}: {detail}",
        where=Place(kind, kernel, offset, instruction_text, address, function),
        hint=hint,
    )
