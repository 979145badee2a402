"""Real libraries: loaded by torch, and launching through their C++ half into a mock of the HIP runtime."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from mock_hip import compile_mock

import octave_gen
from octave_gen.errors import OctaveError
from octave_gen.runtime.dispatch import Registry

ARCHS = ("gfx942", "gfx1100")
MATRIX = {"gfx942": "mfma", "gfx1100": "wmma"}
ROOT = Path(octave_gen.__file__).parents[1]
STREAM = 0x7FFF_1234_5670


def run_in_process(library_path: Path, *arguments: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("launch_on_mock.py")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    command = [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def report(small_build: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("mock")
    return run_in_process(folder, small_build, compile_mock(folder))


def launches(report: dict[str, Any], arch: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = report["records"][arch]["launches"]
    return made


@pytest.mark.parametrize("arch", ARCHS)
def test_symbols_and_order(arch: str, report: dict[str, Any]) -> None:
    symbols = [
        f"store_octave_k3v3_h128r64_plain_f16_portable_{arch}",
        f"rotate_h128_f16_portable_{arch}",
        f"decode_octave_k3v3_h128r64_g4_q4_bf16_portable_{arch}",
        f"reduce_h128_bf16_portable_{arch}",
        f"prefill_prefix_octave_k3v3_h128r64_bf16_{MATRIX[arch]}_{arch}",
        f"prefill_chunk_h128_bf16_{MATRIX[arch]}_{arch}",
    ]
    assert [launch["symbol"] for launch in launches(report, arch)] == symbols * 2


@pytest.mark.parametrize(("arch", "wave"), [("gfx942", 64), ("gfx1100", 32)])
def test_geometry(arch: str, wave: int, report: dict[str, Any]) -> None:
    made = launches(report, arch)
    # 7 tokens, 2 heads; 7 vectors in fours, 2 heads; 6 queries in fours, 2 kv heads, 5 splits; 6 queries, 8 heads; a
    # tile of the rows, 2 kv heads, 2 requests with 5 splits each
    grids = [[1, 2, 1], [2, 2, 1], [2, 2, 5], [6, 8, 1], [1, 2, 10], [1, 2, 2]]
    assert [launch["grid"] for launch in made[:6]] == grids
    assert [launch["block"] for launch in made[:6]] == [
        [4 * wave, 1, 1],
        [4 * wave, 1, 1],
        [256, 1, 1],
        [8 * wave, 1, 1],
        [256, 1, 1],
        [256, 1, 1],
    ]
    assert all((launch["lds_bytes"], launch["stream"], launch["device"]) == (0, STREAM, 0) for launch in made)


@pytest.mark.parametrize("arch", ARCHS)
def test_kernargs(arch: str, report: dict[str, Any]) -> None:
    p = report["pointers"]
    cache_strides = (16 * 2 * 112, 112, 2 * 112)
    mid_strides = (8 * 5 * 130, 5 * 130, 130)
    store = struct.pack(
        "<7Q7q2i",
        *(p[name] for name in ("key", "value", "cache", "slot_mapping", "signs", "signs")),
        *(0, 256, 128, 512, 256, *cache_strides),
        *(7, 16),
    )
    rotate = struct.pack("<3Q2q3i", p["key"], p["signs"], 0, 256, 128, 7, 1, 1)
    decode = struct.pack(
        "<8Q9q5if",
        *(p[name] for name in ("query", "cache", "block_table", "q_to_req", "q_to_klen")),
        *(0, p["mid_o"], p["signs"]),  # no group_starts
        *(1024, 128, *cache_strides, 3, *mid_strides),
        *(6, 2, 2, 16, 5, 0.25),
    )
    reduce = struct.pack("<3Q5qi", p["mid_o"], p["out"], p["signs"], *mid_strides, 2048, 256, 5)
    prefix = struct.pack(
        "<6Q9q3if",
        *(p[name] for name in ("query", "cache", "block_table", "bounds", "lengths", "mid_o")),
        *(1024, 128, *cache_strides, 3, *mid_strides),
        *(4, 16, 5, 0.25),
    )
    chunk = struct.pack(
        "<7Q11q2if",
        *(p[name] for name in ("query", "k", "v", "out", "mid_o", "bounds", "lengths")),
        *(1024, 128, 256, 128, 272, 136, 2048, 256, *mid_strides),
        *(4, 5, 0.25),
    )
    packed = [part.hex() for part in (store, rotate, decode, reduce, prefix, chunk)]
    assert [launch["kernargs"] for launch in launches(report, arch)] == packed * 2


@pytest.mark.parametrize("arch", ARCHS)
def test_code_objects_are_loaded_once(arch: str, report: dict[str, Any]) -> None:
    loads = report["records"][arch]["loads"]
    assert len(loads) == 6
    assert all(f"hipv4-amdgcn-amd-amdhsa--{arch}" in load["entries"] for load in loads)
    assert all(load["code_object_bytes"] > 0 for load in loads)


@pytest.mark.parametrize(
    ("case", "where", "what", "hint"),
    [
        ("no gpu", "rotate_h128_f16_portable_gfx942", "there is no AMD GPU", "supported GPU"),
        (
            "other arch",
            "rotate_h128_f16_portable_gfx942",
            "this library is for gfx942, which device 0",
            "device's arch",
        ),
        ("launch", "rotate_h128_f16_portable_gfx942", "hipModuleLaunchKernel", "AMD_LOG_LEVEL"),
        ("unknown symbol", "rotate_h1_f16_portable_gfx942", "holds no kernel rotate_h1_f16", "octave-gen build"),
    ],
)
def test_failures(case: str, where: str, what: str, hint: str, report: dict[str, Any]) -> None:
    failure = report["failures"][case]
    assert failure["where"] == where
    assert what in failure["what"]
    assert hint in failure["hint"]
    assert "\n" not in failure["what"]


@pytest.mark.skipif(torch.version.hip is not None, reason="torch's ROCm build brings the HIP runtime with it")
def test_no_hip_runtime(small_build: Path, tmp_path: Path) -> None:
    for name in ("libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"):
        (tmp_path / name).write_bytes(b"no library")  # found before one that the machine may have
    failure = run_in_process(tmp_path, small_build)["failures"]["no hip"]
    assert "there is no HIP runtime" in failure["what"]
    assert "install ROCm" in failure["hint"]


def test_loaded_once_whatever_the_path(small_build: Path, tmp_path: Path, registry: Registry) -> None:
    libraries = [octave_gen.load(arch, out=small_build) for arch in ARCHS]
    shutil.copytree(small_build, tmp_path / "copy")
    assert [octave_gen.load(arch, out=tmp_path / "copy") for arch in ARCHS] == libraries
    assert registry.libraries == tuple(libraries)
    for library in libraries:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"{library.namespace}::launch", "CPU")
        assert sum(variant.key.tier == "portable" for variant in library.variants) == 8
        for variant in library.variants:
            assert registry.find(variant.key) == (library, variant)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(data) // 2], "truncated or replaced"),
        (lambda data: data[:-1], "truncated or replaced"),
        (lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:], "sha256"),
    ],
)
def test_damaged_library(damage: Any, message: str, small_build: Path, tmp_path: Path, registry: Registry) -> None:
    shutil.copytree(small_build, tmp_path / "copy")
    (path,) = (tmp_path / "copy" / "gfx942").glob("*.so")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(OctaveError, match=message):
        octave_gen.load("gfx942", out=tmp_path / "copy")
    assert registry.libraries == ()
