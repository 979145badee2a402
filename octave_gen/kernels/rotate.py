"""rotate: the K or V rotation of a chunk in place, forward or inverse; one wave per vector."""

from __future__ import annotations

from octave_gen.arch import Arch
from octave_gen.kernels.base import (
    I32,
    I64,
    Argument,
    Extent,
    Geometry,
    KernelKind,
    Shape,
    Tier,
    pointer,
    power_of_two_head,
)

WAVES_PER_WORKGROUP = 4

ARGUMENTS = (
    Argument("x", pointer("Scalar*")),
    Argument("signs", pointer("const uint32_t*")),
    Argument("token_stride", I64),
    Argument("head_stride", I64),
    Argument("num_tokens", I32),
    Argument("k_layout", I32),
    Argument("inverse", I32),
)
"""Strides in elements. ``k_layout`` non-zero: blocks of 64 dims; zero: the whole head."""


def _geometry(shape: Shape, arch: Arch) -> Geometry:
    return Geometry(
        threads=WAVES_PER_WORKGROUP * arch.wave_size,
        grid=(Extent("tokens", WAVES_PER_WORKGROUP), Extent("heads")),
    )


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {"waves": WAVES_PER_WORKGROUP}


def _refuse(shape: Shape, arch: Arch) -> str | None:
    return power_of_two_head(shape)


KIND = KernelKind(
    name="rotate",
    op="rotate",
    purpose="rotate K, V or query vectors in place, forward or inverse",
    fields=(),
    tiers=(Tier("portable", "rotate_portable.hip.j2", ARGUMENTS, _geometry, _constants, _refuse),),
)
