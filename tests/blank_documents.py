"""The documents of a checkout with generated blocks, all of them empty."""

from __future__ import annotations

from pathlib import Path

from octave_gen.build import documents

DOCUMENTS = {
    path: "# Mine\n" + "".join(f"<!-- octave-gen:{name} -->\n<!-- /octave-gen:{name} -->\n" for name in blocks)
    for path, blocks in documents.documents([]).items()
}


def write_documents(root: Path) -> None:
    """Writes them under ``root``."""
    for path, text in DOCUMENTS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
