"""docs/ names what is in the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import octave_gen
import octave_gen.ops
from octave_gen.formats import CACHE_DTYPES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def first_cells(text: str) -> list[str]:
    """What the first cells of a document's tables have in backquotes."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_header_is_in_the_table_once() -> None:
    headers = sorted(path.name for path in (ROOT / "templates" / "include" / "octave").iterdir())
    assert len(headers) > 20
    assert sorted(name for name in first_cells(ARCHITECTURE) if name.endswith(".h")) == headers


def test_every_room_is_in_the_table_once() -> None:
    (package,) = octave_gen.__path__
    folders = {f"{path.parent.name}/" for path in Path(package).glob("*/__init__.py")}
    modules = {path.stem for path in Path(package).glob("[!_]*.py")}
    assert "kernels/" in folders
    assert "plan" in modules
    listed = [name for name in first_cells(ARCHITECTURE) if not name.endswith(".h")]
    inside = [name for name in listed if name.count("/") > 1]
    assert sorted(set(listed) - set(inside)) == sorted(folders | modules)
    assert len(listed) == len(set(listed))
    assert all((Path(package) / name / "__init__.py").is_file() for name in inside)


def test_every_fmt_is_listed() -> None:
    wanted = {f"{dtype.fmt} {name}" for name, dtype in CACHE_DTYPES.items()}
    (row,) = re.findall(r"^\| fmt \| (.*) \|$", (ROOT / "docs" / "ops.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(row.split(", ")) == wanted
    (listed,) = re.findall(r"fmt: (\d[^;]*);", " ".join(str(octave_gen.ops.__doc__).split()))
    assert set(listed.split(", ")) == wanted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8"))
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
