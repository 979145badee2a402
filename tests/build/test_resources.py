from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_units import BUDGET, Built, compile_texts, tiny_text, tiny_unit

from octave_gen import arch as archs
from octave_gen.build import resources
from octave_gen.kernels.base import I32, Argument
from octave_gen.plan import Unit

UNIT = tiny_unit()
NAMES = tuple(variant.name for variant in UNIT.variants)
FLAGS_AT, ABI_AT = 48, 8


@pytest.fixture
def data(built: Built, code_object: Callable[[Unit], bytes]) -> bytes:
    return code_object(UNIT)


@pytest.fixture
def notes(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the gate read the code object's notes with the given fields of each kernel changed; None removes one."""

    def change(**fields: Any) -> None:
        code = resources.read(data, "test")
        kernels = {
            symbol: {k: v for k, v in (kernel | {f".{k}": v for k, v in fields.items()}).items() if v is not None}
            for symbol, kernel in code.kernels.items()
        }
        monkeypatch.setattr(resources, "read", lambda data, where: replace(code, kernels=kernels))

    return change


def problems(unit: Unit, data: bytes) -> list[str]:
    return list(resources.gate(unit, data).problems)


def test_unit_within_its_budget_passes(data: bytes) -> None:
    verdict = resources.gate(UNIT, data)
    assert verdict.problems == ()
    assert set(verdict.resources) == set(NAMES)
    taken = verdict.resources[NAMES[0]]
    assert 0 < taken.vgprs <= BUDGET.vgprs
    assert 0 < taken.sgprs <= BUDGET.sgprs
    assert (taken.kernarg_bytes, taken.occupancy) == (36, 8)
    assert (taken.agprs, taken.lds_bytes, taken.scratch_bytes, taken.vgpr_spills, taken.sgpr_spills) == (0, 0, 0, 0, 0)


def test_notes_are_the_compilers(tmp_path: Path) -> None:
    """LDS, scratch and spills of kernels that are made to have them."""
    head = 'extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256), amdgpu_num_vgpr(24))) void '
    text = (
        head + "lds(int* x) { __attribute__((shared)) static int s[1000]; int i = __builtin_amdgcn_workitem_id_x();"
        "s[i] = x[i]; __builtin_amdgcn_s_barrier(); x[i] = s[255 - i]; }\n"
        + head
        + "spills(const float* x, float* y) { float v[64]; int i = __builtin_amdgcn_workitem_id_x();\n"
        "#pragma unroll\nfor (int j = 0; j < 64; ++j) v[j] = x[i + 64 * j];\n"
        '#pragma unroll\nfor (int j = 0; j < 64; ++j) asm volatile("" : "+v"(v[j]));\n'
        "#pragma unroll\nfor (int j = 0; j < 64; ++j) y[i + 64 * j] = v[j]; }\n"
    )
    code = resources.read(compile_texts({"k": text}, tmp_path, "gfx1100")["k"], "k")
    lds, spills = (resources.resources(code.kernels[name], archs.get("gfx1100"), 256) for name in ("lds", "spills"))
    assert lds.lds_bytes == 4000
    assert lds.vgpr_spills == 0
    assert spills.vgpr_spills > 20
    assert spills.scratch_bytes >= 4 * 20
    assert spills.vgprs <= 24


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vgpr_count": 33}, "vgprs is 33, at most 32 allowed"),
        ({"agpr_count": 1}, "agprs is 1, at most 0 allowed"),
        ({"sgpr_count": 33}, "sgprs is 33, at most 32 allowed"),
        ({"group_segment_fixed_size": 4}, "lds_bytes is 4, at most 0 allowed"),
        ({"vgpr_spill_count": 2}, "vgpr_spills is 2, at most 0 allowed"),
        ({"sgpr_spill_count": 1}, "sgpr_spills is 1, at most 0 allowed"),
        ({"private_segment_fixed_size": 16}, "scratch_bytes is 16, at most 0 allowed"),
        ({"wavefront_size": 32}, "it is compiled for waves of 32, not 64"),
        ({"max_flat_workgroup_size": 63}, "it holds 63 threads, but is launched with 64"),
        ({"uses_dynamic_stack": True}, "it uses a dynamic stack, so its scratch is not known"),
        ({"vgpr_count": None}, "cannot be evaluated: the notes have no .vgpr_count"),
        ({"agpr_count": None}, "cannot be evaluated: the notes have no .agpr_count"),
        ({"sgpr_spill_count": None}, "cannot be evaluated: the notes have no .sgpr_spill_count"),
        ({"args": None}, "cannot be evaluated: the notes have no .args"),
    ],
)
def test_every_violation_is_named(notes: Callable[..., None], fields: dict[str, Any], said: str) -> None:
    notes(**fields)
    assert problems(UNIT, b"") == [f"{name}: {said} (tiny.toml)" for name in NAMES]


def test_occupancy_below_the_budget(notes: Callable[..., None]) -> None:
    notes(vgpr_count=65)
    unit = tiny_unit(budget=replace(BUDGET, vgprs=128))
    assert problems(unit, b"") == [f"{name}: occupancy is 7, at least 8 wanted (tiny.toml)" for name in NAMES]


def test_all_violations_are_in_one_report(notes: Callable[..., None]) -> None:
    notes(vgpr_count=300, vgpr_spill_count=1)
    assert len(problems(UNIT, b"")) == 2 * 3  # occupancy too


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda args: args[:-1], "at number 4: compiled no more, planned by_value of 4 bytes at offset 32"),
        (
            lambda args: [*args, {".offset": 40, ".size": 4, ".value_kind": "by_value"}],
            "at number 5: compiled by_value of 4 bytes at offset 40, planned no more",
        ),
        (
            lambda args: [{**args[0], ".value_kind": "by_value"}, *args[1:]],
            "at number 0: compiled by_value of 8 bytes at offset 0, planned global_buffer of 8 bytes at offset 0",
        ),
        (
            lambda args: [*args[:2], {**args[2], ".size": 8}, *args[3:]],
            "at number 2: compiled by_value of 8 bytes at offset 16, planned by_value of 4 bytes at offset 16",
        ),
        (
            lambda args: [*args[:3], {**args[3], ".offset": 20}, *args[4:]],
            "at number 3: compiled by_value of 8 bytes at offset 20, planned by_value of 8 bytes at offset 24",
        ),
    ],
)
def test_arguments_must_be_the_planned_ones(
    data: bytes, notes: Callable[..., None], change: Callable[[list[Any]], list[Any]], said: str
) -> None:
    args = resources.read(data, "test").kernels[NAMES[0]][".args"]
    notes(args=change(args))
    assert problems(UNIT, b"") == [f"{n}: its arguments differ from the plan's {said} (tiny.toml)" for n in NAMES]


def test_hidden_arguments_are_no_mismatch(data: bytes, notes: Callable[..., None]) -> None:
    args = resources.read(data, "test").kernels[NAMES[0]][".args"]
    notes(args=[*args, {".offset": 40, ".size": 4, ".value_kind": "hidden_block_count_x"}])
    assert problems(UNIT, b"") == []


def test_changed_plan_is_noticed(data: bytes) -> None:
    tier = UNIT.first.tier
    longer = replace(tier, arguments=(*tier.arguments, Argument("more", I32)))
    unit = replace(UNIT, variants=tuple(replace(variant, tier=longer) for variant in UNIT.variants))
    assert len(problems(unit, data)) == 2


def test_missing_symbol(data: bytes) -> None:
    other = tiny_unit(256).variants[0]
    unit = replace(UNIT, variants=(*UNIT.variants, other))
    assert problems(unit, data) == [f"{other.name}: the code object has no such symbol (tiny.toml)"]


def test_unplanned_symbol(data: bytes) -> None:
    unit = replace(UNIT, variants=UNIT.variants[:1])
    assert problems(unit, data) == [f"{UNIT.name}: the code object holds a kernel that is not planned: {NAMES[1]}"]


def test_code_object_of_another_arch(code_object: Callable[[Unit], bytes]) -> None:
    found = problems(UNIT, code_object(tiny_unit(arch="gfx1100")))
    assert found[0].startswith(f"{UNIT.name}: the code object is for amdgcn-amd-amdhsa--gfx1100 (ELF flags 0x41)")
    assert f"{NAMES[0]}: the code object has no such symbol (tiny.toml)" in found


def test_elf_of_another_arch_under_the_same_notes(data: bytes) -> None:
    changed = bytearray(data)
    struct.pack_into("<I", changed, FLAGS_AT, 0x54F)
    assert "ELF flags 0x54f" in problems(UNIT, bytes(changed))[0]


@pytest.mark.parametrize(
    ("flags", "feature"), [(0x64C, "xnack"), (0x74C, "xnack"), (0x94C, "sramecc"), (0xD4C, "sramecc")]
)
def test_code_bound_to_a_setting(data: bytes, flags: int, feature: str) -> None:
    changed = bytearray(data)
    struct.pack_into("<I", changed, FLAGS_AT, flags)
    assert problems(UNIT, bytes(changed)) == [
        f"{UNIT.name}: the code object is bound to one setting of {feature} (ELF flags {flags:#x})"
    ]


def test_other_code_object_version(data: bytes) -> None:
    changed = bytearray(data)
    changed[ABI_AT] += 1
    assert problems(UNIT, bytes(changed)) == [f"{UNIT.name}: the code object has version 6, not 5"]


@pytest.mark.parametrize("size", [0, 3, 40, 64, 700, 2000, -1])
def test_truncated_code_object(data: bytes, size: int) -> None:
    found = problems(UNIT, data[:size])
    assert len(found) == 1
    assert "cannot be read" in found[0]
    assert UNIT.name in found[0]


def test_object_for_another_machine(built: Built) -> None:
    found = problems(UNIT, built.libraries["gfx942"].library.read_bytes())
    assert "EM_X86_64" in found[0]


def test_a_new_chip_is_a_row_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chip = replace(archs.get("gfx1100"), name="gfx1101", elf_machine=0x46)
    monkeypatch.setitem(archs.ARCHS, chip.name, chip)
    unit = tiny_unit(arch=chip.name)
    (tmp_path / "tiny.h").write_text("#define TINY 1.0f\n")
    compiled = compile_texts({unit.name: tiny_text(unit)}, tmp_path, chip.name)[unit.name]
    assert problems(unit, compiled) == []
