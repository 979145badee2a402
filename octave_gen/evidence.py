"""What is known of a chip's kernels, in words that claim no more than was done."""

from __future__ import annotations

from octave_gen.arch import Arch


def evidence_words(chip: Arch) -> str:
    """``compiled, not executed``, ``executed and checked in an interpreter`` or who ran them on hardware, and when."""
    found = chip.evidence
    if found.level == "hardware":
        return f"run on hardware by {found.by}, {found.when}"
    return {"compiled": "compiled, not executed", "interpreted": "executed and checked in an interpreter"}[found.level]
