"""reduce: merges decode's partials over the KV splits and applies the inverse V rotation; one workgroup per output row.

The waves of a workgroup share the splits, and each has several partials on the way at a time: a launch has few rows
where a context is split most, and what it then takes is the latency of its loads.
"""

from __future__ import annotations

from octave_gen.kernels.base import (
    I32,
    I64,
    Argument,
    Extent,
    KernelKind,
    pointer,
    portable_tier,
)

WAVES = 8

ARGUMENTS = (
    Argument("mid_o", pointer("const float*")),
    Argument("out", pointer("Scalar*")),
    Argument("v_signs", pointer("const uint32_t*")),
    Argument("mid_token_stride", I64),
    Argument("mid_head_stride", I64),
    Argument("mid_split_stride", I64),
    Argument("out_token_stride", I64),
    Argument("out_head_stride", I64),
    Argument("num_kv_splits", I32),
)
"""Strides in elements."""


KIND = KernelKind(
    name="reduce",
    op="decode",
    purpose="merge the partials of the KV splits and rotate the output back",
    fields=(),
    tiers=(portable_tier("reduce_portable.hip.j2", ARGUMENTS, Extent("queries"), Extent("heads"), waves=WAVES),),
)
