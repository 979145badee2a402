"""A math function that the compiler has no code for."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> Any:
    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def kernel(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32):
        at = fx.thread_idx.x
        y[at] = fx.math.tanh(x[at].to(fx.Float32) * scale)

    return kernel
