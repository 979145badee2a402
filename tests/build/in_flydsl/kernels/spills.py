"""More values at a time than the registers of `waves_per_simd` waves hold."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> Any:
    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def kernel(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32):
        at = fx.thread_idx.x
        values = [x[at + 64 * i].to(fx.Float32) for i in range(120)]
        fx.gpu.barrier()
        for i in fx.range_constexpr(120):
            y[at + 64 * i] = values[119 - i] * scale

    return kernel
