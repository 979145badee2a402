"""What a kernel module is asked for. Imports no flydsl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from octave_gen.formats.base import Layout


@dataclass(frozen=True)
class Request:
    """One kernel: what its module's ``make(request)`` specialises it on.

    symbol: the name of the kernel; arch: the chip; threads: of a workgroup (x only); waves_per_simd: as many waves must
    fit on a SIMD (of the budget); scalar: the query dtype; layout: of a slot, None for kernels that read no cache;
    config: the tier's constants, without those of the format.
    """

    symbol: str
    arch: str
    threads: int
    waves_per_simd: int
    scalar: Literal["f16", "bf16"]
    layout: Layout | None
    head_size: int
    config: Mapping[str, int]
