from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from octave_gen.errors import OctaveError
from octave_gen.quality.real import text

FILES = {
    "tutorial/b.rst.txt": "last\n",
    "faq/z/inner.rst.txt": "inner\n",
    "faq/a.rst.txt": "first é\n",
    "howto/a.html": "no source",
    "library/a.rst.txt": "another part",
}
JOINED = "first é\n\ninner\n\nlast\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        path = tmp_path / text.SOURCES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    monkeypatch.setattr(text, "SHA256", hashlib.sha256(JOINED.encode()).hexdigest())
    return tmp_path


def test_the_sources_of_the_parts_in_the_order_of_their_paths(package: Path) -> None:
    assert text.read(package) == JOINED


def test_another_text_is_refused(package: Path) -> None:
    (package / text.SOURCES / "faq" / "a.rst.txt").write_text("first e\n", encoding="utf-8")
    with pytest.raises(OctaveError, match=r"has sha256 [0-9a-f]{64}, not"):
        text.read(package)


def test_a_folder_without_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(OctaveError, match="not unpacked") as caught:
        text.read(tmp_path)
    assert caught.value.where == str(tmp_path / text.SOURCES)
