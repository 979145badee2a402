"""reduce: merges decode's partials over the KV splits and applies the inverse V rotation; one wave per output row."""

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
    Argument("mid_o", pointer("const float*")),
    Argument("out", pointer("Scalar*")),
    Argument("v_signs", pointer("const uint32_t*")),
    Argument("mid_token_stride", I64),
    Argument("mid_head_stride", I64),
    Argument("mid_split_stride", I64),
    Argument("out_token_stride", I64),
    Argument("out_head_stride", I64),
    Argument("num_heads", I32),
    Argument("num_kv_splits", I32),
)
"""Strides in elements."""


def _geometry(shape: Shape, arch: Arch) -> Geometry:
    return Geometry(
        threads=WAVES_PER_WORKGROUP * arch.wave_size,
        grid=(Extent("queries"), Extent("heads", WAVES_PER_WORKGROUP)),
    )


def _constants(shape: Shape, arch: Arch) -> dict[str, int]:
    return {"waves": WAVES_PER_WORKGROUP}


def _refuse(shape: Shape, arch: Arch) -> str | None:
    return power_of_two_head(shape)


KIND = KernelKind(
    name="reduce",
    op="decode",
    purpose="merge the partials of the KV splits and rotate the output back",
    fields=(),
    tiers=(Tier("portable", "reduce_portable.hip.j2", ARGUMENTS, _geometry, _constants, _refuse),),
)
