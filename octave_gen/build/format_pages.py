"""The drawings and tables of docs/formats that layouts, codebooks and packing decide."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from octave_gen.build.blocks import Blocks, drawing, table
from octave_gen.errors import OctaveError
from octave_gen.formats.bytemap import draw
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codebook import LUT, LUT_MULT, LUT_ONE, thresholds
from octave_gen.formats.octave.layout import CACHE_DTYPES

FOLDER: Final = "docs/formats"
DRAWN: Final = ((256, 64), (128, 64))
"""The pairs of head size and rotary dims that byte maps are drawn for."""
_SIZES: Final = ((64, 64), (128, 64), (192, 64), (256, 64), (256, 128), (512, 128))


def pages() -> dict[str, Blocks]:
    """The blocks of each page, by its path relative to the checkout."""
    return {f"{FOLDER}/octave.md": _octave()}


def _octave() -> Blocks:
    blocks: dict[str, Callable[[], str]] = {
        "octave-slots": _octave_slots,
        "octave-codebooks": _octave_codebooks,
        "octave-packing-4": partial(_octave_packing, 4, 8),
        "octave-packing-3": partial(_octave_packing, 3, 32),
    }
    for dtype in CACHE_DTYPES:
        blocks[f"map-{dtype.name}"] = partial(_octave_map, dtype.fmt)
    return blocks


def _octave_map(fmt: int) -> str:
    drawings = []
    for head_size, rotary_dims in DRAWN:
        layout = SlotLayout.of(head_size, rotary_dims, fmt)
        rate = 4 * layout.slot_bytes / head_size
        title = f"head {head_size}, rotary {rotary_dims}: {layout.slot_bytes} bytes, {rate:.4g} bits per value\n\n"
        drawings.append(title + draw(layout.byte_map(), layout.slot_bytes))
    return drawing("\n\n".join(drawings))


def _octave_slots() -> str:
    return table(
        ("cache dtype", "fmt", *(f"({head}, {rotary})" for head, rotary in _SIZES)),
        [[d.name, str(d.fmt), *(_slot_bytes(head, rotary, d.fmt) for head, rotary in _SIZES)] for d in CACHE_DTYPES],
    )


def _slot_bytes(head_size: int, rotary_dims: int, fmt: int) -> str:
    try:
        return str(SlotLayout.of(head_size, rotary_dims, fmt).slot_bytes)
    except OctaveError:
        return "–"


def _octave_codebooks() -> str:
    lines = []
    for bits, entries in LUT.items():
        half = 2 ** (bits - 1)
        values = {
            "int8": [f"{entry}" for entry in entries[half:]],
            f"sigma (/ {LUT_MULT[bits]})": [f"{entry / LUT_MULT[bits]:.4f}" for entry in entries[half:]],
            "from": [f"{limit:g}" for limit in thresholds(bits)[half - 1 :]],
        }
        lines.append(f"{bits} bits, codes {half} to {2 * half - 1}; code {half - 1} - i is minus code {half} + i\n")
        lines += [f"  {name:<14}" + "".join(f"{cell:>8}" for cell in cells) + "\n" for name, cells in values.items()]
        lines.append("\n")
    return drawing("".join(lines) + f"code c with scale s stands for int8[c] * s / {LUT_ONE}\n")


def _octave_packing(bits: int, dims: int) -> str:
    from octave_gen.formats.bitmap import draw as draw_bits
    from octave_gen.formats.octave.packing import pack

    return drawing(draw_bits(lambda codes: pack(codes, bits), dims, bits, word_bytes=4))
