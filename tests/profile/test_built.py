"""Finding what a build left of the kernels to profile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from octave_gen import plan
from octave_gen.arch import ARCHS
from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.kernels import KINDS
from octave_gen.profile.built import kernels
from octave_gen.spec.model import Spec

REDUCE = "reduce_h128_bf16_portable_gfx942"


@pytest.fixture(scope="module")
def planned(small_spec: Callable[..., Spec]) -> list[plan.Variant]:
    """What `small_build` holds."""
    return plan.variants([small_spec(query_groups=(4,))])


def test_kernels_come_in_the_order_asked_for(planned: list[plan.Variant], small_build: Path) -> None:
    chosen = list(reversed(plan.select(planned, "*_bf16_*")))
    found = kernels(chosen, planned, small_build)
    assert [kernel.name for kernel in found] == [symbol.name for variant in chosen for symbol in variant.symbols]
    assert {kernel.waves for kernel in found if kernel.name.endswith("_wide")} == {8}
    archs = [name for name, chip in ARCHS.items() if not chip.on_request]
    assert {(k.variant.arch.name, k.variant.kind.name) for k in found} == set(product(archs, KINDS))
    for kernel in found:
        assert kernel.code_object.startswith(b"\x7fELF")
        assert kernel.subject.variant.name == kernel.variant.name
        assert kernel.resources["occupancy"] >= 1
        assert kernel.name.encode() in kernel.code_object


def test_what_is_not_built_is_named_with_the_command(planned: list[plan.Variant], tmp_path: Path) -> None:
    chosen = plan.select(planned, "*_gfx942")
    with pytest.raises(OctaveError) as caught:
        kernels(chosen, planned, tmp_path)
    assert caught.value.exit_code == WRONG_REQUEST
    assert caught.value.what.startswith(f"{len(chosen)} of {len(chosen)} kernels are not built, or from other sources")
    assert caught.value.what.endswith(", ...")
    assert caught.value.where == str(tmp_path / "gfx942")
    assert "octave-gen build --arch gfx942" in str(caught.value.hint)


@pytest.mark.parametrize("key", ["source", "templates", "flags"])
def test_kernels_of_other_sources_are_not_profiled(
    key: str, planned: list[plan.Variant], small_build: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_build / "gfx942", tmp_path / "gfx942")
    path = tmp_path / "gfx942" / "manifest.json"
    read = json.loads(path.read_text())
    record = next(record for record in read["variants"] if record["name"] == REDUCE)
    changed = {"source": {**record["source"], "sha256": "0" * 64}, "templates": record["templates"][1:]}
    record[key] = changed.get(key, [*record["flags"], "-O0"])
    path.write_text(json.dumps(read))
    chosen = plan.select(planned, "reduce_*gfx942")
    with pytest.raises(OctaveError, match=f"1 of 2 kernels are not built, or from other sources: {REDUCE}\n"):
        kernels(chosen, planned, tmp_path)
    assert len(kernels(plan.select(planned, "rotate_*gfx942"), planned, tmp_path)) == 2
