"""The Octave family as the rest of the project sees it: dtypes, shapes, layout, constants. Needs no torch."""

from __future__ import annotations

from octave_gen.formats.base import CacheDtype
from octave_gen.formats.octave import candidates, codebook
from octave_gen.formats.octave.encoders import DEFAULT_ENCODER, ENCODERS, SEARCH
from octave_gen.formats.octave.layout import (
    BLOCK_DIMS,
    CACHE_DTYPES,
    MAX_HEAD_SIZE,
    NAME,
    SlotLayout,
    geometry_problem,
    is_compact,
)


class OctaveFamily:
    """Implements `formats.base.Family`."""

    name = NAME
    block_dims = BLOCK_DIMS
    max_head_size = MAX_HEAD_SIZE
    cache_dtypes = CACHE_DTYPES
    encoders = ENCODERS
    default_encoder = DEFAULT_ENCODER

    def layout(self, dtype: CacheDtype, head_size: int, rotary_dims: int) -> SlotLayout:
        """The slot layout of a shape; OctaveError where `geometry_problem` has a reason."""
        return SlotLayout.of(head_size, rotary_dims, dtype.fmt)

    def layout_of_slot(self, head_size: int, slot_bytes: int, fmt: int) -> SlotLayout:
        """The layout of a cache whose last dimension is slot_bytes; see `SlotLayout.from_slot_bytes`."""
        return SlotLayout.from_slot_bytes(head_size, slot_bytes, fmt)

    def refuse(self, head_size: int, rotary_dims: int, dtype: CacheDtype) -> str | None:
        """Why no kernel is offered for a shape, or None: what `layout` cannot hold; block K of a full rotary head."""
        problem = geometry_problem(head_size, rotary_dims, is_compact(dtype.fmt))
        if problem is None and rotary_dims == head_size and not is_compact(dtype.fmt):
            problem = (
                f"full rotary (rotary_dims = head_size = {head_size}): block K is made for partial rotary heads, whose "
                "rotary dims get more bits than the rest; compact dtypes do not depend on them"
            )
        return problem

    def c_constants(self) -> str:
        """The codebooks as members of a C++ struct; see `codebook.c_constants`."""
        return codebook.c_constants()

    def encoder_constants(self, encoder: str) -> str:
        """Of `search` its candidates; see `candidates.c_constants`."""
        return candidates.c_constants() if encoder == SEARCH else ""


OCTAVE = OctaveFamily()
