"""``python -m octave_gen``."""

from __future__ import annotations

from octave_gen.cli import main

if __name__ == "__main__":
    main()
