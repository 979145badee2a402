"""built: a library is read with its manifest, and the variants are chosen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from octave_gen import manifest, plan
from octave_gen.arch import ARCHS
from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS
from octave_gen.spec.model import Spec
from octave_gen.verify import built
from octave_gen.verify.built import Built


@pytest.fixture
def out(small_build: Path, tmp_path: Path) -> Path:
    shutil.copytree(small_build, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def library(small_build: Path) -> Built:
    return built.read(small_build, "gfx1100")


def test_what_a_build_wrote(library: Built, small_spec: Callable[..., Spec]) -> None:
    planned = plan.variants([small_spec(query_groups=(4,))], ["gfx1100"])
    assert sorted(subject.variant.name for subject in library.subjects) == sorted(variant.name for variant in planned)
    records = {record["name"]: record for record in library.manifest["variants"]}
    for subject in library.subjects:
        name = subject.variant.name
        assert manifest.sha256(library.code_objects[name]) == library.hashes[name]
        assert library.hashes[name] == records[name]["code_object"]["sha256"]
        assert library.subject(name) is subject


def test_decode_comes_with_the_reduce_of_its_head_size_and_dtype(library: Built) -> None:
    merges = {s.variant.name: s.merge.name for s in library.subjects if s.kind == "decode" and s.merge is not None}
    assert merges == {
        f"decode_octave_k3v3_h128r64_g4_q4_{dtype}_{tier.name}_gfx1100": f"reduce_h128_{dtype}_portable_gfx1100"
        for dtype in ("f16", "bf16")
        for tier in KINDS["decode"].tiers_on(ARCHS["gfx1100"])
    }
    assert all(s.merge is None for s in library.subjects if s.kind in ("store", "rotate", "reduce"))


def test_archs_that_are_built(out: Path, tmp_path: Path) -> None:
    assert built.built_archs(out) == ["gfx942", "gfx1100"]
    shutil.rmtree(out / "gfx942")
    assert built.built_archs(out) == ["gfx1100"]
    with pytest.raises(OctaveError, match="there is no library for gfx942") as error:
        built.read(out, "gfx942")
    assert error.value.exit_code == 2
    assert "octave-gen build --arch gfx942" in str(error.value.hint)
    shutil.rmtree(out / "gfx1100")
    with pytest.raises(OctaveError, match="nothing is built here"):
        built.built_archs(out)


def test_a_truncated_library(out: Path) -> None:
    library = next((out / "gfx942").glob("*.so"))
    library.write_bytes(library.read_bytes()[:-1])
    with pytest.raises(OctaveError, match="truncated or replaced"):
        built.read(out, "gfx942")


def test_a_library_with_other_code_objects_than_its_manifest_says(out: Path) -> None:
    path = out / "gfx942" / manifest.FILE_NAME
    made = json.loads(path.read_text())
    made["variants"][0]["code_object"]["sha256"] = "0" * 64
    path.write_text(manifest.dump(made))
    with pytest.raises(OctaveError, match="another code object of store_octave_k3v3_h128r64"):
        built.read(out, "gfx942")


def test_a_manifest_of_sources(out: Path) -> None:
    path = out / "gfx942" / manifest.FILE_NAME
    made = json.loads(path.read_text())
    made["stage"] = "generated"
    path.write_text(manifest.dump(made))
    with pytest.raises(OctaveError, match="describes no library for gfx942"):
        built.read(out, "gfx942")


def test_an_unknown_arch(out: Path) -> None:
    with pytest.raises(OctaveError, match="gfx906"):
        built.read(out, "gfx906")


def test_choice(library: Built, small_spec: Callable[..., Spec]) -> None:
    assert built.choose([library], None, None) == [subject.variant.name for subject in library.subjects]
    assert built.choose([library], "rotate_*_f16_*", None) == ["rotate_h128_f16_portable_gfx1100"]
    planned = plan.select(plan.variants([small_spec(query_groups=(4,), query_dtypes=("fp16",))]), "*_portable_*")
    both = [f"{kind}_h128_f16_portable_gfx1100" for kind in ("rotate", "reduce")]
    assert built.choose([library], "r*", planned) == both
    with pytest.raises(OctaveError, match=r"no variant that is built matches .*did you mean rotate_h128") as error:
        built.choose([library], "rotat_h128_f16_portable_gfx1100", None)
    assert error.value.exit_code == 2
    with pytest.raises(OctaveError, match=r"matches 'reduc_\*' \(did you mean reduce_h128_f16_portable_gfx1100, red"):
        built.choose([library], "reduc_*", None)
    with pytest.raises(OctaveError, match="name no chip that a library is there for") as error:
        built.choose([library], None, plan.variants([small_spec()], ["gfx942"]))
    assert error.value.exit_code == 2
    more = [*planned, *plan.select(plan.variants([small_spec(head_size=256)], ["gfx1100"]), "*_portable_*")]
    with pytest.raises(OctaveError, match=r"not built: decode_octave_k3v3_h256r64_g4_q1_bf16.* and 7 more") as error:
        built.choose([library], None, more)
    assert error.value.exit_code == 2
    assert len(built.choose([library], "*_h128*", more)) == 4
