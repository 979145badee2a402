"""doctor."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import Result

from octave_gen import paths
from octave_gen.build import doctor, toolchain
from octave_gen.build.flydsl import tool as flydsl
from octave_gen.errors import OctaveError

Run = Callable[..., Result]

NEEDED = {"python", "torch", "ziglang", "ninja"}


def by_name(findings: list[doctor.Finding]) -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in findings}


def test_what_a_build_needs_is_found_here(run: Run) -> None:
    result = run("doctor")
    assert result.exit_code == 0
    assert f"found    python        {platform.python_version()}: runs octave-gen\n" in result.stdout
    assert f"found    torch         {metadata.version('torch')}: " in result.stdout
    assert "missing" not in result.stdout


def test_json(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    found = {item["name"]: item for item in json.loads(run("doctor", "--json").stdout)}
    names = {*NEEDED, "flydsl", "clang-22", "rocm", "lld", "disassembler", "HIP runtime", "GPU", "g++"}
    assert names == set(found)
    assert all(found[name]["needed"] and found[name]["usable"] for name in NEEDED)
    assert all(item["purpose"] and item["remedy"] for item in found.values())
    assert all(item["usable"] == (item["version"] is not None and item["problem"] is None) for item in found.values())


@pytest.fixture
def without_ziglang(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> toolchain.DeviceCompiler:
        raise OctaveError("not installed", hint="install the package ziglang")

    monkeypatch.setitem(toolchain.COMPILERS, "ziglang", missing)


def test_something_needed_is_missing(run: Run, without_ziglang: None) -> None:
    result = run("doctor")
    assert result.exit_code == 1
    assert "missing  ziglang       device compiler" in result.stdout
    assert "to get it: install the package ziglang" in result.stdout
    assert run("doctor", "--json").exit_code == 1


def test_something_optional_is_absent(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    result = run("doctor")
    assert result.exit_code == 0
    assert "absent   rocm " in result.stdout


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, "to get it: install it with `pip install 'octave-gen[flydsl]'`"),
        ("0.4.9", "flydsl 0.4.9 is installed, and the kernels are written for 0.5.0: install it with"),
    ],
)
def test_flydsl_is_optional(run: Run, monkeypatch: pytest.MonkeyPatch, version: str | None, said: str) -> None:
    monkeypatch.setattr(flydsl, "installed", lambda: version)
    result = run("doctor")
    assert result.exit_code == 0
    assert "absent   flydsl " in result.stdout
    assert said in result.stdout


def test_flydsl_of_the_pinned_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flydsl, "installed", lambda: flydsl.VERSION)
    assert by_name(doctor.examine())["flydsl"].usable
    monkeypatch.setattr(flydsl, "unchecked", lambda: "no disassembler")
    assert by_name(doctor.examine())["flydsl"].problem == "no disassembler"


def test_an_old_torch_will_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.9.1+cpu" if name == "torch" else real(name))
    findings = doctor.examine()
    torch = by_name(findings)["torch"]
    assert (torch.version, torch.usable) == ("2.9.1+cpu", False)
    assert torch.problem == "too old: 2.13.0 or newer is needed"
    assert not doctor.can_build(findings)


def test_the_remedy_for_torch_is_the_pinned_one_without_cuda() -> None:
    pinned = re.search(r"torch==[\d.]+", (paths.PACKAGE.parent / "Makefile").read_text())
    remedy = by_name(doctor.examine())["torch"].remedy
    assert pinned
    assert f"{pinned[0]} --index-url with the index of PyTorch's CPU builds" in remedy
    assert "://" not in remedy


def test_the_names_of_the_hip_runtime_are_those_that_a_library_opens() -> None:
    source = (paths.templates() / "host" / "hip_runtime.cpp").read_text()
    assert tuple(re.findall(r'"(libamdhip64[^"]*)"', source)) == doctor.HIP_NAMES


@pytest.mark.parametrize("name", doctor.HIP_NAMES)
def test_a_hip_runtime_in_rocms_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setattr(doctor, "find_library", lambda name: None)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert not by_name(doctor.examine())["HIP runtime"].usable
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / name).write_text("")
    assert by_name(doctor.examine())["HIP runtime"].version == str(tmp_path / "lib" / name)


def test_the_host_compiler_is_the_one_in_cxx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "my++"
    fake.write_text("#!/bin/sh\necho 'my++ (mine) 15.3.1'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    assert by_name(doctor.examine())[str(fake)].version == "my++ 15.3.1"
    monkeypatch.setenv("CXX", f"env {fake}")
    assert by_name(doctor.examine())[f"env {fake}"].version == "my++ 15.3.1"
    monkeypatch.setenv("CXX", str(fake))
    fake.write_text("#!/bin/sh\nexit 1\n")
    assert not doctor.can_build(doctor.examine())
    monkeypatch.setenv("CXX", " ")
    assert doctor.can_build(doctor.examine())
    for nothing in (str(tmp_path / "none"), '"x'):
        monkeypatch.setenv("CXX", nothing)
        found = by_name(doctor.examine())[nothing]
        assert not found.usable
        assert found.needed
        assert found.problem


def tool(folder: Path, name: str, answer: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{answer}'\n")
    (folder / name).chmod(0o755)


def test_a_disassembler_that_misreads_newer_code_will_not_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    real = metadata.version

    def version(name: str) -> str:
        if name == "rocm-llvm-python":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    tool(tmp_path, "llvm-objdump", "LLVM (http://llvm.org/):\n  LLVM version 19.1.7")
    found = by_name(doctor.examine())["disassembler"]
    assert (found.version, found.problem) == ("19.1.7", "too old: 22 or newer is needed")
    tool(tmp_path, "llvm-objdump-22", "LLVM version 22.1.8")
    assert by_name(doctor.examine())["disassembler"].usable


@pytest.mark.parametrize(
    ("versions", "shown", "usable"),
    [
        ([], None, False),
        ([0, 0], None, False),
        ([0, 90402], "1 x gfx942", True),
        ([0, 90402, 90402, 110000], "1 x gfx1100, 2 x gfx942", True),
        ([90010], "1 x gfx90a", False),
        ([110501], "1 x gfx1151", False),
        ([90402, 120001], "1 x gfx1201, 1 x gfx942", True),
    ],
)
def test_gpus_by_the_drivers_list(tmp_path: Path, versions: list[int], shown: str | None, usable: bool) -> None:
    for index, number in enumerate(versions):
        (tmp_path / str(index)).mkdir()
        (tmp_path / str(index) / "properties").write_text(
            f"cpu_cores_count 0\ngfx_target_version {number}\nvendor_id 1\n"
        )
    found = doctor.gpus(tmp_path)
    assert (found.version, found.usable) == (shown, usable)


def test_a_node_that_cannot_be_read_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "properties").write_bytes(b"\xff")
    assert doctor.gpus(tmp_path).version is None
