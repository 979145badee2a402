"""The tiles of prefill_prefix: packed slots, scores with the scales of K's blocks, weights with that of V."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.kernels.flydsl.arithmetic import INFINITY, exp2, log2
from octave_gen.kernels.flydsl.lanes import lane_xor, uniform
from octave_gen.kernels.flydsl.matrix import multiply_int8
from octave_gen.kernels.flydsl.memory import load, load_constant, memory, pointer, store
from octave_gen.kernels.flydsl.prefill_pipeline import Source
from octave_gen.kernels.flydsl.prefill_query import Query
from octave_gen.kernels.flydsl.prefill_state import State, Weights, any_large, no_weights, reference_above
from octave_gen.kernels.flydsl.prefill_tile import Place, Tile, key_slot, quotient, shared
from octave_gen.kernels.flydsl.prefill_unpack import PackedUnit
from octave_gen.kernels.flydsl.unstable import Value, device, intrinsic

FLOAT_BITS = 0x4B400000
FLOAT_OFFSET = 12582912.0
"""Integer sums start at the bits of 1.5 * 2^23, so that they are, as they are, floats of that plus the sum: no
conversion. 256 dims of 127 * 127 stay within +-2^22."""


class PrefixSource(Source):
    """``token``, ``page``, ``row``: of the wave's next subtile; ``block``: its block of the cache; ``key_base`` and
    ``value_base``: where the subtiles whose K and V are loaded next lie behind the head's first byte."""

    carried = ("token", "page", "row", "block", "key_base", "value_base", "packed")

    def __init__(self, layout: SlotLayout, tile: Tile, place: Place, row_stride: Value, allocator: Any) -> None:
        self.layout, self.tile, self.place, self.number = layout, tile, place, fx.Float16
        self.blocks = tile.head_size // 64
        self.blocks_of_scale = self.blocks // layout.k_blocks
        self.score_steps = tile.subtiles * self.blocks
        self.packed = PackedUnit(layout, tile, place, row_stride)
        self.key_bytes = tile.tokens * tile.head_size
        self.keys = shared(2 * self.key_bytes, allocator)
        self.values = shared(2 * tile.value_bytes, allocator)
        # K's scales and behind them V's
        self.scale_bytes = tile.tokens * tile.head_size // 16 * 4
        self.scales = shared(2 * self.scale_bytes, allocator)
        self.key_lane = [key_slot(place.row, place.group + 4 * b, tile.head_size) for b in fx.range_constexpr(2)]

    def of_rows(self, query: list[Query]) -> None:
        """What the rows are."""
        self.query = query

    def of_split(
        self, head: Value, table: Value, block_stride: Value, block_size: Value, begin: Value, end: Value
    ) -> None:
        """Tokens begin … end - 1 of a request's cache; ``table``: its blocks; block_stride: bytes."""
        self.head, self.table = head, table
        self.block_stride, self.block_size, self.begin, self.end = block_stride, block_size, begin, end
        first = begin + 16 * self.place.subtile
        self.token = (first < end).select(first, begin)
        self.page = uniform(quotient(self.token, block_size))
        self.row = self.token - self.page * block_size
        self.block = self._block()
        self.key_base = self.value_base = fx.Int64(0)

    def _block(self) -> Value:
        return load_constant(pointer(self.table, fx.Int32, 4) + fx.Int64(self.page))

    def look_ahead(self) -> None:
        place = [self.token, self.page, self.row]
        self.token, self.page, self.row = _ahead(place, self.end, self.block_size, self.tile.tokens)
        self.block = self._block()

    def load_keys(self) -> None:
        self.value_base = self.key_base
        row = fx.Int64(self.row) * fx.Int64(self.packed.row_stride)
        self.key_base = fx.Int64(self.block) * self.block_stride + row
        self.packed.load_keys(memory(self.head, self.key_base))

    def load_values(self) -> None:
        self.packed.load_values(memory(self.head, self.value_base))

    def store_keys(self, buffer: Value | int) -> None:
        self.packed.store_keys(
            memory(self.keys, buffer * self.key_bytes), memory(self.scales, buffer * self.scale_bytes)
        )

    def unpack_values(self, half: int) -> None:
        self.dims = self.packed.unpack_values(half)

    def store_values(self, half: int, buffer: Value) -> None:
        for d in fx.range_constexpr(2):
            offset = buffer * self.tile.value_bytes + self.place.value_offset(self.tile, 2 * half + d)
            store(memory(self.values, offset), fx.Vector.from_elements(self.dims[d]), alignment=8)

    def _read(self, step: int, buffer: Value) -> list[Value]:
        """The keys of a step: 64 dims of 16 tokens."""
        s, b = divmod(step, self.blocks)
        offset = buffer * self.key_bytes + self.key_lane[b % 2] + (s * 16 * self.tile.head_size + b // 2 * 128)
        return list(load(memory(self.keys, offset), fx.Int32, 4, alignment=16))

    def _scale_of(self, s: int, block: int, buffer: Value) -> Value:
        """Of K's block of dims, of four tokens; V's is behind the last one."""
        offset = buffer * self.scale_bytes + ((block * self.tile.tokens + 16 * s) * 4 + self.place.group * 16)
        return load(memory(self.scales, offset), fx.Float32, 4, alignment=16)

    def start_scores(self, buffer: Value) -> None:
        self.key = self._read(0, buffer)
        self.scale = {0: self._scale_of(0, 0, buffer)}  # by run: K's blocks of all subtiles
        self.value_scale: dict[int, Any] = {}  # by subtile
        self.sums: dict[tuple[int, int], Any] = {}  # by row tile and half
        self.scores: dict[tuple[int, int], Any] = {}  # by subtile and row tile
        self.products: dict[tuple[int, int, int], Any] = {}  # weights times V's scale

    def score(self, step: int, buffer: Value) -> None:
        """64 dims of a subtile."""
        s, b = divmod(step, self.blocks)
        key, runs = self.key, self.score_steps // self.blocks_of_scale
        if step + 1 < self.score_steps:
            self.key = self._read(step + 1, buffer)
        if b == self.blocks - 1:
            self.value_scale[s] = self._scale_of(s, self.layout.k_blocks, buffer)
        run = step // self.blocks_of_scale + 1
        for i in fx.range_constexpr(self.tile.row_tiles):
            self._multiply(key, b, i)
            # Beside them, the sums that the row tile before this one has complete.
            done = step if i == 0 else step + 1
            if done > 0 and done % self.blocks_of_scale == 0:
                self._rescale(done // self.blocks_of_scale - 1, (i - 1) % self.tile.row_tiles)
            if i == 0 and b % self.blocks_of_scale == 0 and run < runs:
                self.scale[run] = self._scale_of(*divmod(run, self.layout.k_blocks), buffer)

    def _multiply(self, key: list[Value], b: int, i: int) -> None:
        for part in fx.range_constexpr(2):
            for h in fx.range_constexpr(2):
                first = part == 0 and b % self.blocks_of_scale == 0
                before = fx.Vector.filled(4, FLOAT_BITS, fx.Int32) if first else self.sums[i, h]
                words = slice(2 * part, 2 * part + 2)
                self.sums[i, h] = multiply_int8(key[words], self.query[i].half[h][b][words], before)

    def _rescale(self, run: int, i: int) -> None:
        """Adds the dims of one scale of K."""
        s, block = divmod(run, self.layout.k_blocks)
        high, low = (self.sums[i, h].bitcast(fx.Float32) for h in fx.range_constexpr(2))
        # 128 * high - offset, which is exact
        shifted = high - (FLOAT_OFFSET + FLOAT_OFFSET / 128)
        total = fx.math.fma(shifted, fx.Vector.filled(4, 128.0, fx.Float32), low)
        scale = self.scale[run]
        self.scores[s, i] = scale * total if block == 0 else fx.math.fma(scale, total, self.scores[s, i])

    def weigh(self, s: int, i: int, pair: int, state: State) -> None:
        tile = self.tile
        if (s, i, pair) == (tile.subtiles - 1, tile.row_tiles - 1, 0):
            self._rescale(self.score_steps // self.blocks_of_scale - 1, i)
        both = [2 * pair, 2 * pair + 1]
        score = self.scores[s, i].shuffle(self.scores[s, i], both)
        # Rounded before the reference, which was rounded alike, is taken off: no difference of large ones overflows.
        power = score * self.query[i].scale - state.reference[i]
        result = fx.Vector.from_elements([exp2(x) for x in power])
        first = s == 0 and pair == 0
        if first and i == 0:
            self.added = [result] * tile.row_tiles
        self.added[i] = result if first else self.added[i] + result
        self.products[s, i, pair] = result * self.value_scale[s].shuffle(self.value_scale[s], both)

    def weights(self) -> Weights:
        weights = no_weights(self.tile, self.number)
        for (s, i, pair), product in self.products.items():
            weights[0][s][i][pair] = _cut_off(product)
        return weights

    def unsettled(self, t: Value, weights: Weights) -> Value:
        return (self.begin + (t + 1) * self.tile.tokens > self.end) | any_large(weights)

    def settle(self, t: Value, state: State) -> tuple[State, Weights]:
        tile = self.tile
        weights = no_weights(tile, self.number)
        first = self.begin + t * tile.tokens + self.place.group * 4
        subtiles, neighbours = fx.range_constexpr(tile.subtiles), fx.range_constexpr(4)
        seen = [[first + (16 * s + r) < self.end for r in neighbours] for s in subtiles]
        logarithm = [
            [log2(fx.maxnumf(self.value_scale[s][r], fx.Float32(2.0**-30))) for r in neighbours] for s in subtiles
        ]
        zero = fx.Float32(0.0)
        for i in fx.range_constexpr(tile.row_tiles):
            power = [self.scores[s, i] * self.query[i].scale for s in subtiles]
            largest = fx.Float32(-INFINITY)
            for s in subtiles:
                for r in neighbours:
                    largest = seen[s][r].select(fx.maxnumf(largest, power[s][r] + logarithm[s][r]), largest)
            for mask in (16, 32):
                largest = fx.maxnumf(largest, lane_xor(largest, mask))
            state.raise_to(i, reference_above(largest))
            added = [zero, zero]
            for s in subtiles:
                product = []
                for r in neighbours:
                    p = exp2(power[s][r] - state.reference[i])
                    added[r % 2] = added[r % 2] + seen[s][r].select(p, zero)
                    product.append(seen[s][r].select(p * self.value_scale[s][r], zero))
                weights[0][s][i] = [_cut_off(product[:2]), _cut_off(product[2:])]
            self.added[i] = fx.Vector.from_elements(added)
        return state, weights


@device
def _ahead(place: list[Value], end: Value, block_size: Value, tokens: int) -> list[Value]:
    """Token, page and row of the subtile ``tokens`` after ``place``; behind the last one, the same."""
    token, page, row = place
    if token + tokens < end:
        token = token + tokens
        row = row + tokens
        while row >= block_size:
            row = row - block_size
            page = page + 1
    return [token, page, row]


def _cut_off(pair: Value | list[Value]) -> Value:
    """Two numbers as fp16, rounded towards zero, in a word."""
    return intrinsic(fx.Float16x2, "llvm.amdgcn.cvt.pkrtz", pair[0], pair[1]).bitcast(fx.Int32)[0]
