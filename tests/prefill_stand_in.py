"""Registers the kinds of prefill with a tier that has arguments and geometry, and no kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from octave_gen.arch import ARCHS
from octave_gen.kernels import KINDS, prefill
from octave_gen.kernels.base import Accuracy, Argument, Extent, Geometry, KernelKind, Tier

ROWS = 128


def register(patch: pytest.MonkeyPatch, arch: str = "gfx942", tier: str = "mfma") -> None:
    """The kinds get ``tier``, and the chip offers it."""
    for kind, arguments, count in (
        (prefill.PREFIX, prefill.PREFIX_ARGUMENTS, "request_splits"),
        (prefill.CHUNK, prefill.CHUNK_ARGUMENTS, "requests"),
    ):
        patch.setitem(KINDS, kind.name, replace(kind, tiers=(_tier(kind, tier, arguments, count),)))
    chip = ARCHS[arch]
    if tier not in chip.tiers:
        patch.setitem(ARCHS, arch, replace(chip, tiers=(*chip.tiers, tier)))


def _tier(kind: KernelKind, name: str, arguments: tuple[Argument, ...], count: str) -> Tier:
    grid = (Extent("query_rows", ROWS), Extent("kv_heads"), Extent(count))
    return Tier(
        name,
        f"{kind.name}_{name}.hip.j2",
        arguments,
        geometry=lambda shape, arch: Geometry(256, grid),
        constants=lambda shape, arch: {},
        refuse=lambda shape, arch: None,
        accuracy=Accuracy(query_mode="int16", rounding=16.0),
        block_size_multiple=16,
    )
