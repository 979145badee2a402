"""What generated blocks of documents are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

Blocks = Mapping[str, Callable[[], str]]
"""The blocks of one document by name: functions that make the Markdown, which ends with a newline."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def drawing(text: str) -> str:
    """``text``, which ends with a newline, in a fence."""
    return f"```text\n{text}```\n"
