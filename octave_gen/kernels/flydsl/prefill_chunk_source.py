"""The tiles of prefill_chunk: K and V of the chunk itself, in the query's dtype, causally."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import flydsl.expr as fx

from octave_gen.kernels.flydsl.arithmetic import INFINITY, exp2
from octave_gen.kernels.flydsl.codebook import permute_bytes
from octave_gen.kernels.flydsl.lanes import ballot, lane_xor
from octave_gen.kernels.flydsl.matrix import multiply_half, zero_sums
from octave_gen.kernels.flydsl.memory import load, memory, store
from octave_gen.kernels.flydsl.prefill_pipeline import Source
from octave_gen.kernels.flydsl.prefill_state import HEADROOM, State, Weights, any_large, no_weights
from octave_gen.kernels.flydsl.prefill_tile import Place, Tile, key_slot, quotient, remainder, shared
from octave_gen.kernels.flydsl.unstable import Value, device

UPPER_HALF = -0x10000
"""Of a dword, as a mask."""


class ChunkSource(Source):
    """``keys`` and ``values_from``: K and V of the request's first token and the kv head, with strides in bytes.

    visible, common: tokens that the last row sees, and that every row sees; query, limit: by row tile, dims 32 * k +
    8 * (lane / 16) … + 7 of the lane's row, and how many tokens it sees; unit: of scores, in log2 units.
    """

    carried = ("loaded", "key_words", "value_words")

    def __init__(self, tile: Tile, place: Place, number: Any, allocator: Any) -> None:
        self.tile, self.place, self.number = tile, place, number
        self.depths = tile.head_size // 32
        self.score_steps = tile.subtiles * self.depths
        self.key_loads = tile.tokens * tile.head_size // 8 // tile.threads
        self.key_bytes = 2 * tile.tokens * tile.head_size
        self.keys_to = shared(2 * self.key_bytes, allocator)
        self.values = shared(2 * tile.value_bytes, allocator)
        # NaN for tokens whose V has an Inf or NaN, which V in LDS lacks; of tiles that not all rows see.
        self.unfit = shared(2 * 4 * tile.tokens, allocator)
        self.loaded = fx.Int32(0)  # tiles of K
        self.key_words = [fx.Vector.filled(4, 0, fx.Int32) for _ in fx.range_constexpr(self.key_loads)]
        self.value_words = [fx.Vector.filled(2, 0, fx.Int32) for _ in fx.range_constexpr(4)]
        self.key_chunk = remainder(place.thread, tile.head_size // 8)
        self.key_lane = [key_slot(place.row, place.group + 4 * k, 2 * tile.head_size) for k in fx.range_constexpr(2)]

    def of_request(self, keys: Value, values: Value, key_stride: Value, value_stride: Value) -> None:
        """Where K and V are."""
        self.keys, self.values_from = keys, values
        self.key_stride, self.value_stride = key_stride, value_stride

    def of_rows(self, query: list[Any], limit: list[Any], visible: Value, common: Value, unit: Value) -> None:
        """What the rows are."""
        self.query, self.limit, self.visible, self.common, self.unit = query, limit, visible, common, unit

    def seen_by_all(self, t: Value) -> Value:
        return (t + 1) * self.tile.tokens <= self.common

    def _key_token(self, e: int) -> Value:
        return quotient(self.place.thread + e * self.tile.threads, self.tile.head_size // 8)

    def load_keys(self) -> None:
        for e in fx.range_constexpr(self.key_loads):
            token = fx.min(self.loaded * self.tile.tokens + self._key_token(e), self.visible - 1)
            offset = fx.Int64(token) * self.key_stride + fx.Int64(self.key_chunk * 16)
            self.key_words[e] = load(memory(self.keys, offset), fx.Int32, 4, alignment=16)
        self.loaded = self.loaded + 1

    def store_keys(self, buffer: Value | int) -> None:
        for e in fx.range_constexpr(self.key_loads):
            slot = key_slot(self._key_token(e), self.key_chunk, 2 * self.tile.head_size)
            store(memory(self.keys_to, slot + buffer * self.key_bytes), self.key_words[e], alignment=16)

    def load_values(self) -> None:
        place = self.place
        for n in fx.range_constexpr(4):
            own = 16 * place.subtile + 4 * place.value_group + n
            token = fx.min((self.loaded - 2) * self.tile.tokens + own, self.visible - 1)
            offset = fx.Int64(token) * self.value_stride + fx.Int64(place.value_quad * 8)
            self.value_words[n] = load(memory(self.values_from, offset), fx.Int32, 2, alignment=8)

    def store_values(self, half: int, buffer: Value) -> None:
        """The tile is the third last of those whose K was loaded."""
        if half == 0:
            self.value_words = self._fit_values(self.loaded - 3, buffer)
        for d in fx.range_constexpr(2):
            selector = 0x05040100 if d == 0 else 0x07060302
            pairs = [
                permute_bytes(self.value_words[2 * pair + 1][half], self.value_words[2 * pair][half], selector)
                for pair in fx.range_constexpr(2)
            ]
            offset = buffer * self.tile.value_bytes + self.place.value_offset(self.tile, 2 * half + d)
            store(memory(self.values, offset), fx.Vector.from_elements(pairs), alignment=8)

    @device
    def _fit_values(self, t: Value, buffer: Value) -> list[Any]:
        """V of tile t with zeros for the tokens that have an Inf or NaN; these are marked."""
        words = self.value_words
        if not self.seen_by_all(t):
            words = self._marked_values(words, buffer)
        return words

    def _marked_values(self, words: list[Any], buffer: Value) -> list[Any]:
        place, lanes = self.place, self.tile.quads
        exponent = 0x7C00 if self.number is fx.Float16 else 0x7F80
        first = 16 * place.subtile + 4 * place.value_group
        # The lanes that hold the same four tokens as this one.
        own = fx.Int64((1 << lanes) - 1 if lanes < 64 else -1) << fx.Int64(place.lane - remainder(place.lane, lanes))
        fitting = []
        for n in fx.range_constexpr(4):
            masks = [exponent << (16 * (d % 2)) for d in fx.range_constexpr(4)]
            unfit = reduce(or_, [(words[n][d // 2] & masks[d]) == masks[d] for d in fx.range_constexpr(4)])
            fitting.append(unfit.select(fx.Vector.filled(2, 0, fx.Int32), words[n]))
            marked = ((ballot(unfit) & own) != 0).select(fx.Float32(float("nan")), fx.Float32(0.0))
            # All of these lanes write the same number.
            store(memory(self.unfit, (buffer * self.tile.tokens + first + n) * 4), marked)
        return fitting

    def _read(self, step: int, buffer: Value) -> Value:
        """The key of a step: 32 dims of 16 tokens."""
        s, k = divmod(step, self.depths)
        offset = buffer * self.key_bytes + self.key_lane[k % 2] + (s * 32 * self.tile.head_size + k // 2 * 128)
        return load(memory(self.keys_to, offset), fx.Int32, 4, alignment=16)

    def start_scores(self, buffer: Value) -> None:
        self.key = self._read(0, buffer)
        self.power: dict[tuple[int, int], Any] = {}

    def score(self, step: int, buffer: Value) -> None:
        """32 dims of a subtile."""
        s, k = divmod(step, self.depths)
        key = self.key
        if step + 1 < self.score_steps:
            self.key = self._read(step + 1, buffer)
        for half in fx.range_constexpr(2):
            for i in fx.range_constexpr(self.tile.row_tiles):
                before = zero_sums(fx.Float32) if k == half == 0 else self.power[s, i]
                words = (list(_half(key, half)), list(_half(self.query[i][k], half)))
                self.power[s, i] = multiply_half(*words, before, self.number)

    def weigh(self, s: int, i: int, pair: int, state: State) -> None:
        if pair == 0:
            self.power[s, i] = self.power[s, i] * self.unit
        difference = _half(self.power[s, i], pair) - state.reference[i]
        self._weigh_power(difference, s, i, pair)

    def weights(self) -> Weights:
        return self.weighed

    def unsettled(self, t: Value, weights: Weights) -> Value:
        return ~self.seen_by_all(t) | any_large(weights)

    def settle(self, t: Value, state: State) -> tuple[State, Weights]:
        tile = self.tile
        first = t * tile.tokens + self.place.group * 4
        for i in fx.range_constexpr(tile.row_tiles):
            seen = [
                [first + (16 * s + r) < self.limit[i] for r in fx.range_constexpr(4)]
                for s in fx.range_constexpr(tile.subtiles)
            ]
            largest = fx.Float32(-INFINITY)
            for s in fx.range_constexpr(tile.subtiles):
                for r in fx.range_constexpr(4):
                    largest = seen[s][r].select(fx.maxnumf(largest, self.power[s, i][r]), largest)
            largest = fx.maxnumf(largest, lane_xor(largest, 16))
            largest = fx.maxnumf(largest, lane_xor(largest, 32))
            state.raise_to(i, largest + HEADROOM)
            for s in fx.range_constexpr(tile.subtiles):
                for pair in fx.range_constexpr(2):
                    difference = [
                        seen[s][r].select(self.power[s, i][r] - state.reference[i], fx.Float32(-INFINITY))
                        for r in (2 * pair, 2 * pair + 1)
                    ]
                    self._weigh_power(fx.Vector.from_elements(difference), s, i, pair)
        return state, self.weighed

    @device
    def check_values(self, t: Value, buffer: Value, state: State) -> State:
        if (t >= 0) & ~self.seen_by_all(t):
            state = self._checked(t, buffer, state)
        return state

    def _checked(self, t: Value, buffer: Value, state: State) -> State:
        tile, group = self.tile, self.place.group
        for s in fx.range_constexpr(tile.subtiles):
            own = (buffer * tile.tokens + 16 * s + 4 * group) * 4
            unfit = load(memory(self.unfit, own), fx.Float32, 4, alignment=16)
            first = t * tile.tokens + 16 * s + 4 * group
            for i in fx.range_constexpr(tile.row_tiles):
                one, other = state.sum[i]
                for r in fx.range_constexpr(4):
                    one = one + (first + r < self.limit[i]).select(unfit[r], fx.Float32(0.0))
                state.sum[i] = fx.Vector.from_elements([one, other])
        return state

    def _weigh_power(self, difference: Value, s: int, i: int, pair: int) -> None:
        """2^difference, packed; what was packed is added, so that sums and outputs agree."""
        power = fx.Vector.from_elements([exp2(difference[0]), exp2(difference[1])])
        first = s == 0 and pair == 0
        if first and i == 0:
            self.added = [power] * self.tile.row_tiles
            self.weighed = no_weights(self.tile, self.number)
        if self.number is fx.Float16:
            both = power.to(fx.Float16)
            self.weighed[0][s][i][pair] = both.bitcast(fx.Int32)[0]
            power = both.to(fx.Float32)
        else:
            upper = power.bitcast(fx.Int32) & UPPER_HALF
            lower = (power - upper.bitcast(fx.Float32)).bitcast(fx.Int32)
            for part, bits in enumerate((upper, lower)):
                self.weighed[part][s][i][pair] = fx.Int32(permute_bytes(bits[1], bits[0], 0x07060302))
        self.added[i] = power if first else self.added[i] + power


def _half(vector: Value, half: int) -> Value:
    """Two of four elements."""
    return vector.shuffle(vector, [2 * half, 2 * half + 1])
