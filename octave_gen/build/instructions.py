"""What must be among a kernel's instructions: of compilers that leave things out without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from octave_gen.errors import OctaveError
from octave_gen.plan import Variant

_ENDS = frozenset({"s_endpgm", "s_code_end", "s_nop"})


def of_kernels(data: bytes, where: str) -> dict[str, frozenset[str]]:
    """The mnemonics of each kernel of a code object, without the suffix of their encoding.

    Raises OctaveError when it cannot be disassembled.
    """
    from octave_gen.isa import load  # takes numpy along

    try:
        code = load(data)
        found: dict[str, set[str]] = {symbol: set() for symbol in code.kernels}
        for instruction in code.instructions.values():
            found.setdefault(code.kernel_at(instruction.address), set()).add(instruction.base)
    except OctaveError as error:
        raise OctaveError(error.what, where=where, hint=error.hint) from error
    return {symbol: frozenset(names) for symbol, names in found.items()}


def problems(variant: Variant, mnemonics: Collection[str]) -> Iterator[str]:
    """What is missing among the instructions of a variant's kernel; nothing but its end is a problem of any tier."""
    if not set(mnemonics) - _ENDS:
        yield "its body is empty: the compiler left out what it could not compile"
        return
    for spellings in variant.tier.mnemonics:
        if not set(spellings) & set(mnemonics):
            yield f"its body has no {' or '.join(spellings)}"
