from __future__ import annotations

import struct
from pathlib import Path

import pytest

from octave_gen.arch import TargetId
from octave_gen.build import bundle
from octave_gen.build.bundle import Kernel
from octave_gen.errors import OctaveError


def by_hand(entry_id: str, code_object: bytes) -> bytes:
    """What clang-offload-bundler 22 writes for an empty host file and one code object, with -bundle-align=4096."""
    host_id = b"host-x86_64-unknown-linux-gnu-"
    header = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2)
    header += struct.pack("<QQQ", 4096, 0, 30) + host_id
    header += struct.pack("<QQQ", 4096, len(code_object), len(entry_id)) + entry_id.encode()
    return header + bytes(4096 - len(header)) + code_object


@pytest.mark.parametrize(
    ("target", "entry_id"),
    [
        (TargetId("gfx942"), "hipv4-amdgcn-amd-amdhsa--gfx942"),
        (TargetId("gfx1100"), "hipv4-amdgcn-amd-amdhsa--gfx1100"),
        (TargetId("gfx942", sramecc=True, xnack=False), "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"),
    ],
)
def test_bundle_is_what_clang_writes(target: TargetId, entry_id: str) -> None:
    made = bundle.bundle(target, b"hello")
    assert made == by_hand(entry_id, b"hello")
    host, device = bundle.unbundle(made)
    assert (host.target, host.data) == (None, b"")
    assert (device.target, device.data) == (target, b"hello")


def test_first_bytes_of_a_bundle() -> None:
    """The header spelled out, independently of the code above."""
    assert bundle.bundle(TargetId("gfx942"), b"hello")[:0x8D].hex() == (
        "5f5f434c414e475f4f46464c4f41445f42554e444c455f5f"  # __CLANG_OFFLOAD_BUNDLE__
        "0200000000000000"
        "00100000000000000000000000000000"
        "1e00000000000000686f73742d7838365f36342d756e6b6e6f776e2d6c696e75782d676e752d"
        "00100000000000000500000000000000"
        "1f0000000000000068697076342d616d6467636e2d616d642d616d646873612d2d676678393432"
    )


@pytest.mark.parametrize("cut", [0, 10, 40, 100, 4096, 4100])
def test_truncated_bundle_is_refused(cut: int) -> None:
    whole = bundle.bundle(TargetId("gfx942"), b"hello")
    with pytest.raises(OctaveError, match="no offload bundle"):
        bundle.unbundle(whole[:cut])


def test_foreign_entry_is_refused() -> None:
    with pytest.raises(OctaveError, match="cuda"):
        bundle.unbundle(by_hand("cuda-nvptx64--sm_90", b"x"))


def test_blob_is_aligned_and_indexed_by_symbol() -> None:
    first, second = bundle.bundle(TargetId("gfx942"), b"one"), bundle.bundle(TargetId("gfx942"), b"two")
    blob, kernels = bundle.concatenate([(first, {"b": 8, "c": 16}), (second, {"a": 24})])
    assert kernels == (Kernel("a", 8192, 4099, 24), Kernel("b", 0, 4099, 8), Kernel("c", 0, 4099, 16))
    assert len(blob) == 8192 + 4099
    for kernel, data in zip(kernels, (second, first, first), strict=True):
        assert blob[kernel.offset : kernel.offset + kernel.size] == data
    assert bundle.parse_index(bundle.index_text(kernels)) == kernels


@pytest.mark.parametrize("text", ["", "octave-gen index 2\na 0 1 2\n", "octave-gen index 1\na 0 1\n"])
def test_foreign_index_is_refused(text: str) -> None:
    with pytest.raises(OctaveError, match="index"):
        bundle.parse_index(text)


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF", b"text" * 100])
def test_code_objects_of_a_foreign_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "library.so"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OctaveError) as caught:
        bundle.code_objects(path)
    assert str(path) in str(caught.value)
    assert "octave-gen build" in str(caught.value)
