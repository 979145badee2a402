"""The guard is a `return` in a function that a kernel calls and FlyDSL rewrites."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.request import Request


@flyc.jit
def put(x: fx.Pointer, y: fx.Pointer, at: fx.Int32, count: fx.Int32, scale: fx.Float32):
    if at >= count:
        return
    y[at] = x[at].to(fx.Float32) * scale


def make(request: Request) -> Any:
    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def kernel(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32):
        put(x, y, fx.block_idx.x * request.threads + fx.thread_idx.x, count, scale)

    return kernel
