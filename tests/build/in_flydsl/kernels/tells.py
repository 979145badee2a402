"""Sound, but something is printed on stdout meanwhile."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> Any:
    print("warning: half of it was left out")

    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def kernel(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32):
        at = fx.block_idx.x * request.threads + fx.thread_idx.x
        if at < count:
            y[at] = x[at].to(fx.Float32) * scale

    return kernel
