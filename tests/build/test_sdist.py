"""The source distribution holds what a checkout needs."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.sdist import SdistBuilder

ROOT = Path(__file__).parents[2]


def test_files_of_the_source_distribution() -> None:
    found = {file.distribution_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    top = {name for name in found if "/" not in name}
    assert top == {".clang-format", ".gitignore", "LICENSE", "Makefile", "README.md"}  # pyproject.toml comes by itself
    assert {name.partition("/")[0] for name in found - top} == {"octave_gen", "templates", "generated", "tests", "docs"}
