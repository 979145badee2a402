from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from octave_gen.formats.codecs import make
from octave_gen.quality.real.results import BLOCK_TOKENS, Results, codec_digest


def test_windows_are_added_one_by_one(tmp_path: Path) -> None:
    results = Results(tmp_path / "not" / "there")
    assert results.losses(768, "x", "digest") == {}
    results.add(768, "x", "digest", 50, torch.tensor([1.0] * BLOCK_TOKENS + [4.0, 2.0]))
    results.add(768, "x", "digest", 0, torch.tensor([0.5]))
    assert Results(tmp_path / "not" / "there").losses(768, "x", "digest") == {0: [0.5], 50: [1.0, 3.0]}
    assert results.losses(4096, "x", "digest") == {}
    assert results.losses(768, "y", "digest") == {}


def test_another_codec_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add(768, "x", "old", 0, torch.tensor([1.0]))
    assert results.losses(768, "x", "new") == {}
    results.add(768, "x", "new", 9, torch.tensor([2.0]))
    assert results.losses(768, "x", "new") == {9: [2.0]}
    assert results.losses(768, "x", "old") == {}


def test_a_file_says_what_it_is_of(tmp_path: Path) -> None:
    Results(tmp_path).add(768, "x", "digest", 3, torch.tensor([1.5]))
    (path,) = tmp_path.rglob("*.json")
    assert path.relative_to(tmp_path) == Path("768/x.json")
    assert json.loads(path.read_text()) == {"codec": "digest", "losses": {"3": [1.5]}}


@pytest.mark.parametrize("name", ["octave_k3v3", "fp8", "turbo3"])
def test_a_digest_is_of_the_arithmetic(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = make(name, 128, 64)
    digest = codec_digest(codec)
    assert digest == codec_digest(make(name, 128, 64))
    encode, decode = type(codec).encode, type(codec).decode
    monkeypatch.setattr(type(codec), "decode", lambda self, slots: tuple(1.001 * x for x in decode(self, slots)))
    assert codec_digest(codec) != digest
    monkeypatch.setattr(type(codec), "decode", decode)
    monkeypatch.setattr(type(codec), "encode", lambda self, key, value: encode(self, key * 1.5, value))
    assert codec_digest(codec) != digest


def test_digests_differ_between_codecs() -> None:
    names = ("octave_k3v3", "octave_k3v3_compact", "octave_k3v4", "fp8", "int8", "turbo3", "turboquant_3bit_nc")
    assert len({codec_digest(make(name, 128, 64)) for name in names}) == len(names)
