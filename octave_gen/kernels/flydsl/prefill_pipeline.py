"""The pipeline of both prefill kernels over a workgroup's tiles, and P V.

While tile t is scored, its V and K of tile t+1 are unpacked to LDS; while P V of tile t-1 runs, its weights are made.
What comes after them is on its way from memory. Nothing but the operands of its first matrix instructions is waited for
after a barrier, and beside them there is K to unpack. What is written between two schedule barriers runs side by side,
matrix instructions beside vector arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import flydsl.expr as fx

from octave_gen.kernels.flydsl.lanes import schedule_barrier, workgroup_barrier
from octave_gen.kernels.flydsl.matrix import multiply_half
from octave_gen.kernels.flydsl.memory import load, memory, store
from octave_gen.kernels.flydsl.prefill_state import State, Weights, no_weights
from octave_gen.kernels.flydsl.prefill_tile import Place, Tile
from octave_gen.kernels.flydsl.unstable import Carried, Value, device


class Source(Carried, ABC):
    """Brings in a workgroup's tiles and scores them. ``buffer``: 0 or 1, of two tiles in LDS.

    number: of V in LDS and of the weights, fx.Float16 or fx.BFloat16; values: V in LDS, of both buffers; score_steps:
    calls of ``score`` for a tile; added: sums of the weights that ``weigh`` or ``settle`` made last, two for each row
    tile.
    """

    tile: Tile
    place: Place
    number: Any
    values: Value
    score_steps: int
    added: list[Any]

    def look_ahead(self) -> None:
        """Where the next tile is; behind the last one, any that exists."""

    @abstractmethod
    def load_keys(self) -> None:
        """Of that tile, from memory."""

    @abstractmethod
    def load_values(self) -> None:
        """Of the tile before the one whose keys were loaded last."""

    @abstractmethod
    def store_keys(self, buffer: Value | int) -> None:
        """What was loaded, into a buffer."""

    def unpack_values(self, half: int) -> None:
        """Dims 2 * half and 2 * half + 1 of each quad."""

    @abstractmethod
    def store_values(self, half: int, buffer: Value) -> None:
        """The same, into a buffer."""

    @abstractmethod
    def start_scores(self, buffer: Value) -> None:
        """Of the tile in a buffer; then ``score_steps`` times ``score``."""

    @abstractmethod
    def score(self, step: int, buffer: Value) -> None:
        """A part of it."""

    @abstractmethod
    def weigh(self, s: int, i: int, pair: int, state: State) -> None:
        """Weights of two tokens of a subtile and row tile."""

    @abstractmethod
    def weights(self) -> Weights:
        """Of the tile, packed. They are so when those before them have served: no copies of registers."""

    @abstractmethod
    def unsettled(self, t: Value, weights: Weights) -> Value:
        """Whether tile t's weights are not yet right."""

    @abstractmethod
    def settle(self, t: Value, state: State) -> tuple[State, Weights]:
        """Raises references, masks tokens: the right ones, and ``added``."""

    def check_values(self, t: Value, buffer: Value, state: State) -> State:
        """The state once V of tile t is in a buffer, and its weights are in the sums."""
        return state


class ValueReader:
    """P V of a tile, one tile of 16 dims after the other."""

    def __init__(self, source: Source, buffer: Value) -> None:
        tile, place = source.tile, source.place
        self.source = source
        # Reads run so far ahead of the matrix instructions that LDS has time for them.
        self.ahead = 4 // tile.subtiles
        lane = (place.group * tile.head_size + place.row) * 8
        self.lane = memory(source.values, buffer * tile.value_bytes + lane)
        self.operands: dict[int, list[Any]] = {}
        for n in fx.range_constexpr(self.ahead):
            self._read(n)

    def _read(self, n: int) -> None:
        tile = self.source.tile
        if n < tile.out_tiles:
            self.operands[n] = [
                list(load(memory(self.lane, (4 * s * tile.head_size + 16 * n) * 8), fx.Int32, 2, alignment=8))
                for s in fx.range_constexpr(tile.subtiles)
            ]

    def accumulate(self, n: int, weights: Weights, state: State) -> None:
        """Adds a tile of dims."""
        self._read(n + self.ahead)
        values = self.operands.pop(n)
        for s in fx.range_constexpr(self.source.tile.subtiles):
            for part in weights:
                for i in fx.range_constexpr(self.source.tile.row_tiles):
                    state.out[i][n] = multiply_half(values[s], part[s][i], state.out[i][n], self.source.number)


def _score_tile(source: Source, buffer: Value) -> ValueReader:
    """Scores the tile in ``buffer``, brings in its V and the next tile's K; a reader of the V before."""
    source.start_scores(buffer)
    schedule_barrier()
    source.look_ahead()
    source.store_keys(1 - buffer)
    source.unpack_values(0)
    schedule_barrier()
    source.load_keys()
    schedule_barrier()
    source.store_values(0, buffer)
    reader = None
    for step in fx.range_constexpr(source.score_steps):
        schedule_barrier()
        if step == source.score_steps - 1:
            reader = ValueReader(source, 1 - buffer)
        source.score(step, buffer)
        if step == source.score_steps // 4:
            source.unpack_values(1)
            source.store_values(1, buffer)
            source.load_values()
    assert reader is not None
    return reader


def _weigh_tile(source: Source, reader: ValueReader, weights: Weights, state: State) -> Weights:
    """P V of the tile before, whose ``weights`` are given, beside the weights of the tile that was scored."""
    tile = source.tile
    pairs = tile.subtiles * tile.row_tiles * 2
    for n in fx.range_constexpr(tile.out_tiles):
        schedule_barrier()
        reader.accumulate(n, weights, state)
        if n * pairs % tile.out_tiles == 0:
            pair = n * pairs // tile.out_tiles
            source.weigh(pair // 2 // tile.row_tiles, pair // 2 % tile.row_tiles, pair % 2, state)
    schedule_barrier()
    return source.weights()


def _clear_values(source: Source) -> None:
    """Zeros for the tile before the first one."""
    tile = source.tile
    for j in fx.range_constexpr(4):
        offset = tile.value_bytes + source.place.value_offset(tile, j)
        store(memory(source.values, offset), fx.Vector.filled(2, 0, fx.Int32), alignment=8)


@device
def attend(source: Source, state: State, tiles: Value) -> State:
    """The state after ``tiles`` tiles, of which there is one at least."""
    weights = no_weights(source.tile, source.number)
    source.load_keys()
    source.store_keys(0)
    source.look_ahead()
    source.load_keys()
    schedule_barrier()
    source.load_values()
    _clear_values(source)
    workgroup_barrier()
    for number in range(tiles):
        t = fx.Int32(number)
        buffer = t & 1
        reader = _score_tile(source, buffer)
        weights = _weigh_tile(source, reader, weights, state)
        state = source.check_values(t - 1, 1 - buffer, state)
        added = source.added
        if source.unsettled(t, weights):
            state, weights = source.settle(t, state)
            added = source.added
        for i in fx.range_constexpr(source.tile.row_tiles):
            state.sum[i] = state.sum[i] + added[i]
        workgroup_barrier()
    last = tiles - 1
    reader = ValueReader(source, last & 1)
    for n in fx.range_constexpr(source.tile.out_tiles):
        reader.accumulate(n, weights, state)
    return source.check_values(last, last & 1, state)
