"""Generated blocks in documents: where they go, and what is said where they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from octave_gen import plan, spec
from octave_gen.build import documents
from octave_gen.build.blocks import Blocks
from octave_gen.errors import OctaveError

ROOT = Path(__file__).parents[2]
BLOCKS: Blocks = {"one": lambda: "| first |\n", "two": lambda: "second\n"}
EMPTY = "# Title\n\n" + "text\n\n".join(f"<!-- octave-gen:{name} -->\n<!-- /octave-gen:{name} -->\n" for name in BLOCKS)


def test_the_checkout_s_documents_have_a_place_for_every_block() -> None:
    planned = plan.variants(spec.shipped())
    found = documents.texts(ROOT, planned)
    assert {"README.md", "docs/formats/octave.md"} <= set(found)
    for path, text in found.items():
        assert documents.updated(text, path, documents.documents(planned)[path]) == text


def test_updating_keeps_the_text_and_settles() -> None:
    once = documents.updated(EMPTY, "page.md", BLOCKS)
    assert once == (
        "# Title\n\n<!-- octave-gen:one -->\n\n| first |\n\n<!-- /octave-gen:one -->\n"
        "text\n\n<!-- octave-gen:two -->\n\nsecond\n\n<!-- /octave-gen:two -->\n"
    )
    assert documents.updated(once, "page.md", BLOCKS) == once
    assert documents.updated(once.replace("first", "stale\nlines"), "page.md", BLOCKS) == once


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("damage", ["first", "last", "twice", "swapped"])
def test_markers_that_are_not_there_once_each(name: str, damage: str) -> None:
    first, last = f"<!-- octave-gen:{name} -->\n", f"<!-- /octave-gen:{name} -->\n"
    text = {
        "first": EMPTY.replace(first, ""),
        "last": EMPTY.replace(last, ""),
        "twice": EMPTY + first + last,
        "swapped": EMPTY.replace(first + last, last + first),
    }[damage]
    with pytest.raises(OctaveError, match=f"^page.md.*block '{name}' has no place") as error:
        documents.updated(text, "page.md", BLOCKS)
    assert f"<!-- octave-gen:{name} -->" in str(error.value)


@pytest.mark.parametrize("marker", ["<!-- octave-gen:old -->", "<!-- /octave-gen:old -->"])
def test_a_marker_without_a_block(marker: str) -> None:
    with pytest.raises(OctaveError, match="no block 'old'"):
        documents.updated(f"{EMPTY}{marker}\n", "page.md", BLOCKS)
