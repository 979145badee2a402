"""rotate: the K or V rotation of a chunk in place, forward or inverse; one wave per vector."""

from __future__ import annotations

from octave_gen.kernels.base import (
    I32,
    I64,
    WAVES_PER_WORKGROUP,
    Argument,
    Extent,
    KernelKind,
    pointer,
    portable_tier,
)

ARGUMENTS = (
    Argument("x", pointer("Scalar*")),
    Argument("signs", pointer("const uint32_t*")),
    Argument("center", pointer("const Scalar*")),
    Argument("token_stride", I64),
    Argument("head_stride", I64),
    Argument("num_tokens", I32),
    Argument("k_layout", I32),
    Argument("inverse", I32),
)
"""Strides in elements. ``k_layout`` non-zero: blocks of 64 dims; zero: the whole head.

center: dense [heads, head_size], subtracted from x in fp32 before the signs, forward only; null: nothing is.
"""


KIND = KernelKind(
    name="rotate",
    op="rotate",
    purpose="rotate K, V or query vectors in place, forward or inverse",
    fields=(),
    tiers=(portable_tier("rotate_portable.hip.j2", ARGUMENTS, Extent("tokens", WAVES_PER_WORKGROUP), Extent("heads")),),
)
