"""y = scale * X * X^T, 16x16, of 16 rows of X with count columns; both count and stride are multiples of 4."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from octave_gen.kernels.flydsl import lanes, matrix, memory, unstable
from octave_gen.kernels.flydsl.request import Request
from octave_gen.kernels.flydsl.unstable import Kernel, Value


def make(request: Request) -> Kernel:
    kind = {"f16": fx.Float16, "bf16": fx.BFloat16}[request.scalar]
    waves = request.threads // lanes.WAVE

    @flyc.kernel(name=request.symbol, known_block_size=[request.threads, 1, 1])
    def gram(x: fx.Pointer, y: fx.Pointer, count: fx.Int32, stride: fx.Int64, scale: fx.Float32) -> None:
        thread, lane, wave = lanes.thread_index(), lanes.lane_index(), lanes.wave_index()
        row = memory.pointer(x, kind, 8) + fx.Int64(lane % 16) * stride
        shared = memory.shared_bytes(waves * 1024)
        sums = sum_up(row, fx.Int32(lane // 16 * 4), fx.Int32(wave * 16), waves * 16, count, kind)
        place = wave * 1024 + lane // 16 * 256 + lane % 16 * 4
        for r in fx.range_constexpr(4):
            memory.store(shared + fx.Int32(place + r * 64), sums[r])
        lanes.workgroup_barrier()
        total = fx.Float32(0)
        for w in fx.range_constexpr(waves):
            total = total + memory.load(shared + fx.Int32(w * 1024 + thread * 4), fx.Float32)
        y[fx.Int32(thread)] = total * scale

    return gram


@unstable.device
def sum_up(row: Value, own: Value, first: Value, step: int, count: Value, kind: Value) -> Value:
    """A wave's tiles of 16 columns; ``own``: the first of the lane's four columns in each."""
    sums = matrix.zero_sums(fx.Float32)
    while first < count:
        words = fx.Vector.filled(2, 0, fx.Int32)
        if first + own < count:
            words = memory.load(row + (first + own), fx.Int32, 2, alignment=8)
        operand = [words[0], words[1]]
        sums = matrix.multiply_half(operand, operand, sums, kind)
        first = first + step
    return sums
