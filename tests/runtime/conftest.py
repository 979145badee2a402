"""Built folders without a compiler: a real manifest beside a file that only looks like a library."""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from octave_gen import manifest, plan
from octave_gen.kernels import KINDS
from octave_gen.runtime import loading
from octave_gen.runtime.dispatch import Registry
from octave_gen.runtime.library import Library, variants_of
from octave_gen.spec.model import Budget, BudgetRule, Spec

HASH = "ab" * 32
RESOURCES = ("vgprs", "agprs", "sgprs", "lds_bytes", "vgpr_spills", "sgpr_spills", "scratch_bytes", "kernarg_bytes")
_namespaces = itertools.count(0xFEED0000)


def small_spec(**changes: Any) -> Spec:
    values: dict[str, Any] = {
        "source": "small.toml",
        "family": "octave",
        "cache_dtypes": ("octave_k3v3",),
        "head_size": 128,
        "rotary_dims": 64,
        "gqa_groups": (4,),
        "query_groups": (1, 4),
        "query_dtypes": ("fp16", "bf16"),
        "archs": ("gfx942", "gfx1100"),
        **changes,
    }
    budget = Budget(vgprs=256, agprs=0, sgprs=102, lds_bytes=65536, occupancy=1)
    rules = tuple(BudgetRule(kernel, arch, budget) for kernel in KINDS for arch in values["archs"])
    return Spec(**values, budgets=rules)


def elf_stand_in() -> bytes:
    """The smallest file that passes for a whole x86-64 shared object: a header and one segment, no dynamic section."""
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 120, 120, 4096)
    header = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return header + segment


@pytest.fixture
def built_manifest() -> Callable[..., dict[str, Any]]:
    """The built manifest of a small spec on one arch; ``library`` describes `elf_stand_in`, under a fresh namespace."""

    def make(arch: str = "gfx942", content: bytes | None = None, **changes: Any) -> dict[str, Any]:
        data = elf_stand_in() if content is None else content
        identity = f"{next(_namespaces):016x}"
        records = [
            manifest.built_record(
                manifest.record(variant, source_text="", templates={"hip/a.j2": HASH}, flags=("-O3",)),
                code_object=b"\x7fELF",
                resources={**dict.fromkeys(RESOURCES, 1), "occupancy": 1},
            )
            for variant in plan.variants([small_spec(**changes)], [arch])
        ]
        return manifest.built_manifest(
            records,
            arch=arch,
            torch_target="2.13.0",
            compiler={"name": "ziglang", "version": "22.1.8", "identity": "ziglang 0.17.1"},
            host={"compiler": "g++ 12.2.0", "flags": []},
            bundle={"size": 4096, "sha256": HASH},
            library={
                "file": f"liboctave_{arch}-{identity}.so",
                "size": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "namespace": f"octave_host_{identity}",
            },
        )

    return make


@pytest.fixture
def write_build(tmp_path: Path) -> Callable[..., Path]:
    """Writes a manifest and its library as `octave-gen build --out` would; returns the ``out`` folder."""

    def write(built: dict[str, Any], content: bytes | None = None, out: str = "out", arch: str | None = None) -> Path:
        folder = tmp_path / out / (arch or built["arch"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / built["library"]["file"]).write_bytes(elf_stand_in() if content is None else content)
        (folder / manifest.FILE_NAME).write_text(manifest.dump(built))
        return tmp_path / out

    return write


@pytest.fixture
def make_library(built_manifest: Callable[..., dict[str, Any]]) -> Callable[..., Library]:
    """A Library as `load` would return it, without a file; arguments as for `small_spec`."""

    def make(arch: str = "gfx942", **changes: Any) -> Library:
        built = built_manifest(arch, **changes)
        return Library(arch, Path("unused.so"), built, built["library"]["namespace"], variants_of(built))

    return make


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry of the test's own, which `load` fills."""
    fresh = Registry()
    monkeypatch.setattr(loading, "REGISTRY", fresh)
    return fresh


@dataclass
class HostOps:
    """Stands in for the libraries' C++ half: what `launch` was called with, and the paths that were loaded."""

    calls: list[tuple[bytes, str, list[int], int, int]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    libraries: list[torch.library.Library] = field(default_factory=list)
    error: str | None = None

    def implement(self, namespace: str) -> None:
        def launch(kernargs: torch.Tensor, symbol: str, grid: list[int], threads: int, stream: int) -> None:
            assert kernargs.dtype == torch.uint8
            if self.error:
                raise RuntimeError(self.error)
            self.calls.append((bytes(kernargs.tolist()), symbol, list(grid), threads, stream))

        library = torch.library.Library(namespace, "IMPL")
        library.impl("launch", launch, "CPU")
        self.libraries.append(library)

    def define(self, namespace: str) -> None:
        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(loading.HOST_SCHEMA)
        self.libraries.append(library)
        self.implement(namespace)


@pytest.fixture
def host_ops(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostOps]:
    """Loading a library implements its op in Python, which records instead of launching."""
    host = HostOps()

    def load_library(path: str) -> None:
        host.paths.append(path)
        host.implement("octave_host_" + Path(path).stem.rpartition("-")[2])

    monkeypatch.setattr(torch.ops, "load_library", load_library)
    yield host
    for library in reversed(host.libraries):
        library._destroy()
