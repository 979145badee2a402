"""From the disassembler's text to instructions: mnemonic, operands, modifiers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octave_gen.isa.disassembly import Disassembler
    from octave_gen.isa.elf import CodeObject

VCC, TTMP, M0, NULL, EXEC = 106, 108, 124, 125, 126
"""Rows of the special scalar registers in the interpreter's file (gfx11 encodes M0 and NULL the other way round)."""
_SPECIAL: dict[str, tuple[int, int]] = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
    "null": (NULL, 1),
} | {f"ttmp{number}": (TTMP + number, 1) for number in range(16)}
_REGISTER = re.compile(r"([vsa])(?:(\d+)|\[(\d+):(\d+)\])")
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+|\d*\.\d+(?:e[+-]?\d+)?)")
_ENCODINGS = ("_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa")

Modifier = int | str | tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """One operand.

    kind: ``v``, ``a``, ``s`` (registers from ``index`` on, ``count`` of them), ``constant``, ``named`` (all else).
    half: which 16 bits of the register are meant, None where the text does not say.
    """

    text: str
    kind: str
    index: int = 0
    count: int = 1
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False
    half: int | None = None

    def from_register(self, index: int) -> Operand:
        """The same operand from another register on."""
        return replace(self, index=index)


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction; ``base`` is the mnemonic without the suffix that names its encoding.

    second: the other half of a dual-issue instruction, at the same address.
    """

    address: int
    size: int
    text: str
    mnemonic: str
    base: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, Modifier] = field(default_factory=dict)
    second: Instruction | None = None

    @property
    def encoding(self) -> str:
        """``e32``, ``e64``, ``dpp``, ``sdwa``, ``e64_dpp`` or nothing."""
        return self.mnemonic[len(self.base) + 1 :] if self.mnemonic.startswith(self.base) else ""

    def number(self, name: str, default: int = 0) -> int:
        """The modifier ``name`` as a number."""
        value = self.modifiers.get(name, default)
        return value if isinstance(value, int) else default

    def flags(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """The modifier ``name`` as one number per operand, filled up from ``default``."""
        value = self.modifiers.get(name)
        return (*value, *default[len(value) :]) if isinstance(value, tuple) else default

    def word(self, name: str, default: str = "") -> str:
        """The modifier ``name`` as text."""
        value = self.modifiers.get(name, default)
        return value if isinstance(value, str) else default


def decode(code_object: CodeObject, disassembler: Disassembler | None = None) -> dict[int, Instruction]:
    """The instructions of ``code_object`` by address, without the filler behind kernels."""
    from octave_gen.isa.disassembly import disassemble

    start, size = code_object.text
    code = code_object.image[start : start + size]
    lines = disassemble(code_object.elf, code, start, code_object.arch, code_object.wave_size, disassembler)
    return {line.address: parse(line.text, line.address, line.size) for line in lines if line.text != "s_code_end"}


def parse(text: str, address: int = 0, size: int = 4) -> Instruction:
    """One line of assembly text."""
    first, dual, second = text.partition("::")
    mnemonic, operands, modifiers = _half(first.strip())
    other = parse(second.strip(), address, size) if dual else None
    return Instruction(address, size, " ".join(text.split()), mnemonic, base_name(mnemonic), operands, modifiers, other)


_PLAIN = ("s_waitcnt", "s_delay_alu")
"""Instructions whose text is no list of operands."""


@cache
def _half(text: str) -> tuple[str, tuple[Operand, ...], dict[str, Modifier]]:
    mnemonic, _, rest = text.partition(" ")
    if mnemonic.startswith(_PLAIN):
        return mnemonic, (), {}
    return mnemonic, *_operands(rest.strip())


def base_name(mnemonic: str) -> str:
    """The mnemonic without its encoding suffix; halves of dual-issue instructions lose their prefix too."""
    for suffix in _ENCODINGS:
        if mnemonic.endswith(suffix):
            mnemonic = mnemonic.removesuffix(suffix)
            break
    return "v_" + mnemonic.removeprefix("v_dual_") if mnemonic.startswith("v_dual_") else mnemonic


def _split(text: str, separator: str) -> list[str]:
    """Splits at separators outside brackets, parentheses and quotes."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == separator and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    parts.append(current.strip())
    return [part for part in parts if part]


def _operands(text: str) -> tuple[tuple[Operand, ...], dict[str, Modifier]]:
    operands: list[Operand] = []
    modifiers: dict[str, Modifier] = {}
    for piece in _split(text, ","):
        operand, *words = _split(piece, " ")
        operands.append(parse_operand(operand))
        for word in words:
            name, colon, value = word.partition(":")
            modifiers[name] = _modifier(value) if colon else 1
    return tuple(operands), modifiers


def _modifier(value: str) -> Modifier:
    if value.startswith("["):
        return tuple(int(number, 0) for number in value.strip("[]").split(","))
    return int(value, 0) if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", value) else value


@cache
def parse_operand(text: str) -> Operand:
    """One operand with its input modifiers."""
    negate = absolute = sign_extend = False
    inner = text
    while True:
        if inner.startswith(("lit(", "lit64(")):
            inner = inner[inner.index("(") + 1 : -1]
        elif inner.startswith("sext("):
            inner, sign_extend = inner[5:-1], True
        elif inner.startswith("neg("):
            inner, negate = inner[4:-1], True
        elif inner.startswith("abs("):
            inner, absolute = inner[4:-1], True
        elif inner.startswith("-") and not _NUMBER.fullmatch(inner):
            inner, negate = inner[1:], True
        elif inner.startswith("|") and inner.endswith("|"):
            inner, absolute = inner[1:-1], True
        else:
            break
    half = {".l": 0, ".h": 1}.get(inner[-2:])
    register = inner if half is None else inner[:-2]
    match = _REGISTER.fullmatch(register)
    if match:
        first = int(match[2] or match[3])
        count = 1 if match[2] else int(match[4]) - first + 1
        return Operand(text, match[1], first, count, negate, absolute, sign_extend, half)
    if register in _SPECIAL:
        index, count = _SPECIAL[register]
        return Operand(text, "s", index, count, negate, absolute, sign_extend, half)
    kind = "constant" if _NUMBER.fullmatch(inner) else "named"
    return Operand(inner, kind, negate=negate, absolute=absolute)
