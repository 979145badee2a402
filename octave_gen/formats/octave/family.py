"""The Octave family as the rest of the project sees it: dtypes, shapes, layout, constants. Needs no torch."""

from __future__ import annotations

from octave_gen.formats.base import CacheDtype, c_name, render_c_ints
from octave_gen.formats.octave import codebook
from octave_gen.formats.octave.layout import COMPACT_FLAG, SlotLayout, geometry_problem

NAME = "octave"
_COMPACT_K = "whole head rotated together, 3 bits, one scale"
_BLOCK_K = "64-dim blocks, rotary dims 4 bits, the rest 3 bits, one scale a block"


class OctaveFamily:
    """Implements `formats.base.Family`."""

    name = NAME
    cache_dtypes = (
        CacheDtype("octave_k3v3_compact", NAME, 3 + COMPACT_FLAG, _COMPACT_K, 3),
        CacheDtype("octave_k3v3", NAME, 3, _BLOCK_K, 3),
        CacheDtype("octave_k3v4", NAME, 4, _BLOCK_K, 4),
    )

    def layout(self, dtype: CacheDtype, head_size: int, rotary_dims: int) -> SlotLayout:
        """The slot layout of a shape; OctaveError for dims that are no multiple of 64, and compact K of a head no power of two."""
        return SlotLayout.of(head_size, rotary_dims, dtype.fmt)

    def layout_of_slot(self, head_size: int, slot_bytes: int, fmt: int) -> SlotLayout:
        """The layout of a cache whose last dimension is slot_bytes; see `SlotLayout.from_slot_bytes`."""
        return SlotLayout.from_slot_bytes(head_size, slot_bytes, fmt)

    def refuse(self, head_size: int, rotary_dims: int, dtype: CacheDtype) -> str | None:
        """Why no kernel is offered for a shape, or None: what `layout` cannot hold, and full rotary."""
        problem = geometry_problem(head_size, rotary_dims, dtype.fmt >= COMPACT_FLAG)
        if problem is None and rotary_dims == head_size:
            problem = (
                f"full rotary (rotary_dims = head_size = {head_size}): the Octave family is made for partial rotary heads, "
                "with more bits for the rotary dims than for the rest"
            )
        return problem

    def template_constants(self) -> dict[str, int]:
        """The codebooks; see `codebook.template_constants`."""
        return codebook.template_constants()

    def c_constants(self) -> str:
        """The codebooks as members of a C++ struct: multipliers, v_perm_b32 dwords, thresholds and int8 tables."""
        numbers = self.template_constants()
        dwords = [name for name, value in numbers.items() if value > 0xFFFF]
        text = render_c_ints({name: value for name, value in numbers.items() if name not in dwords})
        text += "".join(f"static constexpr unsigned {c_name(name)} = 0x{numbers[name]:08x}u;\n" for name in dwords)
        for bits, table in codebook.LUT.items():
            limits = codebook.thresholds(bits)
            text += f"static constexpr float {c_name(f'thresholds{bits}')}[{len(limits)}] = "
            text += "{" + ", ".join(f"{limit!r}f" for limit in limits) + "};\n"
            text += f"static constexpr signed char {c_name(f'lut{bits}')}[{len(table)}] = "
            text += "{" + ", ".join(map(str, table)) + "};\n"
        return text


OCTAVE = OctaveFamily()
