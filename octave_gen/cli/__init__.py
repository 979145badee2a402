"""The command line."""

from __future__ import annotations

from octave_gen.cli.group import main

__all__ = ["main"]
