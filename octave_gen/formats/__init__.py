"""Cache formats by family. Descriptions only: no torch here, so a command line that lists formats starts at once.

A new family is a sibling package that offers a `base.Family` and one more entry in `FAMILIES`.
"""

from __future__ import annotations

from octave_gen.errors import did_you_mean, wrong_request
from octave_gen.formats.base import CacheDtype, Family, Layout
from octave_gen.formats.octave import OCTAVE

__all__ = ["CACHE_DTYPES", "ENCODERS", "FAMILIES", "CacheDtype", "Family", "Layout", "cache_dtype", "family_of"]

FAMILIES: dict[str, Family] = {OCTAVE.name: OCTAVE}

CACHE_DTYPES: dict[str, CacheDtype] = {
    dtype.name: dtype for family in FAMILIES.values() for dtype in family.cache_dtypes
}

ENCODERS: tuple[str, ...] = tuple(dict.fromkeys(name for family in FAMILIES.values() for name in family.encoders))
"""Of all families, each once."""


def cache_dtype(name: str) -> CacheDtype:
    """The cache dtype of that name; OctaveError naming the nearest and all known names otherwise."""
    if name not in CACHE_DTYPES:
        known = tuple(CACHE_DTYPES)
        raise wrong_request(
            f"unknown cache dtype {name!r}{did_you_mean(name, known)}", hint=f"known: {', '.join(known)}"
        )
    return CACHE_DTYPES[name]


def family_of(dtype: CacheDtype) -> Family:
    """The family a cache dtype belongs to."""
    return FAMILIES[dtype.family]
