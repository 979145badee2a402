"""More LDS than any chip has."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> Any:
    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def kernel(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32):
        at = fx.thread_idx.x
        shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32768, 16]).peek()
        shared[at] = x[at].to(fx.Float32)
        fx.gpu.barrier()
        y[at] = shared[count - at] * scale

    return kernel
