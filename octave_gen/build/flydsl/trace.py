"""What makes drift visible of a kernel in FlyDSL: the hash of what was traced, and how often which operation occurs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol

BEGIN: Final = "traced "
"""How a paragraph begins."""


class Traced(Protocol):
    """A kernel before any pass: its text, without places in sources, and the count of each operation."""

    @property
    def text(self) -> str: ...

    @property
    def operations(self) -> Mapping[str, int]: ...


def text(traced: Mapping[str, Traced]) -> str:
    """A paragraph for each symbol, sorted: its name, the sha256 of its text, then an operation to a line."""
    paragraphs = []
    for symbol in sorted(traced):
        kernel = traced[symbol]
        counts = [f"{kernel.operations[name]:6} {name}" for name in sorted(kernel.operations)]
        digest = hashlib.sha256(kernel.text.encode()).hexdigest()
        paragraphs.append("\n".join([f"{BEGIN}{symbol}", f"sha256 {digest}", *counts]) + "\n")
    return "\n".join(paragraphs)
