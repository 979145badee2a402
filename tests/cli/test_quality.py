"""quality."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result

from octave_gen.formats.codecs import CODECS
from octave_gen.quality.synthetic import GENERATORS

Run = Callable[..., Result]

QUICK = ("quality", "--synthetic", "isotropic", "--tokens", 64, "--seeds", 2, "--group", 1, "--formats", "octave_k3v*")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Two layers of head size 64, in a folder of their own."""
    rng = np.random.default_rng(0)
    shapes = {"q": (20, 2, 64), "k": (20, 1, 64), "v": (20, 1, 64)}
    arrays = {
        f"layers.{layer}.{part}": rng.standard_normal(shape).astype(np.float16)
        for layer in (3, 5)
        for part, shape in shapes.items()
    }
    path = tmp_path / "in" / "sample.npz"
    path.parent.mkdir()
    np.savez(path, **arrays)
    return path


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_a_table_goes_to_stdout_and_progress_to_stderr(run: Run) -> None:
    result = run(*QUICK)
    assert result.exit_code == 0
    heads, *found = rows(result.stdout)
    assert heads[:4] == ["format", "bytes", "bits", "k-error"]
    plain = [row[:2] for row in found if "+" not in row[0] and "compact" not in row[0]]
    assert plain == [["octave_k3v3", "216"], ["octave_k3v4", "248"]]
    assert result.stderr.startswith("[1/2] isotropic seed 0 ")
    assert len(result.stderr.splitlines()) == 2


def test_files_json_and_html(run: Run, sample: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run("quality", sample, "--json", "--html", page)
    assert result.exit_code == 0
    (data,) = json.loads(result.stdout)["data"]
    assert (data["name"], data["head_size"]) == (str(sample), 64)
    assert [one["name"] for one in data["samples"]] == ["layer 3", "layer 5"]
    names = {one["format"] for one in data["formats"]}
    assert names | set(data["left_out"]) == set(CODECS)
    assert "octave_k3v3" in names
    sizes = [one["slot_bytes"] for one in data["formats"]]
    assert sizes == sorted(sizes)
    text = page.read_text()
    assert all(f">{name}</td>" in text for name in names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "page.html"]


def test_files_and_synthetic_data_together(run: Run, sample: Path) -> None:
    result = run("quality", sample, *QUICK[1:], "--rotary-dims", 64, "--head-size", 128, "--json")
    assert result.exit_code == 0
    assert [data["head_size"] for data in json.loads(result.stdout)["data"]] == [64, 128]


def test_all_synthetic_data_by_default(run: Run) -> None:
    result = run("quality", "--tokens", 64, "--seeds", 1, "--group", 1, "--formats", "fp8", "--json")
    assert [data["name"] for data in json.loads(result.stdout)["data"]] == list(GENERATORS)


def test_centred_k(run: Run, sample: Path, tmp_path: Path) -> None:
    from octave_gen.centring import Center, Rotary, save

    rotary = Rotary.of_base(64, 10000.0)
    centers = {layer: Center(torch.full((1, 64), 0.5), rotary, 20, 20) for layer in (3, 5)}
    file = tmp_path / "centres.safetensors"
    save(file, centers)
    result = run("quality", sample, "--center", file, "--formats", "octave_k3v3", "--json")
    assert result.exit_code == 0
    (data,) = json.loads(result.stdout)["data"]
    plain, centred = data["formats"]
    assert (plain["centred"], centred["centred"]) == (False, True)
    assert plain["mean"]["k_error"] != centred["mean"]["k_error"]
    assert plain["mean"]["v_error"] == centred["mean"]["v_error"]
    save(file, {3: centers[3]})
    result = run("quality", sample, "--center", file, "--formats", "octave_k3v3")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "layer 5: there is no centre for this layer" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--formats", "octave_k3v33"), "error: no format matches 'octave_k3v33' (did you mean octave_k3v3"),
        (("--synthetic", "nedle"), "error: no synthetic data are called 'nedle' (did you mean needle?)"),
        (("--html", "{tmp}/none/page.html"), "error: {tmp}/none: there is no such folder"),
        (("--html", "{tmp}"), "Invalid value for '--html'"),
        (("{tmp}/none.npz",), "error: {tmp}/none.npz: cannot be read: No such file or directory"),
        (("{tmp}/bad.safetensors",), "error: {tmp}/bad.safetensors: is no safetensors file of plain numbers"),
        (("{tmp}/in/sample.npz", "{tmp}/bad.npz"), "error: {tmp}/bad.npz: is no npz file of plain numbers"),
        (("{tmp}/in/sample.npz", "--seeds", "2"), "Error: --seeds is of synthetic data"),
        (("{tmp}/in/sample.npz", "--head-size", "64"), "Error: --head-size is of synthetic data"),
        (("{tmp}/in/sample.npz", "--center", "{tmp}/bad.npz"), "error: {tmp}/bad.npz: no safetensors file"),
        (("--center", "{tmp}/bad.npz"), "Error: --center is of a model's layers"),
        (("--head-size", "32"), "error: a head of 32 dims has no 64 rotary dims"),
        (("--head-size", "96", "--formats", "octave_*"), "no chosen format holds head size 96 with 64 rotary dims"),
        (("--tokens", "63"), "Invalid value for '--tokens'"),
    ],
)
def test_what_cannot_be_done_exits_2_and_writes_nothing(
    run: Run, sample: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    for name in ("bad.npz", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"no such thing")
    before = sorted(tmp_path.rglob("*"))
    html = () if "--html" in arguments else ("--html", tmp_path / "page.html")
    result = run("quality", *(argument.format(tmp=tmp_path) for argument in arguments), *html)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message.format(tmp=tmp_path) in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_page_that_cannot_be_written_exits_1_with_the_table_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from octave_gen.build import files

    def full(path: Path, data: bytes, scratch: Any = None) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(files, "write_atomically", full)
    result = run(*QUICK, "--html", tmp_path / "page.html")
    assert result.exit_code == 1
    assert rows(result.stdout)
    assert "the page cannot be written: No space left on device" in result.stderr
    assert list(tmp_path.iterdir()) == []
