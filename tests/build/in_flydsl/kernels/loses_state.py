"""A loop whose body does not assign to the state that it changes: FlyDSL takes the state for constant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> Any:
    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def kernel(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32):
        state = SimpleNamespace(steps=fx.Int32(0))
        i = fx.Int32(0)
        while i < count:
            advance(state)
            i = i + 1
        y[fx.thread_idx.x] = state.steps.to(fx.Float32)

    return kernel


def advance(state: SimpleNamespace) -> None:
    state.steps = state.steps + 1
