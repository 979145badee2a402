"""The tables as a whole: names, what the kernels need, purity."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from values import OPERATIONS, TABLES, pairs, words

from octave_gen.isa import control, decode, lanes, types
from octave_gen.isa.operands import Chip
from octave_gen.isa.program import compile_instruction, vector_operations

ROOM = Path(types.__file__).parent
EXAMPLES = [
    tuple(line.split(" ", 1))
    for line in (Path(__file__).parent / "kernel_instructions.txt").read_text().splitlines()
    if not line.startswith("#")
]
ENGINE = ("s_load_", "s_buffer_load_", "s_set_gpr_idx_", "v_mfma_", "v_wmma_")
"""Beginnings of what the engine executes without a table."""


SIGNATURES: dict[str, str] = {
    "i16 -> i32": "s_movk_i32 s_cmovk_i32 s_addk_i32 s_mulk_i32",
    "u32 -> i32": "s_sext_i32_i8 s_sext_i32_i16 v_ffbh_u32 v_ffbl_b32",
    "i32 u32 -> i32": "s_ashr_i32 s_bfe_i32",
    "u64 u32 -> u64": "s_lshl_b64 s_lshr_b64 s_bfe_u64",
    "i64 u32 -> i64": "s_ashr_i64 s_bfe_i64",
    "u32 u32 -> u64": "s_bfm_b64",
    "u32 -> u32": "s_bcnt1_i32_b32 s_bcnt0_i32_b32",
    "u64 -> u32": "s_bcnt1_i32_b64 s_bcnt0_i32_b64",
    "u32 -> u64": "s_bitset0_b64 s_bitset1_b64",
    "u64 u32 -> mask": "s_bitcmp0_b64 s_bitcmp1_b64",
    "u32 u32 -> u32": "s_pack_ll_b32_b16 s_pack_lh_b32_b16 s_pack_hl_b32_b16 s_pack_hh_b32_b16 v_cvt_pk_u16_u32",
    "i32 i16 -> mask": " ".join(f"s_cmpk_{w}_i32" for w in ("eq", "lg", "gt", "ge", "lt", "le")),
    "u32 u16 -> mask": " ".join(f"s_cmpk_{w}_u32" for w in ("eq", "lg", "gt", "ge", "lt", "le")),
    "f32 f32 -> f32": "v_cndmask_b32",
    "f16 f16 -> f16": "v_cndmask_b16",
    "u32 i32 -> i32": "v_ashrrev_i32",
    "u32 u64 -> u64": "v_lshlrev_b64 v_lshrrev_b64",
    "u32 i64 -> i64": "v_ashrrev_i64",
    "u16 i16 -> i16": "v_ashrrev_i16",
    "u64 u32 u64 -> u64": "v_lshl_add_u64",
    "u32 u32 u16 -> u32": "v_alignbit_b32 v_alignbyte_b32",
    "i32 u32 u32 -> i32": "v_bfe_i32",
    "u32 u32 u32 -> u32": "v_sad_u8 v_sad_hi_u8 v_sad_u16",
    "u32 u32 u64 -> u64": "v_mad_u64_u32",
    "i32 i32 i64 -> i64": "v_mad_i64_i32",
    "u16 u16 u32 -> u32": "v_mad_u32_u16",
    "i16 i16 i32 -> i32": "v_mad_i32_i16",
    "f16 i16 -> f16": "v_ldexp_f16",
    "f32 i32 -> f32": "v_ldexp_f32",
    "f64 i32 -> f64": "v_ldexp_f64",
    "mix mix mix -> f32": "v_fma_mix_f32",
    "mix mix mix -> f16": "v_fma_mixlo_f16 v_fma_mixhi_f16",
    "u32 -> f32": "v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3 v_cvt_off_f32_i4",
    "i32 i32 -> u32": "v_cvt_pk_i16_i32",
    "f32 u32 u32 -> u32": "v_cvt_pk_u8_f32",
    "f16 u16 -> mask": "v_cmp_class_f16",
    "f32 u32 -> mask": "v_cmp_class_f32",
    "f64 u32 -> mask": "v_cmp_class_f64",
    "u16x2 i16x2 -> i16x2": "v_pk_ashrrev_i16",
    "u32x2 u32x2 -> u32x2": "v_pk_mov_b32",
    "i16x2 i16x2 i32 -> i32": "v_dot2_i32_i16",
    "u16x2 u16x2 u32 -> u32": "v_dot2_u32_u16",
    "u32 u32 i32 -> i32": "v_dot4_i32_i8 v_dot8_i32_i4 v_dot4_i32_iu8 v_dot8_i32_iu4",
    "i16x2 i16x2 -> i32": "v_dot2c_i32_i16",
    "u32 u32 -> i32": "v_dot4c_i32_i8 v_dot8c_i32_i4",
    "f16x2 f16x2 f32 -> f32": "v_dot2_f32_f16",
    "bf16x2 bf16x2 f32 -> f32": "v_dot2_f32_bf16",
    "f16x2 f16x2 -> f32": "v_dot2c_f32_f16 v_dot2acc_f32_f16",
    "f16x2 f16x2 f16 -> f16": "v_dot2_f16_f16",
    "i32 i32 u32 -> u16": "v_ashr_pk_i8_i32 v_ashr_pk_u8_i32",
    "f32 f32 -> u32": "v_cvt_pkrtz_f16_f32 v_cvt_pk_rtz_f16_f32 v_cvt_pk_i16_f32 v_cvt_pk_u16_f32 "
    "v_cvt_pk_bf16_f32 v_cvt_pk_f16_f32",
    "bf16 -> f32": "v_cvt_f32_bf16",
    "bf16x2 bf16x2 -> f32": "v_dot2c_f32_bf16",
}
"""Instructions whose operand types do not all follow from the name."""

SATURATING = """
    v_add_u32 v_add_nc_u32 v_add_i32 v_add_nc_i32 v_add_u16 v_add_nc_u16 v_add_i16 v_add_nc_i16 v_sub_u32 v_sub_nc_u32
    v_sub_i32 v_sub_nc_i32 v_sub_u16 v_sub_nc_u16 v_sub_i16 v_sub_nc_i16 v_subrev_u32 v_subrev_nc_u32 v_subrev_u16
    v_mad_u32_u24 v_mad_i32_i24 v_mad_u32_u16 v_mad_i32_i16 v_mad_u16 v_mad_i16 v_mad_legacy_u16 v_mad_legacy_i16
    v_pk_add_i16 v_pk_sub_i16 v_pk_mad_i16 v_pk_add_u16 v_pk_sub_u16 v_pk_mad_u16 v_dot2_i32_i16 v_dot2_u32_u16
    v_dot4_i32_i8 v_dot4_u32_u8 v_dot8_i32_i4 v_dot8_u32_u4 v_dot2c_i32_i16 v_dot4c_i32_i8 v_dot8c_i32_i4
    v_dot4_i32_iu8 v_dot8_i32_iu4
"""
KEEPING = """
    v_mad_u16 v_mad_i16 v_fma_f16 v_fmac_f16 v_div_fixup_f16 v_fma_mixlo_f16 v_fma_mixhi_f16 v_bitop3_b16
    v_ashr_pk_i8_i32 v_ashr_pk_u8_i32
"""


def of_the_engine(instruction: decode.Instruction) -> bool:
    name = instruction.base
    if name in control.BUILDERS or name in lanes.BUILDERS or name.startswith(ENGINE):
        return True
    return control.end_of(instruction) is not None


def test_no_instruction_stands_in_two_tables() -> None:
    assert sum(len(table) for table in TABLES) == len(OPERATIONS)
    assert not {*control.BUILDERS, *lanes.BUILDERS} & set(OPERATIONS)


@pytest.mark.parametrize(
    "module", ["scalar", "vector_integer", "vector_float", "convert", "compare", "packed", "cdna4"]
)
def test_no_name_is_written_twice(module: str) -> None:
    rows = re.findall(r'^ +f?"((?:[sv]_\w+ ?)+)":', (ROOM / f"{module}.py").read_text(), re.MULTILINE)
    names = [name for row in rows for name in row.split()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("arch", "text"), EXAMPLES, ids=lambda x: x.split()[0])
def test_instructions_of_the_kernels_are_known(arch: str, text: str) -> None:
    instruction = decode.parse(text)
    known = instruction.base in OPERATIONS or instruction.base in vector_operations()
    assert known or of_the_engine(instruction)
    if known:
        chip = Chip(arch == "gfx942", 64 if arch == "gfx942" else 32)
        assert compile_instruction(instruction, chip) is not None


def signature(name: str) -> str:
    """Types by the name: the last type in it is that of the operands, the first that of the result."""
    kinds = [part.replace("b", "u") for part in name.split("_") if re.fullmatch("[uifb](16|32|64)", part)]
    pair = "x2" if name.startswith("v_pk_") else ""
    result = "mask" if OPERATIONS[name].result is None else kinds[0] + pair
    return " ".join([kinds[-1] + pair] * len(OPERATIONS[name].operands)) + " -> " + result


def test_operand_types() -> None:
    listed = {name: text for text, names in SIGNATURES.items() for name in names.split()}
    for name, operation in OPERATIONS.items():
        result = operation.result.name if operation.result is not None else "mask"
        found = " ".join(kind.name for kind in operation.operands) + " -> " + result
        assert found == (listed[name] if name in listed else signature(name)), name
    assert set(listed) <= set(OPERATIONS)


def test_flags() -> None:
    assert {name for name, operation in OPERATIONS.items() if operation.saturates} == set(SATURATING.split())
    assert {name for name, operation in OPERATIONS.items() if operation.keeps_half} == set(KEEPING.split())
    assert {name for name, operation in OPERATIONS.items() if operation.high_half} == {"v_fma_mixhi_f16"}
    assert {name for name, operation in OPERATIONS.items() if operation.sign_flags} == {
        "v_dot4_i32_iu8",
        "v_dot8_i32_iu4",
    }


def test_the_examples_cover_both_chips() -> None:
    assert {arch for arch, _ in EXAMPLES} == {"gfx942", "gfx1100"}
    assert sum(decode.parse(text).base in OPERATIONS for _, text in EXAMPLES) > 300


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_operands_stay_as_they_are_and_results_are_typed(name: str) -> None:
    operation = OPERATIONS[name]
    kinds = [*operation.operands]
    if operation.reads_destination:
        assert operation.result is not None
        kinds.append(operation.result)
    values = pairs(kinds, count=40)
    if operation.carry_in or operation.reads_scc:
        values.append(np.random.default_rng(0).random(values[-1].shape[:2]) < 0.5)
    before = [words(v).copy() if v.dtype != np.bool_ else v.copy() for v in values]
    for value in values:
        value.flags.writeable = False
    options = {"signed": (True, False)} if operation.sign_flags else {"table": 0xE2} if operation.truth_table else {}
    with np.errstate(all="ignore"):
        result = operation.function(*values, **options)
    for value, bits in zip(values, before, strict=True):
        assert ((words(value) if value.dtype != np.bool_ else value) == bits).all()
    two = operation.carry_out or (operation.scc == "returned" and operation.result is not None)
    value, mask = result if two else (result, result)
    if two or operation.result is None:
        assert mask.dtype == np.bool_
        assert mask.shape == values[0].shape[:2]
    if operation.result is not None:
        kind = operation.result
        assert value.dtype == kind.dtype
        assert value.shape == (*values[0].shape[:2], *((2,) if kind.elements == 2 else ()))
