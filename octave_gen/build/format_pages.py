"""The drawings and tables of docs/formats.md and docs/formats/ that codecs, layouts and codebooks decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from octave_gen.build.blocks import Blocks, drawing, table
from octave_gen.errors import OctaveError
from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.bytemap import draw
from octave_gen.formats.codecs import CODECS, make
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codebook import LUT, LUT_MULT, LUT_ONE, thresholds

if TYPE_CHECKING:
    from octave_gen.formats.codec import Codec

FOLDER: Final = "docs/formats"
DRAWN: Final = ((256, 64), (128, 64))
"""The pairs of head size and rotary dims that byte maps are drawn for."""
_SIZES: Final = ((64, 64), (128, 64), (192, 64), (256, 64), (256, 128), (512, 128))


def pages() -> Mapping[str, Blocks]:
    """The blocks of each page, by its path relative to the checkout."""
    found: dict[str, dict[str, Callable[[], str]]] = {
        f"{FOLDER}.md": {"formats": _formats},
        f"{FOLDER}/octave.md": {
            "octave-slots": _octave_slots,
            "octave-codebooks": _octave_codebooks,
            "octave-packing-4": partial(_octave_packing, 4, 8),
            "octave-packing-3": partial(_octave_packing, 3, 32),
        },
        f"{FOLDER}/turboquant.md": {"stream-3": partial(_stream, 3, 3), "stream-4": partial(_stream, 4, 4)},
        f"{FOLDER}/turbo.md": {"turbo-codebooks": _turbo_codebooks},
        f"{FOLDER}/octopus.md": {"octopus-words": partial(_stream, 7, 7)},
    }
    for name in CODECS:
        if "+" not in name:  # an encoder, which changes no place
            found.setdefault(f"{FOLDER}/{_page(name)}.md", {})[f"map-{name}"] = partial(_map, name)
    return found


def _page(name: str) -> str:
    """The page that describes a format."""
    family = name.rstrip("0123456789").partition("_")[0]
    return family if family in ("octave", "turboquant", "turbo", "octopus") else "scalar"


def _map(name: str) -> str:
    drawings = []
    for head_size, rotary_dims in DRAWN:
        codec = make(name, head_size, rotary_dims)
        head = f"head {head_size}, rotary {rotary_dims}" if name in CACHE_DTYPES else f"head {head_size}"
        title = f"{head}: {codec.slot_bytes} bytes, {_rate(codec)} bits per value\n\n"
        drawings.append(title + draw(codec.byte_map(), codec.slot_bytes))
    return drawing("\n\n".join(drawings))


def _rate(codec: Codec) -> str:
    return f"{4 * codec.slot_bytes / codec.head_size:.5g}"


def _formats() -> str:
    """Every format in the order of its bytes."""
    found = []
    for name in CODECS:
        if "+" not in name:
            larger, smaller = (make(name, head_size, rotary_dims) for head_size, rotary_dims in DRAWN)
            kernels = "yes" if name in CACHE_DTYPES else ""
            sizes = (str(larger.slot_bytes), _rate(larger), str(smaller.slot_bytes), _rate(smaller))
            found.append((larger.slot_bytes, (f"[{name}](formats/{_page(name)}.md#{name})", *sizes, kernels)))
    columns = [f"{what}, head {head}" for head, _ in DRAWN for what in ("slot bytes", "bits per value")]
    return table(("format", *columns, "kernels"), [row for _, row in sorted(found)])


def _octave_slots() -> str:
    return table(
        ("cache dtype", "fmt", *(f"({head}, {rotary})" for head, rotary in _SIZES)),
        [
            [name, str(dtype.fmt), *(_slot_bytes(head, rotary, dtype.fmt) for head, rotary in _SIZES)]
            for name, dtype in CACHE_DTYPES.items()
        ],
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


def _stream(width: int, word_bytes: int) -> str:
    from octave_gen.formats import bits
    from octave_gen.formats.bitmap import draw as draw_bits

    return drawing(draw_bits(lambda codes: bits.pack(codes, width), 8, width, word_bytes))


def _turbo_codebooks() -> str:
    from octave_gen.formats.turbo import CENTROIDS

    lines = []
    for width, centroids in CENTROIDS.items():
        lines.append(f"turbo{width}, codes 0 to {len(centroids) - 1}\n")
        for first in range(0, len(centroids), 8):
            lines.append("".join(f"{value:>14.10f}" for value in centroids[first : first + 8]) + "\n")
        lines.append("\n")
    return drawing("".join(lines).removesuffix("\n"))
