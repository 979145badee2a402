"""Samples from npz and safetensors, and files that hold none."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.quality.files import read

Write = Callable[..., Path]


def parts(layer: int = 0, head: int = 16, dtype: torch.dtype = torch.float16) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(layer)
    shapes = {"q": (9, 4, head), "k": (9, 2, head), "v": (9, 2, head)}
    return {f"layers.{layer}.{name}": torch.randn(*shape, generator=source).to(dtype) for name, shape in shapes.items()}


def npz(path: Path, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> Path:
    np.savez(path.with_suffix(".npz"), **{k: t.numpy() for k, t in tensors.items()}, **numbers)
    return path.with_suffix(".npz")


def safetensors(path: Path, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> Path:
    save_file(tensors, path.with_suffix(".safetensors"), {key: str(value) for key, value in numbers.items()})
    return path.with_suffix(".safetensors")


@pytest.fixture(params=[npz, safetensors], ids=["npz", "safetensors"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    """``write(tensors, numbers)``: the path of a file with them."""
    return lambda tensors, numbers=(): request.param(tmp_path / "sample", tensors, dict(numbers))


def refused(path: Path) -> OctaveError:
    with pytest.raises(OctaveError) as error:
        read(path)
    assert error.value.exit_code == WRONG_REQUEST
    assert str(error.value.where).startswith(str(path))
    assert error.value.hint
    return error.value


def test_layers_are_read_in_order(write: Write) -> None:
    tensors = {**parts(10), **parts(2), "lm_head": torch.zeros(3), "layers.2.gate": torch.zeros(3)}
    data = read(write(tensors))
    assert [(one.name, one.layer) for one in data.samples] == [("layer 2", 2), ("layer 10", 10)]
    assert data.notes == ("layers 2, 10",)
    for one in data.samples:
        assert torch.equal(one.query, tensors[f"layers.{one.layer}.q"])
        assert torch.equal(one.key, tensors[f"layers.{one.layer}.k"])
        assert torch.equal(one.value, tensors[f"layers.{one.layer}.v"])
        assert (one.sm_scale, one.window) == (0.25, None)


def test_scale_and_window_of_all_layers_and_of_one(write: Write) -> None:
    numbers = {"sm_scale": 0.5, "window": 512, "layers.1.sm_scale": 0.125, "layers.2.window": 7, "comment": 3}
    data = read(write({**parts(0), **parts(1), **parts(2)}, numbers))
    assert [(one.sm_scale, one.window) for one in data.samples] == [(0.5, 512), (0.125, 512), (0.5, 7)]


def test_bf16_and_fp32(tmp_path: Path) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        path = safetensors(tmp_path / "sample", parts(dtype=dtype), {})
        assert read(path).samples[0].key.dtype == dtype


def test_a_part_is_missing(write: Write) -> None:
    tensors = parts(3)
    del tensors["layers.3.k"], tensors["layers.3.v"]
    error = refused(write(tensors))
    assert error.what == "layers.3.k and layers.3.v missing"
    assert str(error.where).endswith(", layer 3")


def test_values_that_cannot_be_measured(write: Write) -> None:
    tensors = parts(4)
    tensors["layers.4.v"][3, 1, 2] = torch.nan
    assert refused(write(tensors)).what == "v holds NaN or infinite values"


def test_shapes_that_do_not_fit(write: Write) -> None:
    error = refused(write({**parts(0), "layers.0.q": torch.zeros(9, 3, 16)}))
    assert error.what == "q has the shape [9, 3, 16], beside a k of [9, 2, 16]"


def test_a_key_without_dims(write: Write) -> None:
    assert refused(write({**parts(0), "layers.0.k": torch.tensor(1.0)})).what == "k has the shape []"


def test_numbers_of_another_type(write: Write) -> None:
    assert refused(write({**parts(0), "layers.0.k": torch.zeros(9, 2, 16, dtype=torch.int64)})).what == "k is int64"


def test_no_layers(write: Write) -> None:
    assert refused(write({"q": torch.zeros(3)})).what == "holds no layers.<n>.q, .k and .v"


def test_several_head_sizes(write: Write) -> None:
    error = refused(write({**parts(0), **parts(1, head=32)}))
    assert error.what == "holds layers of several head sizes: 16 in layer 0 and 32 in layer 1"


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("sm_scale", 0, "sm_scale is 0.0"),
        ("sm_scale", float("nan"), "sm_scale is nan"),
        ("window", 0, "window is 0.0"),
        ("window", 2.5, "window is 2.5"),
        ("layers.0.window", float("inf"), "window is inf"),
    ],
)
def test_scales_and_windows_that_mean_nothing(write: Write, name: str, value: float, what: str) -> None:
    assert refused(write(parts(0), {name: value})).what == what


def test_a_number_that_is_a_word(tmp_path: Path) -> None:
    error = refused(safetensors(tmp_path / "sample", parts(0), {"window": "all"}))
    assert error.what.startswith("is no safetensors file of plain numbers: ")
    error = refused(npz(tmp_path / "sample", parts(0), {"window": np.array([1, 2])}))
    assert error.what.startswith("is no npz file of plain numbers: ")


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "sample.npz"
    np.savez(path, **{"layers.0.q": np.array([{"a": 1}], dtype=object)})
    assert refused(path).what.startswith("is no npz file of plain numbers: ")
    np.savez(path, **{"layers.0.q": np.array(["a"])})
    assert refused(path).what.startswith("is no npz file of plain numbers: ")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x04}.", b"{}" * 50, b"\x93NUMPY\x01\x00"])
def test_what_is_no_such_file(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"sample{suffix}"
    path.write_bytes(content)
    assert re.match(rf"is no {suffix[1:]} file of plain numbers: |cannot be read: ", refused(path).what)


@pytest.mark.parametrize("write_one", [npz, safetensors], ids=["npz", "safetensors"])
def test_a_file_that_was_cut_or_damaged(tmp_path: Path, write_one: Callable[..., Path]) -> None:
    path = write_one(tmp_path / "sample", parts(0), {})
    whole = path.read_bytes()
    for size in (10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:size])
        assert re.match(r"is no \w+ file of plain numbers: |cannot be read: ", refused(path).what)


def test_a_single_array(tmp_path: Path) -> None:
    np.save(tmp_path / "sample.npy", np.zeros(3))
    (tmp_path / "sample.npy").rename(tmp_path / "sample.npz")
    assert refused(tmp_path / "sample.npz").what == "is no npz file of plain numbers: it holds a single array"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_file_that_is_not_there(tmp_path: Path, suffix: str) -> None:
    assert refused(tmp_path / f"none{suffix}").what.startswith("cannot be read: No such file")
    (tmp_path / f"folder{suffix}").mkdir()
    assert refused(tmp_path / f"folder{suffix}").what.startswith(("cannot be read: ", "is no "))


def test_another_suffix(tmp_path: Path) -> None:
    (tmp_path / "sample.pt").touch()
    assert refused(tmp_path / "sample.pt").what == "is named neither .npz nor .safetensors"


def test_a_shape_beyond_all_numbers(tmp_path: Path) -> None:
    path = tmp_path / "huge.npz"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 30 + b",)}\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("layers.0.q.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(OctaveError, match="no npz file of plain numbers"):
        read(path)
