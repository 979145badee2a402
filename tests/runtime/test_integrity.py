from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

import pytest

from octave_gen.errors import OctaveError
from octave_gen.runtime.integrity import check_library, check_torch, elf_problem, release


def real_library() -> Path:
    """A shared object of this machine: an extension module of Python, or torch's own."""
    import torch

    return next(Path(torch.__file__).parent.glob("_C*.so"))


def test_real_library_is_accepted() -> None:
    path = real_library()
    data = path.read_bytes()
    assert elf_problem(data) is None
    check_library(path, {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}, "make")


@pytest.mark.parametrize("kept", [1, 8, 9])
def test_truncated(kept: int) -> None:
    data = real_library().read_bytes()
    problem = elf_problem(data[: len(data) * kept // 10])
    assert problem is not None
    assert "truncated" in problem


def test_truncated_by_a_byte(elf: bytes) -> None:
    assert elf_problem(elf) is None
    assert elf_problem(elf[:-1]) == "is truncated: it has 119 bytes of 120"


def test_truncated_section_table(elf: bytes) -> None:
    sections = patched(patched(elf, 40, (160).to_bytes(8, "little")), 58, b"\x40\0\x02\0")
    assert elf_problem(sections) == "is truncated: it has 120 bytes of 288"


def test_truncated_segment(elf: bytes) -> None:
    first_segment = 64
    offset, size = first_segment + 8, first_segment + 32  # fields of its header
    assert elf_problem(patched(elf, size, (121).to_bytes(8, "little"))) == "is truncated: it has 120 bytes of 121"
    assert elf_problem(patched(elf, offset, (4).to_bytes(8, "little"))) == "is truncated: it has 120 bytes of 124"


def patched(data: bytes, offset: int, value: bytes) -> bytes:
    return data[:offset] + value + data[offset + len(value) :]


def test_not_for_this_machine() -> None:
    data = real_library().read_bytes()[:4096]
    assert elf_problem(b"") == "is no ELF file"
    assert elf_problem(b"!<arch>\n" + data) == "is no ELF file"
    assert elf_problem(patched(data, 4, b"\x01")) == "is no 64-bit little-endian ELF shared object"
    assert elf_problem(patched(data, 5, b"\x02")) == "is no 64-bit little-endian ELF shared object"
    assert elf_problem(patched(data, 16, b"\x02\0")) == "is no 64-bit little-endian ELF shared object"
    problem = elf_problem(patched(data, 18, b"\xe0\0"))  # AMD GPU
    assert problem == f"is made for another processor (ELF machine 224), this one is {platform.machine()}"


def test_check_library(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    with pytest.raises(OctaveError, match=r"missing[\s\S]*build it again: make lib"):
        check_library(path, {"size": 1, "sha256": ""}, "make lib")
    path.write_bytes(b"text")
    with pytest.raises(OctaveError, match="is no ELF file"):
        check_library(path, {"size": 4, "sha256": hashlib.sha256(b"text").hexdigest()}, "make")


@pytest.mark.parametrize(
    ("version", "parts"),
    [
        ("2.13.0", (2, 13, 0)),
        ("2.13.0+cpu", (2, 13, 0)),
        ("2.14.0a0+git1c57644", (2, 14, 0)),
        ("2.13", (2, 13)),
        ("x", ()),
    ],
)
def test_release(version: str, parts: tuple[int, ...]) -> None:
    assert release(version) == parts


@pytest.mark.parametrize("running", ["2.13.0+rocm7.2", "2.13.1", "2.14.0.dev20261001", "3.0", "2.13.0a0+git1"])
def test_torch_is_new_enough(running: str) -> None:
    check_torch(running, "2.13.0", "make", "lib.so")


@pytest.mark.parametrize("running", ["2.12.1", "2.9.0a0+git1", "1.13.0"])
def test_torch_is_too_old(running: str) -> None:
    message = f"lib.so: the library was built for torch 2.13.0 or newer; this is torch {running}"
    with pytest.raises(OctaveError, match=re.escape(message)):
        check_torch(running, "2.13.0", "make", "lib.so")
