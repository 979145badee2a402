"""The text that the model reads: documentation that a Debian package ships as reStructuredText."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from octave_gen.errors import OctaveError

PACKAGE: Final = "python3.11-doc"
SOURCES: Final = "usr/share/doc/python3.11/html/_sources"
PARTS: Final = ("faq", "howto", "reference", "tutorial")
SHA256: Final = "bec2cb8a0808b7cf81084eda81e50be87f4452f53e8c345e8437d9e63aa3bed3"
"""Of the text; 3.11.2-6+deb12u8 and +deb12u9 of the package have the same."""


def read(root: Path) -> str:
    """All sources of ``PARTS`` in the order of their paths, joined; root: the folder the package was unpacked into.

    OctaveError for a package without them, and for another text than the recorded one.
    """
    sources = root / SOURCES
    files = [file for part in PARTS for file in sorted((sources / part).rglob("*.rst.txt"))]
    if not files:
        raise OctaveError(f"{PACKAGE} is not unpacked there", where=str(sources), hint=f"dpkg-deb -x {PACKAGE}*.deb")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != SHA256:
        hint = "take a version of Debian 12, whose results are recorded"
        raise OctaveError(f"the text of this {PACKAGE} has sha256 {found}, not {SHA256}", where=str(root), hint=hint)
    return text
