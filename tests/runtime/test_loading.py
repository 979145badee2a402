from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
import torch

import octave_gen
from octave_gen import arch as archs
from octave_gen import paths
from octave_gen.errors import OctaveError
from octave_gen.manifest import FILE_NAME
from octave_gen.runtime import loading
from octave_gen.runtime.dispatch import Registry

Built = Callable[..., dict[str, Any]]
Write = Callable[..., Path]


def test_import_needs_no_torch() -> None:
    code = "import sys, octave_gen; assert 'torch' not in sys.modules; assert 'load' in dir(octave_gen)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_load_is_found_lazily() -> None:
    assert octave_gen.load is loading.load
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        octave_gen.laod  # noqa: B018


def test_load(built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any) -> None:
    built = built_manifest()
    out = write_build(built)
    library = octave_gen.load("gfx942", out=out)
    assert library.arch == "gfx942"
    assert library.path == out / "gfx942" / built["library"]["file"]
    assert library.manifest == built
    assert library.namespace == built["library"]["namespace"]
    assert [variant.name for variant in library.variants] == [record["name"] for record in built["variants"]]
    assert registry.libraries == (library,)
    assert host_ops.paths == [str(library.path)]
    with pytest.raises(FrozenInstanceError):
        library.arch = "gfx1100"  # type: ignore[misc]


def test_same_library_is_loaded_once(
    built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any, tmp_path: Path
) -> None:
    out = write_build(built_manifest())
    first = octave_gen.load("gfx942", out=out)
    assert octave_gen.load("gfx942", out=str(out)) is first
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    assert octave_gen.load("gfx942", out=copy) is first
    assert len(host_ops.paths) == 1
    assert registry.libraries == (first,)


def test_namespace_that_the_process_has_already(
    built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any
) -> None:
    built = built_manifest()
    host_ops.define(built["library"]["namespace"])
    library = octave_gen.load("gfx942", out=write_build(built))
    assert host_ops.paths == []
    assert registry.libraries == (library,)


def test_two_archs_and_a_users_library(
    built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any
) -> None:
    builds = [built_manifest("gfx942"), built_manifest("gfx1100"), built_manifest("gfx942", gqa_groups=(5,))]
    outs = [write_build(builds[0]), write_build(builds[1]), write_build(builds[2], out="mine")]
    loaded = [octave_gen.load(built["arch"], out=out) for built, out in zip(builds, outs, strict=True)]
    assert registry.libraries == tuple(loaded)
    for library in loaded:
        for variant in library.variants:
            if variant.key.kind == "decode":
                assert registry.find(variant.key) == (library, variant)


def test_default_folder(
    built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paths.default_out() == Path(octave_gen.__file__).parents[1] / "build"
    monkeypatch.setattr(paths, "checkout", lambda: None)
    out = write_build(built_manifest(), out="cache/build")
    monkeypatch.setenv("OCTAVE_CACHE_DIR", str(out.parent))
    assert paths.default_out() == out
    assert octave_gen.load("gfx942").path.parent == out / "gfx942"


def test_arch_of_the_current_device(
    built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(loading, "arch_of_device", {3: "gfx1100"}.get)
    assert octave_gen.load(out=write_build(built_manifest("gfx1100"))).arch == "gfx1100"


def test_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OctaveError, match=r"no GPU[\s\S]*name the arch: octave_gen.load\('gfx942'\)"):
        octave_gen.load(out=tmp_path)


@pytest.mark.parametrize("arch", [942, b"gfx942", ["gfx942"]])
def test_an_arch_that_is_no_text(arch: Any, tmp_path: Path) -> None:
    with pytest.raises(OctaveError, match=r"is no name of an arch[\s\S]*octave_gen.load\('gfx942'\)"):
        octave_gen.load(arch, out=tmp_path)


@pytest.mark.parametrize("arch", ["gfx1030", "gfx9942", "sm_90", ""])
def test_unknown_arch(arch: str, tmp_path: Path) -> None:
    with pytest.raises(OctaveError) as raised:
        octave_gen.load(arch, out=tmp_path)
    assert all(name in str(raised.value) for name in archs.ARCHS)


def test_missing_build(tmp_path: Path) -> None:
    with pytest.raises(OctaveError, match=rf"no library for gfx942[\s\S]*build --arch gfx942 --out {tmp_path}"):
        octave_gen.load("gfx942", out=tmp_path)


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    import json

    loaded = json.loads(path.read_text())
    edit(loaded)
    path.write_text(json.dumps(loaded))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.update(schema_version="2.0"), r"schema version is 2.0[\s\S]*upgrade octave-gen"),
        (lambda m: m.update(stage="generated"), "describes no library for gfx942: it describes sources"),
        (lambda m: m.update(arch="gfx1100"), "no library for gfx942: it is of gfx1100"),
        (lambda m: m["variants"][0].update(arch="gfx1100"), "no library for gfx942: it is of gfx1100"),
        (lambda m: m["torch"].update(target="99.1.0"), r"for torch 99.1.0 or newer; this is torch[\s\S]*upgrade torch"),
        (lambda m: m["torch"].update(target="new"), "no torch version"),
        (lambda m: m["library"].update(sha256="0" * 64), r"sha256 is [0-9a-f]{64}, its manifest says 0{64}"),
        (lambda m: m["library"].update(size=121), "has 149 bytes, its manifest says 121"),
        (lambda m: m["library"].update(namespace="octave_host_" + "0" * 16), "brings no octave_host_0+::launch"),
        (lambda m: m["library"].update(file="../liboctave_x.so"), "library.file"),
        (lambda m: m["library"].update(file="liboctave_other.so"), "is missing"),
        (lambda m: m.pop("library"), "library is missing"),
        (lambda m: m["variants"][0]["kernarg"].pop(), "arguments are not the ones"),
        (lambda m: m["variants"][0]["geometry"].update(threads=64), "launch geometry is not"),
        (
            lambda m: m["variants"][0]["geometry"].update(wide=[{"threads": 512, "workgroups": 304}]),
            "launch geometry is not",
        ),
        (lambda m: m["variants"][0].update(kind="prefill"), "does not know"),
    ],
)
def test_wrong_manifest(
    edit: Callable[[dict[str, Any]], None],
    message: str,
    built_manifest: Built,
    write_build: Write,
    registry: Registry,
    host_ops: Any,
) -> None:
    out = write_build(built_manifest())
    change(out / "gfx942" / FILE_NAME, edit)
    with pytest.raises(OctaveError, match=message) as raised:
        octave_gen.load("gfx942", out=out)
    assert "\n  hint: " in str(raised.value)
    assert host_ops.paths == []
    assert registry.libraries == ()


def test_newer_minor_version_is_read(
    built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any
) -> None:
    out = write_build(built_manifest())
    change(out / "gfx942" / FILE_NAME, lambda m: m.update(schema_version="1.9", novelty=1))
    library = octave_gen.load("gfx942", out=out)
    assert registry.libraries == (library,)


def test_folder_of_another_arch(built_manifest: Built, write_build: Write, registry: Registry) -> None:
    with pytest.raises(OctaveError, match="no library for gfx942: it is of gfx1100"):
        octave_gen.load("gfx942", out=write_build(built_manifest("gfx1100"), arch="gfx942"))


def test_truncated_library(built_manifest: Built, write_build: Write, registry: Registry, host_ops: Any) -> None:
    built = built_manifest()
    out = write_build(built)
    path = out / "gfx942" / built["library"]["file"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OctaveError, match="truncated or replaced"):
        octave_gen.load("gfx942", out=out)
    assert host_ops.paths == []


def test_library_that_dlopen_refuses(built_manifest: Built, write_build: Write, registry: Registry) -> None:
    built = built_manifest()
    out = write_build(built)
    kept = []
    for _ in range(2):  # the first failure leaves nothing behind, even while its traceback lives
        with pytest.raises(OctaveError, match=r"torch cannot load the library[\s\S]*build it again") as raised:
            octave_gen.load("gfx942", out=out)
        kept.append(raised)
    assert registry.libraries == ()
    assert not torch._C._dispatch_has_kernel(built["library"]["namespace"] + "::launch")


def test_library_without_the_op(
    built_manifest: Built, write_build: Write, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops, "load_library", lambda path: None)
    built = built_manifest()
    with pytest.raises(OctaveError, match=f"brings no {built['library']['namespace']}::launch"):
        octave_gen.load("gfx942", out=write_build(built))
    assert registry.libraries == ()


def test_a_failed_load_leaves_nothing_behind_for_the_next(small_build: Path, tmp_path: Path) -> None:
    """A manifest with a wrong namespace, then the same library elsewhere with its true one, in a process of its own."""
    shutil.copytree(small_build, tmp_path / "wrong")
    wrong = "octave_host_" + "0" * 16
    change(tmp_path / "wrong" / "gfx942" / FILE_NAME, lambda m: m["library"].update(namespace=wrong))
    code = """if True:
        import sys, torch, octave_gen
        try:
            octave_gen.load("gfx942", out=sys.argv[1])
        except octave_gen.errors.OctaveError as error:
            assert "brings no" in str(error)
        library = octave_gen.load("gfx942", out=sys.argv[2])
        getattr(torch.ops, library.namespace).launch
    """
    command = [sys.executable, "-c", code, str(tmp_path / "wrong"), str(small_build)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
