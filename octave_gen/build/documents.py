"""Documents of the checkout with generated blocks: which they are, and their text with every block made anew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from octave_gen.build import format_pages, readme
from octave_gen.build.blocks import Blocks
from octave_gen.errors import OctaveError
from octave_gen.plan import Variant


def documents(planned: Sequence[Variant]) -> dict[str, Blocks]:
    """The blocks of each document, by its path relative to the checkout."""
    return {readme.FILE_NAME: readme.blocks(planned), **format_pages.pages()}


def texts(root: Path, planned: Sequence[Variant]) -> dict[str, str]:
    """What each document of the checkout ``root`` should be, by path; OctaveError for one that cannot be read."""
    return {path: updated(_read(root, path), path, blocks) for path, blocks in documents(planned).items()}


def _read(root: Path, path: str) -> str:
    try:
        return (root / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OctaveError(f"it cannot be read: {error}", where=path) from error


def updated(text: str, path: str, blocks: Blocks) -> str:
    """``text`` with its blocks made anew, each between ``<!-- octave-gen:NAME -->`` and ``<!-- /octave-gen:NAME -->``;
    raises OctaveError, where=path, when a pair of markers is missing, occurs twice or has no block."""
    for name, make in blocks.items():
        first, last = f"<!-- octave-gen:{name} -->\n", f"<!-- /octave-gen:{name} -->\n"
        if text.count(first) != 1 or text.count(last) != 1 or text.index(last) < text.index(first):
            raise OctaveError(
                f"the generated block {name!r} has no place",
                where=path,
                hint=f"write the lines {first.strip()} and {last.strip()} once each; the block goes between them",
            )
        before, _, rest = text.partition(first)
        text = f"{before}{first}\n{make()}\n{last}{rest.partition(last)[2]}"
    for name in re.findall(r"<!-- /?octave-gen:(\S+) -->", text):
        if name not in blocks:
            raise OctaveError(f"there is no block {name!r}", where=path, hint=f"known: {', '.join(blocks)}")
    return text
