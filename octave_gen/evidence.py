"""What is known of a chip's kernels, in words that claim no more than was done."""

from __future__ import annotations

from octave_gen.arch import ALLOW_UNVALIDATED, Arch


def evidence_words(chip: Arch) -> str:
    """``compiled, not executed``, ``executed and checked in an interpreter`` or who ran them on hardware, and when; and
    what builds those of a chip on request."""
    found = chip.evidence
    words = {"compiled": "compiled, not executed", "interpreted": "executed and checked in an interpreter"}
    known = f"run on hardware by {found.by}, {found.when}" if found.level == "hardware" else words[found.level]
    return f"{known}; built with {ALLOW_UNVALIDATED} only" if chip.on_request else known
