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
from octave_gen.ops import sign_tensor, workspace_shape
from octave_gen.runtime import loading
from octave_gen.runtime.dispatch import Registry
from octave_gen.runtime.library import Library, variants_of
from octave_gen.spec.model import Spec

HASH = "ab" * 32
RESOURCES = ("vgprs", "agprs", "sgprs", "lds_bytes", "vgpr_spills", "sgpr_spills", "scratch_bytes", "kernarg_bytes")
_namespaces = itertools.count(0xFEED0000)


def elf_stand_in(namespace: str = "") -> bytes:
    """The smallest file that passes for a whole x86-64 shared object: a header and one segment, no dynamic section;
    then the namespace, if there is one, as a built library holds it."""
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 120, 120, 4096)
    header = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return header + segment + (f"{namespace}\0".encode() if namespace else b"")


@pytest.fixture
def elf() -> bytes:
    return elf_stand_in()


@pytest.fixture
def built_manifest(small_spec: Callable[..., Spec]) -> Callable[..., dict[str, Any]]:
    """The built manifest of a small spec on one arch; ``library`` describes `elf_stand_in`, under a fresh namespace."""

    def make(arch: str = "gfx942", content: bytes | None = None, **changes: Any) -> dict[str, Any]:
        identity = f"{next(_namespaces):016x}"
        data = elf_stand_in(f"octave_host_{identity}") if content is None else content
        records = [
            manifest.built_record(
                manifest.record(variant, source_text="", templates={"hip/a.j2": HASH}, flags=("-O3",)),
                code_object=b"\x7fELF",
                resources={symbol.name: dict.fromkeys((*RESOURCES, "occupancy"), 1) for symbol in variant.symbols},
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
        (folder / built["library"]["file"]).write_bytes(
            elf_stand_in(built["library"]["namespace"]) if content is None else content
        )
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


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: threads only wait for each other here, most of all when several test processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


Arguments = dict[str, Any]


def gaussian(*shape: int, seed: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.fixture
def store_arguments() -> Arguments:
    """cache_store of 7 tokens, one of them skipped: 2 kv heads of 128 dims, octave_k3v3, 3 blocks of 16 rows."""
    return {
        "key": gaussian(7, 2, 128, seed=1),
        "value": gaussian(7, 2, 128, seed=2),
        "cache": torch.zeros(3, 2, 16, 112, dtype=torch.uint8),
        "slot_mapping": torch.tensor([40, 3, -1, 4, 17, 16, 0]),
        "k_signs": sign_tensor(128),
        "v_signs": sign_tensor(128),
        "fmt": 3,
    }


@pytest.fixture
def rotate_arguments() -> Arguments:
    return {"x": gaussian(5, 3, 128, seed=3), "signs": sign_tensor(128), "k_layout": True, "inverse": False}


@pytest.fixture
def decode_arguments(store_arguments: Arguments) -> Arguments:
    """decode of 6 queries, the last one padding, over two requests of 40 and 30 tokens; group 4, 2 KV splits."""
    cache = torch.zeros(6, 2, 16, 112, dtype=torch.uint8)
    stored = {"key": gaussian(96, 2, 128, seed=4), "value": gaussian(96, 2, 128, seed=5), "cache": cache}
    torch.ops.octave.cache_store(**{**store_arguments, **stored, "slot_mapping": torch.arange(96)})
    query = gaussian(6, 8, 128, seed=6)
    return {
        "out": torch.full_like(query, torch.nan),
        "query": query,
        "cache": cache,
        "block_table": torch.tensor([[5, 0, 3], [1, 4, -9]], dtype=torch.int32),
        "q_to_req": torch.tensor([0, 1, 1, 1, 1, -1], dtype=torch.int32),
        "q_to_klen": torch.tensor([40, 27, 28, 29, 30, 0], dtype=torch.int32),
        "mid_o": torch.full(workspace_shape(6, 8, 2, 128), torch.nan),
        "k_signs": sign_tensor(128),
        "v_signs": sign_tensor(128),
        "sm_scale": 128**-0.5,
        "num_kv_splits": 2,
        "fmt": 3,
        "query_group": 4,
        "use_wmma": False,
    }


@pytest.fixture
def prefill_arguments(store_arguments: Arguments) -> Arguments:
    """prefill of 9 tokens, the last one padding, of three requests: 5 tokens behind 30, none behind 7, 3 behind none;
    2 kv heads, group 4, 2 KV splits."""
    cache = torch.zeros(6, 2, 16, 112, dtype=torch.uint8)
    stored = {"key": gaussian(96, 2, 128, seed=4), "value": gaussian(96, 2, 128, seed=5), "cache": cache}
    torch.ops.octave.cache_store(**{**store_arguments, **stored, "slot_mapping": torch.arange(96)})
    q = gaussian(9, 8, 128, seed=6)
    return {
        "out": torch.full_like(q, torch.nan),
        "q": q,
        "k": gaussian(9, 2, 128, seed=7),
        "v": gaussian(9, 2, 128, seed=8),
        "cache": cache,
        "block_table": torch.tensor([[5, 0, 3], [1, 4, -9], [-1, -1, -1]], dtype=torch.int32),
        "cu_seqlens_q": torch.tensor([0, 5, 5, 8], dtype=torch.int32),
        "seq_lens": torch.tensor([35, 7, 3], dtype=torch.int32),
        "max_query_len": 5,
        "sm_scale": 128**-0.5,
        "fmt": 3,
        "workspace": torch.full(workspace_shape(9, 8, 2, 128), torch.nan),
        "num_kv_splits": 2,
    }
