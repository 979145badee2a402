"""The encoders of the Octave family by name: how scale and codes of a block are chosen. Needs no torch.

All write the same slots, so what reads a cache does not depend on the encoder. ``plain``: the public implementation's
bytes. ``search``: of several scales the one whose codes are nearest in direction.
"""

from __future__ import annotations

PLAIN = "plain"
SEARCH = "search"
ENCODERS = (PLAIN, SEARCH)
DEFAULT_ENCODER = SEARCH
"""Of the op cache_store where a caller names none."""
