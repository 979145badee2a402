from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from octave_gen.centring import Center, Rotary, as_key, load, save
from octave_gen.errors import OctaveError

ORIGIN = {
    "head_size": 8,
    "rotary_dims": 4,
    "inv_freq": [1.0, 0.01],
    "layout": "half",
    "max_position": 99,
    "tokens": 512,
}


def metadata_of(layers: object, **more: object) -> dict[str, str]:
    return {"k_center": json.dumps({"format": "octave-gen k_center", "version": 1, "layers": layers, **more})}


def center(seed: int, kv_heads: int = 2, head: int = 8) -> Center:
    k_center = torch.randn(kv_heads, head, generator=torch.Generator().manual_seed(seed))
    return Center(k_center, Rotary.of_base(4, 1e4), max_position=99, tokens=512)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "centers.safetensors"
    centers = {11: center(1), 2: center(2), 0: center(3, kv_heads=1, head=64)}
    save(path, centers)
    loaded = load(path)
    assert list(loaded) == [0, 2, 11]
    assert all(torch.equal(loaded[layer], centers[layer].k_center) for layer in centers)
    assert all(x.dtype == torch.float32 and x.is_contiguous() for x in loaded.values())
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_file_is_what_its_page_says(tmp_path: Path) -> None:
    save(tmp_path / "a", {3: center(1)})
    with safe_open(tmp_path / "a", framework="pt") as file:
        assert list(file.keys()) == ["layers.3.k_center"]
        metadata = file.metadata()
    assert metadata == metadata_of({"3": ORIGIN})


def test_equal_centres_are_equal_files(tmp_path: Path) -> None:
    save(tmp_path / "a", {1: center(1), 0: center(2)})
    save(tmp_path / "b", {0: center(2), 1: center(1)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_view_is_saved_as_its_values(tmp_path: Path) -> None:
    wide = torch.arange(32.0).reshape(2, 16)
    save(tmp_path / "a", {0: Center(wide[:, ::2], Rotary(()), 0, 512)})
    assert torch.equal(load(tmp_path / "a")[0], wide[:, ::2])


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_what_cannot_be_loaded_is_not_saved(tmp_path: Path, value: float) -> None:
    path = tmp_path / "centers.safetensors"
    save(path, {0: center(1)})
    before = path.read_bytes()
    broken = center(2)
    broken.k_center[1, 3] = value
    for centers in ({0: broken}, {}, {-1: center(1)}, {0: Center(center(1).k_center.double(), Rotary(()), 0, 512)}):
        with pytest.raises(OctaveError) as caught:
            save(path, centers)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "missing" / "file", tmp_path / "folder"):
        with pytest.raises(OctaveError):
            save(path, {0: center(1)})
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
    assert not list((tmp_path / "folder").iterdir())


def good() -> Tensor:
    return torch.ones(2, 8)


def broken(index: int) -> Tensor:
    x = good()
    x.view(-1)[index] = torch.nan
    return x


def with_origin(**changes: object) -> dict[str, str]:
    return metadata_of({"0": {**ORIGIN, **changes}})


ONE = {"layers.0.k_center": good()}


@pytest.mark.parametrize(
    ("tensors", "metadata", "word"),
    [
        (ONE, None, "metadata"),
        (ONE, {"k_center": "{"}, "metadata"),
        (ONE, {"k_center": "[]"}, "metadata"),
        (ONE, {"k_center": '{"format": "octave-gen k_center", "version": 1}'}, "metadata"),
        (ONE, metadata_of({"0": ORIGIN}, version=2), "2)"),
        (ONE, metadata_of({"0": ORIGIN}, format="pt"), "pt"),
        (ONE, metadata_of({"0": ORIGIN}, more=1), "alone"),
        (ONE, {**metadata_of({"0": ORIGIN}), "more": ""}, "alone"),
        (ONE, metadata_of([ORIGIN]), "alone"),
        (ONE, metadata_of({}), "missing"),
        (ONE, metadata_of({"0": ORIGIN, "1": ORIGIN}), "without a tensor: 1"),
        ({}, metadata_of({}), "no layer"),
        ({"layers.00.k_center": good()}, metadata_of({"00": ORIGIN}), "layers.00.k_center"),
        ({"layers.0.k_centre": good()}, metadata_of({"0": ORIGIN}), "k_centre"),
        ({**ONE, "layers.0.v": good()}, metadata_of({"0": ORIGIN}), "layers.0.v"),
        ({"layers.0.k_center": good().half()}, metadata_of({"0": ORIGIN}), "float16"),
        ({"layers.0.k_center": good()[0]}, metadata_of({"0": ORIGIN}), "[8]"),
        ({"layers.0.k_center": good()[:0]}, metadata_of({"0": ORIGIN}), "[0, 8]"),
        ({"layers.0.k_center": broken(15)}, metadata_of({"0": ORIGIN}), "not finite"),
        ({"layers.0.k_center": torch.ones(2, 16)}, metadata_of({"0": ORIGIN}), "head_size 8"),
        (ONE, with_origin(more=1), "other fields"),
        (ONE, metadata_of({"0": [1]}), "other fields"),
        (ONE, with_origin(tokens=1.5), "integers"),
        (ONE, with_origin(tokens=True), "integers"),
        (ONE, with_origin(max_position=-1), "integers"),
        (ONE, with_origin(layout="neox"), "half, interleaved"),
        (ONE, with_origin(layout=[]), "half, interleaved"),
        (ONE, with_origin(rotary_dims=6), "6 rotary dims"),
        (ONE, with_origin(inv_freq=[1.0, "x"]), "no rotary embedding"),
        (ONE, with_origin(inv_freq=[1.0, -1.0]), "no rotary embedding"),
        (ONE, with_origin(inv_freq=2), "no rotary embedding"),
        (ONE, with_origin(inv_freq=[0.1] * 5, rotary_dims=10), "10 rotary dims"),
    ],
)
def test_a_file_that_save_does_not_write_is_refused(
    tmp_path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None, word: str
) -> None:
    path = tmp_path / "bad.safetensors"
    save_file(tensors, path, metadata)
    with pytest.raises(OctaveError) as caught:
        load(path)
    assert word in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.hint


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    save(whole, {0: center(1)})
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[:-1])
    text = tmp_path / "text"
    text.write_text("no tensors")
    for path in (cut, text, tmp_path / "missing", tmp_path):
        with pytest.raises(OctaveError) as caught:
            load(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_as_key_rounds_and_is_dense(dtype: torch.dtype) -> None:
    k_center = center(1).k_center
    for x in (k_center, k_center.T.contiguous().T):
        cast = as_key(x, dtype)
        assert torch.equal(cast, k_center.to(dtype))
        assert cast.is_contiguous()


def test_as_key_refuses_what_would_saturate() -> None:
    x = torch.zeros(1, 8)
    x[0, 2] = -65504 * 1.01
    with pytest.raises(OctaveError) as caught:
        as_key(x, torch.float16)
    assert "66159" in str(caught.value)
    assert as_key(x, torch.bfloat16)[0, 2] == x[0, 2].bfloat16()
    with pytest.raises(OctaveError):
        as_key(x, torch.float32)
