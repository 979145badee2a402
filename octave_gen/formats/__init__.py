"""Cache formats by family. Descriptions only: no torch here, so a command line that lists formats starts at once.

A new family is a sibling package that offers a `base.Family` and one more entry in `FAMILIES`.
"""

from __future__ import annotations

import difflib

from octave_gen.errors import OctaveError
from octave_gen.formats.base import CacheDtype, Family, Layout
from octave_gen.formats.octave import OCTAVE

__all__ = ["CACHE_DTYPES", "FAMILIES", "CacheDtype", "Family", "Layout", "cache_dtype", "family_of"]

FAMILIES: dict[str, Family] = {OCTAVE.name: OCTAVE}

CACHE_DTYPES: dict[str, CacheDtype] = {
    dtype.name: dtype for family in FAMILIES.values() for dtype in family.cache_dtypes
}


def cache_dtype(name: str) -> CacheDtype:
    """The cache dtype of that name; OctaveError naming the nearest and all known names otherwise."""
    found = CACHE_DTYPES.get(name)
    if found is not None:
        return found
    near = difflib.get_close_matches(name, CACHE_DTYPES, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    raise OctaveError(f"unknown cache dtype {name!r}", hint=f"{guess}known: {', '.join(CACHE_DTYPES)}")


def family_of(dtype: CacheDtype) -> Family:
    """The family a cache dtype belongs to."""
    return FAMILIES[dtype.family]
