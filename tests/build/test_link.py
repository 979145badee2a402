"""The host half in processes of its own: the HIP runtime that a process has once found stays."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from ctypes.util import find_library
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from mock_hip import compile_mock
from tiny_units import ARGUMENTS, Built, tiny_unit

from octave_gen.build import link
from octave_gen.build.cache import Cache
from octave_gen.errors import OctaveError
from octave_gen.kernels.base import pack_arguments

no_hip_here = pytest.mark.skipif(find_library("amdhip64") is not None, reason="this machine has a HIP runtime")

UNIT, OTHER_UNIT = tiny_unit(64), tiny_unit(128)
BF16, F16 = (variant.name for variant in UNIT.variants)
OTHER = OTHER_UNIT.first.name
VALUES = {"x": 0x1122334455667788, "y": 0x99, "count": 7, "stride": -3, "scale": 0.5}
KERNARGS = pack_arguments(ARGUMENTS, VALUES)

PROGRAM = """
import json, os, sys
import torch
from mock_hip import MockHip

request = json.load(sys.stdin)
namespace = request["namespace"]
library = torch.library.Library(namespace, "FRAGMENT")
library.define("launch(Tensor kernargs, str symbol, int[] grid, int threads, int stream) -> ()")
torch.ops.load_library(request["library"])
mock = MockHip(request["mock"]) if request["mock"] else None
answers = []
for call in request["calls"]:
    os.environ.update(call.get("environment", {}))
    kernargs = torch.frombuffer(bytearray(bytes.fromhex(call["kernargs"])), dtype=getattr(torch, call["dtype"]))
    error = None
    try:
        getattr(torch.ops, namespace).launch(
            kernargs[:: call["step"]], call["symbol"], call["grid"], call["threads"], call["stream"]
        )
    except RuntimeError as caught:
        error = str(caught)
    for name in call.get("environment", {}):
        del os.environ[name]
    answers.append({"error": error, "record": mock.record() if mock else None})
    if mock:
        mock.reset()
json.dump(answers, sys.stdout)
"""


def call(symbol: str = F16, environment: Mapping[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "symbol": symbol,
        "kernargs": KERNARGS.hex(),
        "dtype": "uint8",
        "step": 1,
        "grid": [2, 3, 4],
        "threads": 64,
        "stream": 0x7F00_1234_5678,
        "environment": dict(environment or {}),
        **changes,
    }


def run(
    built: Built, mock: Path | None, calls: Mapping[str, dict[str, Any]], library_path: Path | None = None
) -> dict[str, dict[str, Any]]:
    """What each call did, in one process and in this order."""
    made = built.libraries["gfx942"]
    namespace = json.loads(made.manifest.read_text())["library"]["namespace"]
    request = {"namespace": namespace, "library": str(made.library), "calls": list(calls.values())}
    tests = Path(__file__).resolve().parent.parent
    library = {"LD_LIBRARY_PATH": str(library_path)} if library_path else {}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps({**request, "mock": str(mock) if mock else None}),
        env={**os.environ, "PYTHONPATH": str(tests), **library},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(calls, json.loads(done.stdout), strict=True))


@pytest.fixture(scope="module")
def without_hip(built: Built) -> dict[str, dict[str, Any]]:
    calls = {
        "launch": call(),
        "unknown": call("decode_none"),
        "short": call(kernargs=KERNARGS[:-4].hex()),
        "long": call(kernargs=KERNARGS.hex() + "00"),
        "dtype": call(dtype="int8"),
        "strided": call(kernargs=KERNARGS.hex() * 2, step=2),
        "grid": call(grid=[1, 1]),
        "empty": call(grid=[1, 0, 1]),
        "threads": call(threads=1025),
    }
    return run(built, None, calls)


@pytest.fixture(scope="module")
def with_mock(built: Built, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    calls = {
        "no device": call(environment={"MOCK_HIP_DEVICES": "0"}),
        "wrong arch": call(environment={"MOCK_HIP_ARCH": "gfx1100"}),
        "missing": call(environment={"MOCK_HIP_MISSING": F16}),
        "first": call(),
        "sibling": call(BF16, grid=[1, 1, 1], stream=0),
        "again": call(),
        "other unit": call(OTHER),
        "other device": call(environment={"MOCK_HIP_CURRENT": "1"}),
        "refused": call(environment={"MOCK_HIP_LAUNCH_ERROR": "1"}),
    }
    return run(built, compile_mock(tmp_path_factory.mktemp("mock")), calls)


def error_of(answers: dict[str, dict[str, Any]], name: str) -> tuple[str, str]:
    """What went wrong, and what to do."""
    what, _, hint = answers[name]["error"].partition("\n  hint: ")
    assert hint
    assert "\n" not in what + hint
    return what, hint


@no_hip_here
def test_no_hip_runtime(without_hip: dict[str, dict[str, Any]]) -> None:
    what, hint = error_of(without_hip, "launch")
    names = "libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so.5, libamdhip64.so"
    assert what == f"there is no HIP runtime: none of {names} can be loaded"
    assert hint.startswith("install ROCm")


@no_hip_here
def test_broken_hip_runtime(built: Built, tmp_path: Path) -> None:
    (tmp_path / "libamdhip64.so.6").write_text("not a library")
    what, _ = error_of(run(built, None, {"launch": call()}, library_path=tmp_path), "launch")
    assert re.search(r"can be loaded: .*libamdhip64\.so\.6: ", what)


def test_unknown_symbol(without_hip: dict[str, dict[str, Any]]) -> None:
    what, hint = error_of(without_hip, "unknown")
    assert what == "this library for gfx942 holds no kernel decode_none"
    assert "octave-gen build" in hint


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("short", f"{F16} takes 36 bytes of arguments, not 32"),
        ("long", f"{F16} takes 36 bytes of arguments, not 37"),
        ("dtype", f"the arguments of {F16} are not a contiguous uint8 tensor on the CPU"),
        ("strided", f"the arguments of {F16} are not a contiguous uint8 tensor on the CPU"),
        ("grid", f"the grid of {F16} is not three counts from 1, with 1 to 1024 threads each"),
        ("empty", f"the grid of {F16} is not three counts from 1, with 1 to 1024 threads each"),
        ("threads", f"the grid of {F16} is not three counts from 1, with 1 to 1024 threads each"),
    ],
)
def test_wrong_request(without_hip: dict[str, dict[str, Any]], name: str, said: str) -> None:
    assert error_of(without_hip, name)[0] == said


def test_no_device(with_mock: dict[str, dict[str, Any]]) -> None:
    what, hint = error_of(with_mock, "no device")
    assert what == "there is no AMD GPU: no ROCm-capable device is detected"
    assert "rocminfo" in hint
    assert with_mock["no device"]["record"] == {"loads": [], "launches": []}


def test_wrong_arch(with_mock: dict[str, dict[str, Any]]) -> None:
    what, hint = error_of(with_mock, "wrong arch")
    assert what.startswith("this library is for gfx942, which device 0 (Mock gfx1100) does not run (")
    assert "--arch" in hint
    assert with_mock["wrong arch"]["record"]["launches"] == []


def test_symbol_that_the_code_object_lacks(with_mock: dict[str, dict[str, Any]]) -> None:
    what, hint = error_of(with_mock, "missing")
    assert what == f"the code object that should hold the kernel {F16} does not"
    assert "build it again" in hint


def test_launch(built: Built, with_mock: dict[str, dict[str, Any]]) -> None:
    assert with_mock["first"]["error"] is None
    (launch,) = with_mock["first"]["record"]["launches"]
    assert launch == {
        "symbol": F16,
        "device": 0,
        "grid": [2, 3, 4],
        "block": [64, 1, 1],
        "lds_bytes": 0,
        "stream": 0x7F00_1234_5678,
        "kernargs": struct.pack("<QQi4xqf", 0x1122334455667788, 0x99, 7, -3, 0.5).hex(),
    }


def test_code_object_is_loaded_once_for_its_symbols(built: Built, with_mock: dict[str, dict[str, Any]]) -> None:
    (load,) = with_mock["missing"]["record"]["loads"]
    records = json.loads(built.libraries["gfx942"].manifest.read_text())["variants"]
    assert load == {
        "device": 0,
        "entries": ["host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx942"],
        "code_object_bytes": next(record["code_object"]["size"] for record in records if record["symbol"] == F16),
    }
    for name in ("first", "sibling", "again"):
        assert with_mock[name]["record"]["loads"] == []
    assert with_mock["sibling"]["record"]["launches"][0]["symbol"] == BF16
    assert with_mock["sibling"]["record"]["launches"][0]["stream"] == 0
    assert len(with_mock["other unit"]["record"]["loads"]) == 1


def test_every_device_has_its_own_modules(with_mock: dict[str, dict[str, Any]]) -> None:
    record = with_mock["other device"]["record"]
    assert [load["device"] for load in record["loads"]] == [1]
    assert [launch["device"] for launch in record["launches"]] == [1]


def test_refused_launch(with_mock: dict[str, dict[str, Any]]) -> None:
    what, _ = error_of(with_mock, "refused")
    assert what == f"hipModuleLaunchKernel for {F16} on device 0 (Mock gfx942:sramecc+:xnack-) failed: mock error (1)"


def test_library_links_torch_and_no_hip(built: Built) -> None:
    with built.libraries["gfx942"].library.open("rb") as file:
        elf = ELFFile(file)
        dynamic = elf.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
        assert {"libtorch_cpu.so", "libc10.so"} <= needed
        assert not [name for name in needed if "hip" in name or "torch_python" in name]
        assert not [tag for tag in dynamic.iter_tags() if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")]
        symbols = elf.get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        defined = [symbol.name for symbol in symbols.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"]
        assert defined == []


def test_no_path_of_the_machine_is_in_a_library(built: Built) -> None:
    tools = built.workshop.tools
    for made in built.libraries.values():
        data = made.library.read_bytes() + made.manifest.read_bytes()
        for path in (built.workshop.folder, tools.torch.include.parent, Path(__file__).parent, Path.home()):
            assert str(path).encode() not in data


def test_namespace_is_of_the_content(built: Built) -> None:
    manifests = [json.loads(made.manifest.read_text()) for made in built.libraries.values()]
    assert len({described["library"]["namespace"] for described in manifests}) == len(manifests)


def test_compiler_is_described() -> None:
    compiler = link.find_compiler()
    name, _, version = compiler.version.partition(" ")
    assert name == Path(compiler.command[0]).name
    assert version[0].isdigit()


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    with pytest.raises(OctaveError, match="cannot be run") as caught:
        link.find_compiler()
    assert caught.value.where == "/nowhere/g++"
    assert "CXX" in str(caught.value.hint)


@pytest.mark.parametrize("version", ["2.12.1+cpu", "1.13"])
def test_torch_that_is_too_old(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(link.metadata, "version", lambda name: version)
    with pytest.raises(OctaveError, match="too old") as caught:
        link.find_torch()
    assert "2.13.0" in str(caught.value.hint)


def test_missing_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "find_spec", lambda name: None)
    with pytest.raises(OctaveError, match="torch is not installed"):
        link.find_torch()


def test_torch_is_not_imported() -> None:
    program = (
        "import sys; from octave_gen.build import pipeline, link; link.find_torch(); assert 'torch' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_host_half_that_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        link, "host_sources", lambda: {"launch.cpp": b"int main( {\n", "embed.S": b"", "exports.map": b""}
    )
    store = Cache(tmp_path, 1 << 20, 1.0, lambda line: None)
    with store.writing() as session, pytest.raises(OctaveError, match=r"launch.cpp:1:\d+: error") as caught:
        link.link(b"", (), arch="gfx942", compiler=link.find_compiler(), torch=link.find_torch(), session=session)
    assert "-c launch.cpp" in str(caught.value.where)


def linked_with(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> link.Library:
    """Links an empty library whose host half is one file, with the compiler ``command``."""
    sources = {"launch.cpp": b"", "embed.S": b"", "exports.map": b"{ local: *; };"}
    monkeypatch.setattr(link, "host_sources", lambda: sources)
    compiler = link.HostCompiler(tuple(command.split()), "test 1.0", "test")
    torch = link.Torch("2.13.0", folder / "include", folder / "lib")
    with Cache(folder / "cache", 1 << 20, 1.0, lambda line: None).writing() as session:
        return link.link(b"", (), arch="gfx942", compiler=compiler, torch=torch, session=session)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_options_in_cxx_are_part_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, found = link.find_torch(), []
    for command in ("g++", "g++ -O0", "g++ -O0 -fno-inline"):
        monkeypatch.setenv("CXX", command)
        found.append(link.find_compiler())
    assert len({compiler.version for compiler in found}) == 1
    assert len({link.host_key(compiler, torch) for compiler in found}) == 3
    assert len({compiler.identity for compiler in found}) == 3
    assert found[2].command == ("g++", "-O0", "-fno-inline")
    assert found[2].flags == ("-O0", "-fno-inline", *found[0].flags)


def test_manifest_shows_the_flags_of_the_host_half(built: Built) -> None:
    flags = (*built.workshop.tools.host.command[1:], *link.COMPILE_FLAGS, *link.LINK_FLAGS)
    for made in built.libraries.values():
        assert json.loads(made.manifest.read_text())["host"]["flags"] == list(flags)


def test_relative_compiler_is_found_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "mine", 'exec g++ "$@"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXX", "./mine -O1")
    assert link.find_compiler().command == (str(tmp_path / "mine"), "-O1")


@pytest.mark.parametrize("command", ["true", "sh -c :"])
def test_what_does_not_answer_is_no_compiler(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("CXX", command)
    with pytest.raises(OctaveError, match="does not say its version") as caught:
        link.find_compiler()
    assert str(caught.value.where).startswith(command.split()[0])
    assert "CXX" in str(caught.value.hint)


@pytest.mark.parametrize("written", ["", "launch.cpp.o", "embed.o"])
def test_compiler_that_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    command = script(tmp_path / "c++", f'for out; do :; done; case $out in "{written}") : >$out;; esac')
    missing = "embed.o" if written == "launch.cpp.o" else "launch.cpp.o"
    with pytest.raises(OctaveError, match=f"{missing} cannot be read: No such file") as caught:
        linked_with(command, tmp_path, monkeypatch)
    assert str(caught.value.where).startswith(command)
    assert "CXX" in str(caught.value.hint)


@pytest.mark.parametrize(
    "said",
    [
        "launch.cpp:9:1: fatal error: error writing to x.s: No space left on device",
        "x.s: Fatal error: can't write 51 bytes to section .text of x.o: 'No space left on device'",
        "collect2: fatal error: ld terminated with signal 7 [Bus error]",
        "",
    ],
)
def test_full_disk_is_not_the_compilers_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    if "No space" not in said:
        usage = shutil.disk_usage("/")._replace(free=1 << 20)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    command = script(tmp_path / "c++", f'echo "{said}" >&2; exit 1')
    with pytest.raises(OctaveError, match="the compile cache cannot be written: its disk is full") as caught:
        linked_with(command, tmp_path, monkeypatch)
    assert caught.value.where == str(tmp_path / "cache")
    assert "OCTAVE_CACHE_DIR" in str(caught.value.hint)


def test_diagnostic_is_not_hidden_by_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    command = script(tmp_path / "c++", "echo 'launch.cpp:1:1: error: bad' >&2; exit 1")
    with pytest.raises(OctaveError, match=r"does not compile: launch\.cpp:1:1: error: bad"):
        linked_with(command, tmp_path, monkeypatch)
