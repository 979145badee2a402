"""Units in FlyDSL through a whole build, next to others."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_units
from fly_units import fly_unit, source
from tiny_units import Workshop, pretended_link, tiny_unit

from octave_gen import isa, manifest
from octave_gen.build import bundle, link, preview
from octave_gen.build.flydsl import tool
from octave_gen.errors import OctaveError


@pytest.fixture
def shop(flydsl: None, workshop: Workshop) -> Workshop:
    workshop.tools = replace(workshop.tools, flydsl=tool.find())
    return workshop


def test_a_library_of_both_languages(shop: Workshop) -> None:
    sources = [source(fly_unit()), tiny_units.source(tiny_unit())]
    (made,) = shop.build(sources)
    described = manifest.read(made.manifest)
    assert described["compiler"]["flydsl"] == {"version": "0.5.0", "identity": tool.find().identity}
    assert described["compiler"]["name"] == "ziglang"
    assert [record["language"] for record in described["variants"]] == ["flydsl"] * 2 + ["hip"] * 2
    codes = bundle.code_objects(made.library)
    for record in described["variants"]:
        code = codes[record["symbol"]]
        assert record["code_object"]["sha256"] == manifest.sha256(code)
        assert isa.load(code).version == (6 if record["language"] == "flydsl" else 5)
        assert record["resources"]["vgprs"] > 0
    assert [line.split(" ", 1)[0] for line in shop.lines if line.startswith("[")] == ["[1/1]", "[1/1]"]
    assert any("2 to compile" in line and "flydsl 0.5.0)" in line for line in shop.lines)
    shop.lines.clear()
    (again,) = shop.build(sources)
    assert again.unchanged
    (elsewhere,) = shop.build(sources, "other")
    assert elsewhere.compiled == 0
    assert elsewhere.library.read_bytes() == made.library.read_bytes()


def test_a_library_without_it_does_not_name_it(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "link", pretended_link(lambda arch: None))
    (made,) = workshop.build([tiny_units.source(tiny_unit())])
    assert "flydsl" not in manifest.read(made.manifest)["compiler"]


def test_what_fails_is_kept_and_can_be_done_again(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "link", pretended_link(lambda arch: None))
    units = [fly_unit("raises"), fly_unit("drops_return"), fly_unit("spills"), fly_unit("speaks")]
    with pytest.raises(OctaveError, match="the build failed with ") as raised:
        shop.build([source(unit) for unit in units], keep_going=True)
    failed = shop.folder / "out" / "gfx942" / "failed"
    name = units[0].name
    assert f"{name}: ValueError: this kernel cannot be traced\n    log: {failed / name}.log" in raised.value.what
    assert f"{units[1].name}: error: flydsl: FlyDSL drops `return` under control flow:" in raised.value.what
    assert f"{units[2].first.name}: vgpr_spills is " in raised.value.what
    kept = {path.name for path in failed.iterdir()}
    assert {f"{name}.{end}" for end in ("flydsl", "log", "json", "sh")} <= kept
    assert {f"{units[2].name}.flydsl", f"{units[2].name}.hsaco"} <= kept
    assert json.loads((failed / f"{name}.json").read_text())["name"] == name
    done = subprocess.run(["sh", str(failed / f"{name}.sh")], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ValueError: this kernel cannot be traced" in done.stderr
    subprocess.run(["sh", str(failed / f"{units[3].name}.sh")], check=True, stderr=subprocess.DEVNULL)
    assert (failed / f"{units[3].name}.hsaco").stat().st_size > 0


def test_nothing_in_flydsl_is_started_after_another_failure(shop: Workshop) -> None:
    bad = tiny_units.source(tiny_unit(), tiny_units.tiny_text(tiny_unit(), "  y[0] = nothing;\n"))
    with pytest.raises(OctaveError):
        shop.build([source(fly_unit()), bad])
    assert not [line for line in shop.lines if "sound_h64" in line]


def test_a_dry_run_knows_what_is_cached(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = fly_unit()
    how = {"out": shop.folder / "out", "compiler": "ziglang", "progress": shop.lines.append}
    (step,) = preview.preview(unit.variants, **how)
    assert step.action == "compile"
    monkeypatch.setattr(link, "link", pretended_link(lambda arch: None))
    shop.build([source(unit)], Path("elsewhere"))
    (step,) = preview.preview(unit.variants, **how)
    assert step.action == "cached"
