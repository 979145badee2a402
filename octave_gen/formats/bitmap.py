"""Where the bits of packed codes lie, as a drawing: what a packing function does, found by trying it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Bit = tuple[int, int]
"""Dim and bit of its code."""


def places(pack: Callable[[Tensor], Tensor], dims: int, bits: int) -> list[list[Bit]]:
    """The source of each bit of each byte, bit 0 first. pack: uint8 codes [..., dims] -> uint8 [..., dims * bits / 8].

    ValueError unless each bit of a code goes to one bit of its own.
    """
    sources = [(dim, bit) for dim in range(dims) for bit in range(bits)]
    codes = torch.zeros(len(sources), dims, dtype=torch.uint8)
    for row, (dim, bit) in enumerate(sources):
        codes[row, dim] = 1 << bit
    packed = pack(codes)
    set_bits = (packed.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8) & 1).flatten(1)
    if not (set_bits.sum(1) == 1).all() or not (set_bits.sum(0) == 1).all():
        raise ValueError("the bits of codes and the bits of bytes are not one to one")
    origin = set_bits.argmax(0).tolist()
    found = [sources[row] for row in origin]
    return [found[first : first + 8] for first in range(0, len(found), 8)]


def draw(pack: Callable[[Tensor], Tensor], dims: int, bits: int, word_bytes: int) -> str:
    """A table for each word of ``word_bytes`` bytes, bytes from left to right, high bits on top: the dim, and behind a
    colon which bits of its code unless it is all of them. Arguments as of `places`."""
    found = places(pack, dims, bits)
    tables = []
    for first in range(0, len(found), word_bytes):
        word = found[first : first + word_bytes]
        lines = [f"{'':9}" + "".join(f"{f'byte {first + i}':>9}" for i in range(len(word)))]
        for high, low in _runs(word):
            name = f"bit {high}" if high == low else f"bits {high}-{low}"
            cells = [_cell(byte[high], byte[low], bits) for byte in word]
            lines.append(f"{name:<9}" + "".join(f"{cell:>9}" for cell in cells))
        tables.append("".join(f"{line}\n" for line in lines))
    return "\n".join(tables)


def _runs(word: list[list[Bit]]) -> list[tuple[int, int]]:
    """The bits of a byte from the highest on, as (highest, lowest) of runs that are one code's in every byte."""
    runs = [(7, 7)]
    for bit in range(6, -1, -1):
        high, _ = runs[-1]
        if all(byte[bit] == (byte[high][0], byte[high][1] - (high - bit)) for byte in word):
            runs[-1] = (high, bit)
        else:
            runs.append((bit, bit))
    return runs


def _cell(high: Bit, low: Bit, bits: int) -> str:
    if (high[1], low[1]) == (bits - 1, 0):
        return str(high[0])
    return f"{high[0]}:{high[1]}" if high[1] == low[1] else f"{high[0]}:{high[1]}-{low[1]}"
