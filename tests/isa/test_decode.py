"""Text to instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from octave_gen import isa
from octave_gen.build.bundle import code_objects
from octave_gen.errors import OctaveError
from octave_gen.isa import decode, disassembly
from octave_gen.isa.decode import EXEC, M0, NULL, VCC, Instruction, Operand, parse, parse_operand
from octave_gen.isa.disassembly import Disassembler, Line


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("v7", Operand("v7", "v", 7)),
        ("v[4:7]", Operand("v[4:7]", "v", 4, 4)),
        ("a[0:3]", Operand("a[0:3]", "a", 0, 4)),
        ("s[10:11]", Operand("s[10:11]", "s", 10, 2)),
        ("vcc", Operand("vcc", "s", VCC, 2)),
        ("vcc_lo", Operand("vcc_lo", "s", VCC, 1)),
        ("exec_hi", Operand("exec_hi", "s", EXEC + 1, 1)),
        ("m0", Operand("m0", "s", M0, 1)),
        ("null", Operand("null", "s", NULL, 1)),
        ("-v1", Operand("-v1", "v", 1, negate=True)),
        ("|v1|", Operand("|v1|", "v", 1, absolute=True)),
        ("-|s3|", Operand("-|s3|", "s", 3, negate=True, absolute=True)),
        ("sext(v2)", Operand("sext(v2)", "v", 2, sign_extend=True)),
        ("neg(1.0)", Operand("1.0", "constant", negate=True)),
        ("v3.l", Operand("v3.l", "v", 3, half=0)),
        ("-v3.h", Operand("-v3.h", "v", 3, negate=True, half=1)),
        ("0x1f", Operand("0x1f", "constant")),
        ("-16", Operand("-16", "constant")),
        ("-0.5", Operand("-0.5", "constant")),
        ("lit(0xffffffff)", Operand("0xffffffff", "constant")),
        ("off", Operand("off", "named")),
        ("src_shared_base", Operand("src_shared_base", "named")),
    ],
)
def test_operands(text: str, operand: Operand) -> None:
    assert parse_operand(text) == operand


@pytest.mark.parametrize(
    ("text", "base", "encoding"),
    [
        ("v_add_f32_e32 v0, v1, v2", "v_add_f32", "e32"),
        ("v_add_f32_e64 v0, v1, v2", "v_add_f32", "e64"),
        ("v_mov_b32_dpp v0, v1 row_shl:1", "v_mov_b32", "dpp"),
        ("v_add3_u32_e64_dpp v0, v1, v2, v3 row_shl:1", "v_add3_u32", "e64_dpp"),
        ("v_mov_b32_sdwa v0, v1", "v_mov_b32", "sdwa"),
        ("v_add3_u32 v0, v1, v2, v3", "v_add3_u32", ""),
        ("s_endpgm", "s_endpgm", ""),
    ],
)
def test_encodings(text: str, base: str, encoding: str) -> None:
    instruction = parse(text)
    assert (instruction.base, instruction.encoding) == (base, encoding)


def test_modifiers() -> None:
    one = parse("v_mov_b32_dpp v0, v1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0x3 bound_ctrl:1")
    assert [operand.text for operand in one.operands] == ["v0", "v1"]
    assert one.modifiers == {"quad_perm": (1, 0, 3, 2), "row_mask": 15, "bank_mask": 3, "bound_ctrl": 1}
    two = parse("global_load_dwordx4 v[0:3], v[4:5], off offset:-16 sc0 nt")
    assert two.modifiers == {"offset": -16, "sc0": 1, "nt": 1}
    assert two.number("offset") == -16
    three = parse("ds_swizzle_b32 v0, v1 offset:swizzle(QUAD_PERM,1,0,3,2)")
    assert three.word("offset") == "swizzle(QUAD_PERM,1,0,3,2)"
    four = parse("v_pk_add_f16 v0, v1, v2 op_sel:[0,1] neg_lo:[1,0]")
    assert four.flags("op_sel", (0, 0, 0)) == (0, 1, 0)
    assert four.flags("op_sel_hi", (1, 1, 1)) == (1, 1, 1)
    five = parse("v_add_u32_sdwa v0, v1, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:DWORD")
    assert five.word("dst_sel") == "BYTE_1"
    six = parse("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15")
    assert [operand.text for operand in six.operands] == ["hwreg(HW_REG_MODE, 4, 4)", "15"]


def test_dual_issue() -> None:
    pair = parse("v_dual_fmac_f32 v0, v1, v2 :: v_dual_mov_b32 v3, 0x40", 100, 8)
    assert (pair.base, pair.mnemonic) == ("v_fmac_f32", "v_dual_fmac_f32")
    assert pair.second is not None
    assert (pair.second.base, pair.second.address) == ("v_mov_b32", 100)
    assert [operand.text for operand in pair.second.operands] == ["v3", "0x40"]
    assert pair.encoding == pair.second.encoding == ""


# disassemblers --------------------------------------------------------------------------------------------------------


def in_words(instructions: dict[int, Instruction]) -> dict[int, tuple[object, ...]]:
    def parts(one: Instruction) -> tuple[object, ...]:
        return (
            one.mnemonic,
            one.size,
            [number(o) for o in one.operands],
            one.modifiers,
            one.second and parts(one.second),
        )

    def number(operand: Operand) -> object:
        """Literals that fit an inline constant are spelled in two ways."""
        if operand.kind == "constant" and "." not in operand.text:
            return int(operand.text, 0) & 0xFFFFFFFF
        return operand

    return {address: parts(one) for address, one in instructions.items()}


def test_both_disassemblers_agree(arch: str, small_build: Path) -> None:
    found = disassembly.available()
    if len(found) < 2:
        pytest.skip(f"one disassembler is installed: {', '.join(one.name for one in found)}")
    objects = set(code_objects(next((small_build / arch).glob("*.so"))).values())
    for data in sorted(objects):
        loaded = isa.load(data)
        first, second = (in_words(decode.decode(loaded, one)) for one in found)
        assert first == second
        assert len(first) > 500


def test_the_first_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [one.name for one in disassembly.available()]
    assert names == sorted(names, reverse=True)
    assert disassembly.which().name == names[0]
    monkeypatch.setattr(disassembly, "_library", lambda: None)
    monkeypatch.setattr(disassembly, "_objdump", lambda: Path("/usr/bin/llvm-objdump"))
    assert disassembly.which() == Disassembler("llvm-objdump", Path("/usr/bin/llvm-objdump"))


def test_no_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "available", list)
    with pytest.raises(OctaveError, match="no disassembler") as raised:
        disassembly.which()
    assert raised.value.hint == (
        "install it with `pip install octave-gen[verify]`, or put llvm-objdump of LLVM 22 or later on PATH"
    )


def test_a_damaged_library(tmp_path: Path) -> None:
    library = tmp_path / "librocmllvm.so"
    library.write_bytes(b"no library")
    with pytest.raises(OctaveError, match="the disassembler cannot be used"):
        disassembly.disassemble(b"", b"\0" * 4, 0, "gfx942", 64, Disassembler("rocm-llvm-python", library))


def test_words_that_are_no_instruction() -> None:
    for one in disassembly.available():
        if one.name == "rocm-llvm-python":
            lines = disassembly.disassemble(b"", b"\xff" * 8 + b"\x00\x00\x81\xbf", 64, "gfx942", 64, one)
            assert lines[0] == Line(64, 4, "<unknown>")
            assert lines[-1].address + lines[-1].size == 76


@pytest.mark.parametrize(
    ("arch_", "words", "text"),
    [
        ("gfx1100", (0xD73C0016, 0x02021282), "v_lshlrev_b64 v[22:23], 2, v[9:10]"),
        ("gfx1100", (0xD73C0016, 0x00021282), "v_lshlrev_b64 v[22:23], 2, v[9:10]"),
        ("gfx1100", (0xD7006A12, 0x02022C04), "v_add_co_u32 v18, vcc_lo, s4, v22"),
    ],
)
def test_unused_sources_as_newer_compilers_write_them(arch_: str, words: tuple[int, int], text: str) -> None:
    code = b"".join(word.to_bytes(4, "little") for word in words)
    for one in disassembly.available():
        if one.name == "rocm-llvm-python":
            assert disassembly.disassemble(b"", code, 0, arch_, 32, one) == [Line(0, 8, text)]
