"""octave_gen/build/render.py: sources are complete and repeatable, and a template's typo is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from octave_gen import paths, plan, spec
from octave_gen.build import render
from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import FLYDSL, HIP
from octave_gen.plan import Unit
from octave_gen.spec.model import Spec


@pytest.fixture(scope="module")
def units() -> list[Unit]:
    return plan.units(plan.variants(spec.shipped(), ["gfx942"]))


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the templates that a test may break."""
    folder = tmp_path / "templates"
    shutil.copytree(paths.templates(), folder)
    monkeypatch.setattr(paths, "templates", lambda: folder)
    return folder


def _unit(units: list[Unit], name: str) -> Unit:
    return next(unit for unit in units if unit.name == name)


def test_every_symbol_of_a_unit_is_an_entry_point(units: list[Unit]) -> None:
    for unit in units:
        text = render.render_unit(unit)
        symbols = [symbol for variant in unit.variants for symbol in variant.symbols]
        for symbol in symbols:
            entry = f"\nkernel {symbol.name}\n" if unit.language == FLYDSL else f" void {symbol.name}("
            assert text.count(entry) == 1
        assert text.count("\nkernel " if unit.language == FLYDSL else "extern") == len(symbols)


def test_compact_slots_make_the_same_kernel_whatever_the_rotary_dims(small_spec: Callable[..., Spec]) -> None:
    compact = {"cache_dtypes": ("octave_k3v3_compact", "octave_k3v4_compact", "octave_k4v3_compact"), "head_size": 256}
    one, other = (
        {
            unit.name.replace(f"r{rotary}", ""): render.render_unit(unit).replace(f"r{rotary}", "")
            for unit in plan.units(plan.variants([small_spec(**compact, rotary_dims=rotary)]))
        }
        for rotary in (64, 128)
    )
    assert one == other
    assert len(one) > 10


def test_the_kernel_for_few_workgroups_has_waves_and_threads_of_its_own(units: list[Unit]) -> None:
    unit = next(unit for unit in units if len(unit.first.symbols) > 1)
    dense, wide = unit.first.symbols
    text = render.render_unit(unit)
    assert f"OCTAVE_KERNEL(256, {unit.first.budget.occupancy}) void {dense.name}(" in text
    # 8 waves on 4 SIMDs
    assert f"OCTAVE_KERNEL(512, 2) void {wide.name}(" in text
    assert "struct WideConfig : Config {\n  static constexpr int kWaves = 8;\n};" in text
    assert text.count("<Format, WideConfig>") == len(unit.variants)


def test_parameters_are_the_arguments_of_the_kernel_description(units: list[Unit]) -> None:
    text = render.render_unit(_unit(units, "rotate_h256_portable_gfx942"))
    start = text.index("rotate_h256_bf16_portable_gfx942(") + len("rotate_h256_bf16_portable_gfx942(")
    parameters = [line.strip(" ,\n") for line in text[start : text.index(") {", start)].split(",")]
    assert parameters == [
        "__bf16* x",
        "const uint32_t* signs",
        "const __bf16* center",
        "int64_t token_stride",
        "int64_t head_stride",
        "int32_t num_tokens",
        "int32_t k_layout",
        "int32_t inverse",
    ]


@pytest.mark.parametrize(("encoder", "search"), [("plain", 0), ("search", 1)])
def test_the_encoder_reaches_the_source(encoder: str, search: int, units: list[Unit]) -> None:
    text = render.render_unit(_unit(units, f"store_octave_k3v3_h256r64_{encoder}_portable_gfx942"))
    assert f"static constexpr int kSearch = {search};" in text
    assert text.count("octave::cache_store<Format, Config>(") == 2


def test_the_layout_constants_reach_the_source(units: list[Unit]) -> None:
    text = render.render_unit(_unit(units, "store_octave_k3v4_h256r64_plain_portable_gfx942"))
    for line in ("kSlotBytes = 248;", "kVOffset = 104;", "kKScaleOffset = 232;", "#define OCTAVE_WAVE_SIZE 64"):
        assert line in text


def test_rendering_is_repeatable(units: list[Unit]) -> None:
    assert [render.render_unit(unit) for unit in units] == [render.render_unit(unit) for unit in units]


def test_no_file_of_a_unit_is_forgotten(units: list[Unit]) -> None:
    names = {render.relative_name(file) for file in render.template_files(_unit(units, "reduce_h128_portable_gfx942"))}
    assert names == {
        "hip/macros.j2",
        "hip/reduce_portable.hip.j2",
        "include/octave/device.h",
        "include/octave/lanes.h",
        "include/octave/reduce.h",
        "include/octave/vector.h",
    }


def test_every_template_and_header_serves_a_tier(units: list[Unit]) -> None:
    used = {file for unit in units if unit.language == HIP for file in render.template_files(unit)}
    # a tier that no chip offers yet has no unit of its own
    unit = units[0]
    for tier in (tier for kind in KINDS.values() for tier in kind.tiers if tier.language == HIP):
        made = replace(unit, variants=(replace(unit.first, tier=tier),))
        used |= set(render.template_files(made))
    there = {
        file for folder in ("hip", "include") for file in (paths.templates() / folder).rglob("*") if file.is_file()
    }
    assert used == there


def test_every_module_in_flydsl_serves_a_tier(units: list[Unit]) -> None:
    used = {file for unit in units if unit.language == FLYDSL for file in render.template_files(unit)}
    room = paths.PACKAGE / "kernels" / "flydsl"
    assert {file for file in used if file.parent == room} == set(room.glob("*.py")) - {
        room / "__init__.py",
        room / "tiers.py",
    }


def test_a_name_that_the_context_lacks_is_an_error(units: list[Unit], templates: Path) -> None:
    file = templates / "hip" / "reduce_portable.hip.j2"
    file.write_text(file.read_text() + "{% if false %}{{ head_sise }}{% endif %}\n")
    with pytest.raises(OctaveError) as error:
        render.render_unit(_unit(units, "reduce_h128_portable_gfx942"))
    assert "head_sise" in error.value.what
    assert error.value.where == "templates/hip/reduce_portable.hip.j2"


def test_a_missing_attribute_is_an_error_not_an_empty_string(units: list[Unit], templates: Path) -> None:
    file = templates / "hip" / "macros.j2"
    file.write_text(file.read_text().replace("unit.first.arch.wave_size", "unit.first.arch.wave_sise"))
    with pytest.raises(OctaveError, match="wave_sise"):
        render.render_unit(_unit(units, "reduce_h128_portable_gfx942"))


def test_a_syntax_error_names_file_and_line(units: list[Unit], templates: Path) -> None:
    (templates / "hip" / "reduce_portable.hip.j2").write_text(
        "{% import 'macros.j2' as octave with context %}\n{% if %}\n"
    )
    with pytest.raises(OctaveError) as error:
        render.render_unit(_unit(units, "reduce_h128_portable_gfx942"))
    assert error.value.where == "templates/hip/reduce_portable.hip.j2:2"


def test_a_header_that_does_not_exist_is_named(units: list[Unit], templates: Path) -> None:
    (templates / "include" / "octave" / "vector.h").unlink()
    with pytest.raises(OctaveError) as error:
        render.template_files(_unit(units, "reduce_h128_portable_gfx942"))
    assert error.value.where is not None
    assert error.value.where.endswith("octave/vector.h")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("{{ 1 // unit.variants[9:] | length }}", "ZeroDivisionError"),
        ('{{ "a" + 1 }}', "TypeError"),
        ("{{ [].pop() }}", "IndexError"),
        ('{% include "reduce_portable.hip.j2" %}', "RecursionError"),
    ],
)
def test_whatever_a_template_raises_is_told_with_its_line(
    units: list[Unit], templates: Path, expression: str, problem: str
) -> None:
    (templates / "hip" / "reduce_portable.hip.j2").write_text(f"// first\n{expression}\n")
    with pytest.raises(OctaveError, match=f"cannot be rendered: {problem}") as error:
        render.render_unit(_unit(units, "reduce_h128_portable_gfx942"))
    assert error.value.where == "templates/hip/reduce_portable.hip.j2:2, reduce_h128_portable_gfx942"


def test_a_template_that_imports_itself_is_listed_once(units: list[Unit], templates: Path) -> None:
    file = templates / "hip" / "reduce_portable.hip.j2"
    file.write_text('{% import "reduce_portable.hip.j2" as octave %}\n')
    assert render.template_files(_unit(units, "reduce_h128_portable_gfx942")) == (file,)


@pytest.mark.parametrize("name", ["hip/reduce_portable.hip.j2", "hip/macros.j2", "include/octave/reduce.h"])
def test_a_template_that_is_no_utf_8(units: list[Unit], templates: Path, name: str) -> None:
    file = templates / name
    file.write_bytes(file.read_bytes() + b"\xff")
    with pytest.raises(OctaveError, match="is no UTF-8") as error:
        render.template_files(_unit(units, "reduce_h128_portable_gfx942"))
    assert error.value.where == str(file)
