"""A build that would take variants away: told always, refused in the default folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_units import BODY, Workshop, pretended_link, source, tiny_text, tiny_unit

from octave_gen import paths, plan, spec
from octave_gen.build import link, pipeline, replaced
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.spec.model import Spec

FULL = [tiny_unit(64), tiny_unit(128)]


@pytest.fixture
def out(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default folder of builds, where a library of 4 variants is."""
    monkeypatch.setattr(link, "link", pretended_link(lambda arch: None))
    folder = workshop.folder / "out"
    monkeypatch.setattr(paths, "default_out", lambda: folder)
    workshop.build([source(unit) for unit in FULL])
    return folder


@pytest.fixture
def lines(workshop: Workshop, out: Path) -> list[str]:
    """What is told of replaced libraries from now on."""
    workshop.lines.clear()
    return workshop.lines


def told(lines: list[str]) -> list[str]:
    return [line for line in lines if "replaces" in line]


LOSS = "gfx942: replaces a library of 4 variants, 2 of which it does not hold"


def test_lost_variants_are_told(workshop: Workshop, lines: list[str]) -> None:
    workshop.build([source(FULL[0])])
    assert told(lines) == [LOSS]
    workshop.build([source(unit) for unit in FULL])  # the larger one, from the cache
    assert told(lines) == [LOSS]
    workshop.build([source(FULL[0])])  # the smaller one, from the cache
    assert told(lines) == [LOSS, LOSS]
    workshop.build([source(FULL[0])])  # up to date
    workshop.build([source(unit) for unit in FULL], "other")
    assert told(lines) == [LOSS, LOSS]


def test_a_library_of_the_same_variants_is_replaced_silently(workshop: Workshop, lines: list[str]) -> None:
    changed = tiny_text(FULL[0], BODY.replace("TINY", "2.0f"))
    workshop.build([source(FULL[0], changed), source(FULL[1])])
    assert told(lines) == []


def test_one_variant_is_singular(workshop: Workshop, out: Path) -> None:
    path = out / "gfx942" / "manifest.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "variants": described["variants"][:1]}))
    (target,) = pipeline.by_arch([source(FULL[1])], workshop.tools, out)
    assert replaced.note(target) == "gfx942: replaces a library of 1 variant, 1 of which it does not hold"


@pytest.mark.parametrize("damage", ["{", "{}", "[]"])
def test_a_manifest_that_cannot_be_read_counts_for_nothing(workshop: Workshop, lines: list[str], damage: str) -> None:
    (workshop.folder / "out" / "gfx942" / "manifest.json").write_text(damage)
    workshop.build([source(FULL[0])])
    assert told(lines) == []


def asked_for(small_spec: Callable[..., Spec], out: Path, pattern: str) -> None:
    """Plans what `build` would for a spec of 9 variants and a filter."""
    planned = plan.variants([small_spec(query_groups=(4,))], ["gfx942"])
    pipeline.targets(plan.select(planned, pattern), out=out, compiler="ziglang")


def test_a_part_does_not_replace_more_in_the_default_folder(small_spec: Callable[..., Spec], out: Path) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(OctaveError) as caught:
        asked_for(small_spec, out, "rotate_*_f16_*")
    assert caught.value.exit_code == WRONG_REQUEST
    assert caught.value.what == "this build has 1 variant, and would replace a library of 4"
    assert caught.value.where == str(out / "gfx942")
    assert "--out DIR" in str(caught.value.hint)
    assert str(caught.value.hint).endswith("`octave-gen clean --arch gfx942`")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_default_folder_by_another_name(small_spec: Callable[..., Spec], out: Path) -> None:
    (out.parent / "link").symlink_to(out)
    with pytest.raises(OctaveError, match="would replace a library of 4"):
        asked_for(small_spec, out.parent / "link", "rotate_*")


@pytest.mark.parametrize("pattern", ["*", "*_f16_*"])
def test_as_many_variants_may_replace_it(small_spec: Callable[..., Spec], out: Path, pattern: str) -> None:
    asked_for(small_spec, out, pattern)


def test_another_folder_takes_any_part(small_spec: Callable[..., Spec], out: Path) -> None:
    (out.parent / "other").mkdir()
    (out / "gfx942").rename(out.parent / "other" / "gfx942")
    asked_for(small_spec, out.parent / "other", "rotate_*")


def test_another_arch_is_not_replaced(small_spec: Callable[..., Spec], out: Path) -> None:
    (out / "gfx942").rename(out / "gfx1100")
    asked_for(small_spec, out, "rotate_*")


def test_all_shipped_variants_may_replace_a_larger_library(
    small_spec: Callable[..., Spec], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specs of a checkout shrank."""
    shipped = small_spec(query_groups=(4,), query_dtypes=("fp16",), archs=("gfx942",))
    path = out / "gfx942" / "manifest.json"
    described = json.loads(path.read_text())
    more = [{**record, "name": f"{record['name']}{i}"} for record in described["variants"] for i in range(9)]
    path.write_text(json.dumps({**described, "variants": more}))
    monkeypatch.setattr(spec, "shipped", lambda: [shipped])
    asked_for(small_spec, out, "*_f16_*")
    with pytest.raises(OctaveError, match="would replace a library of 36"):
        asked_for(small_spec, out, "rotate_*")
