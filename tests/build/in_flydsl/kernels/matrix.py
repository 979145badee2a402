"""An int8 matrix instruction."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> Any:
    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def kernel(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32):
        at = fx.thread_idx.x
        a = fx.Int64(x[at].to(fx.Int32))
        zero = fx.Vector.filled(4, 0, fx.Int32)
        sums = fx.Vector(
            fx.rocdl.mfma_i32_16x16x32_i8(
                fx.Vector.make_type(4, fx.Int32), [a.ir_value(), a.ir_value(), zero.ir_value(), 0, 0, 0]
            )
        )
        y[at] = sums[0].to(fx.Float32) * scale

    return kernel
