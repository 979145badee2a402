"""What decode's parts share: a tile's sizes, its LDS, a lane's place in it, and the loads of its packed words."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import flydsl.expr as fx

from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.kernels.flydsl import lanes, memory
from octave_gen.kernels.flydsl.codebook import PLACES
from octave_gen.kernels.flydsl.request import Request
from octave_gen.kernels.flydsl.unstable import Value

TOKENS = 16
"""Of a tile: those of a matrix instruction's 16 rows."""
_BLOCK = 64


@dataclass(frozen=True)
class Tile:
    """Sizes, all known when the kernel is made. ``wide``: the chip has matrix instructions of twice the depth."""

    layout: SlotLayout
    gqa_group: int
    query_group: int
    queries: int
    waves: int
    granule: int
    wide: bool

    @classmethod
    def of(cls, request: Request) -> Tile:
        """The sizes that a request's constants name."""
        layout, config = request.layout, request.config
        assert isinstance(layout, SlotLayout)
        return cls(
            layout,
            gqa_group=config["gqa_group"],
            query_group=config["query_group"],
            queries=config["queries"],
            waves=config["waves"],
            granule=config["split_granule"],
            wide=request.arch == "gfx950",
        )

    @property
    def head_size(self) -> int:
        return self.layout.head_size

    @property
    def rows(self) -> int:
        """Query rows of a workgroup: a query token and a head of its group each."""
        return self.gqa_group * self.queries

    @property
    def paired(self) -> bool:
        """Up to 8 rows: columns 0-7 hold the high halves, columns 8-15 the low ones."""
        return self.rows <= 8

    @property
    def columns(self) -> int:
        """Column blocks of 16 that the rows fill."""
        return 1 if self.paired else -(-self.rows // 16)

    @property
    def column_rows(self) -> int:
        return 8 if self.paired else 16

    @property
    def all_rows(self) -> int:
        """The rows and what fills the last column block."""
        return self.columns * self.column_rows

    @property
    def halves(self) -> int:
        """Matrix instructions that a row's high and low half take for one operand of K."""
        return 1 if self.paired else 2

    @property
    def kept(self) -> bool:
        """The query's operands stay in registers; those of two column blocks are read for each tile."""
        return self.columns == 1

    @property
    def blocks(self) -> int:
        return self.head_size // _BLOCK

    @property
    def nibble_blocks(self) -> int:
        return self.layout.k_nibbles.dims // _BLOCK

    @property
    def plane_blocks(self) -> int:
        return self.blocks - self.nibble_blocks

    @property
    def scales(self) -> int:
        """Of K, of a token."""
        return self.layout.k_blocks

    @property
    def scale_words(self) -> int:
        """Words that hold a token's scales of K, one of V among them where their number is odd."""
        return (self.scales + 1) // 2

    @property
    def value_dims(self) -> int:
        """Consecutive dims of V that a lane unpacks, one for each matrix instruction."""
        return self.head_size // 16

    @property
    def elements(self) -> int:
        """Dims of a query row that a lane holds before it is in LDS."""
        return self.head_size // lanes.WAVE

    @property
    def merge_parts(self) -> int:
        """How much of the outputs goes through LDS at a time, in quarters."""
        return 4 if self.paired and self.head_size <= 128 else 2


@dataclass(frozen=True)
class Shared:
    """Where things lie in LDS, in bytes. ``merge`` takes the place of all that comes before it."""

    tile: Tile

    @property
    def query_stride(self) -> int:
        """Of a row's int8 halves: padded, so that 16 lanes that read 16 rows meet different banks."""
        return self.tile.head_size + 16

    @property
    def query_half(self) -> int:
        return self.tile.all_rows * self.query_stride

    @property
    def query_scale(self) -> int:
        return 2 * self.query_half

    @property
    def request(self) -> int:
        return self.query_scale + 4 * self.tile.all_rows

    @property
    def length(self) -> int:
        return self.request + 4 * self.tile.queries

    @property
    def sum(self) -> int:
        """[column][wave][row][its four lanes] floats."""
        return -(-(self.length + 4 * self.tile.queries) // 16) * 16

    @property
    def level(self) -> int:
        """[column][wave][row] pairs: the row's reference and the bias of its outputs."""
        return self.sum + 256 * self.tile.columns * self.tile.waves

    @property
    def merge_row(self) -> int:
        """Bytes of a row's outputs that go through LDS at a time."""
        return self.tile.head_size * self.tile.merge_parts

    @property
    def size(self) -> int:
        merge = self.tile.waves * self.tile.column_rows * self.merge_row
        return max(self.level + 128 * self.tile.columns * self.tile.waves, merge)


def offsets(tile: Tile, row_stride: Value) -> SimpleNamespace:
    """Where the lane's words of a tile lie, in bytes from its first token: 16 dims of each block of one token of K, and
    value_dims dims of four tokens of V."""
    lane, group = lanes.lane_index() % 16, lanes.lane_index() // 16
    stride, dim = fx.Uint32(row_stride), lane * tile.value_dims
    first = 4 * group * stride
    found = SimpleNamespace(
        key=lane * stride + 4 * group,
        key_high=lane * stride + group // 2 * 4,
        scale=first,
        value=first + (dim // 8 if tile.layout.v_bits == 4 else dim // 16) * 4,
    )
    if tile.nibble_blocks:
        found.nibbles = lane * stride + 8 * group
    if tile.layout.v_bits == 3:
        found.value_high = first + dim // 32 * 4
    return found


def afresh(offsets: SimpleNamespace, base: Value) -> SimpleNamespace:
    """The same offsets for the tile at ``base``, as if they depended on it: the compiler then adds constants to them in
    the loads, and does not keep each sum in a register from tile to tile."""
    return SimpleNamespace(**{name: lanes.after_scalar(value, base) for name, value in vars(offsets).items()})


def places(tile: Tile) -> SimpleNamespace:
    """Shifts to where the lane's dims start in a dword that other lanes share, and the places of bytes for lookups."""
    group, dim = lanes.lane_index() // 16, lanes.lane_index() % 16 * tile.value_dims
    return SimpleNamespace(
        key_shift=group % 2 * 4,
        value_shift=dim % 16 // 4 * 2,
        value_high_shift=dim % 32 // 4,
        # Where only K's 4-bit dims are looked up so, the register is worth more.
        bytes=lanes.opaque(fx.Uint32(PLACES)) if tile.layout.v_bits == 4 else PLACES,
    )


def load_key(tile: Tile, buffer: Value, row_stride: Value, offset: SimpleNamespace) -> SimpleNamespace:
    """K of a tile: words of its blocks, and the scales of the four tokens whose scores the lane gets."""
    layout = tile.layout
    scale, nibbles, planes, high = (
        layout.k_scales.offset,
        layout.k_nibbles.offset,
        layout.k_planes.offset,
        layout.k_planes.high_plane,
    )
    return SimpleNamespace(
        scale=[memory.load_words(buffer, offset.scale + scale, t * row_stride, tile.scale_words) for t in range(4)],
        nibbles=[
            memory.load_words(buffer, offset.nibbles + (nibbles + 32 * b), 0, 2) for b in range(tile.nibble_blocks)
        ],
        planes=[
            [
                memory.load_word(buffer, offset.key + (planes + 16 * b)),
                memory.load_word(buffer, offset.key_high + (high + 8 * b)),
            ]
            for b in range(tile.plane_blocks)
        ],
    )


def load_value(tile: Tile, buffer: Value, row_stride: Value, offset: SimpleNamespace) -> SimpleNamespace:
    """V of four tokens: nibbles, or the two planes; and its scales."""
    layout, dims = tile.layout, tile.value_dims
    words = dims // 8 if layout.v_bits == 4 else max(1, dims // 16)
    loaded = SimpleNamespace(low=[], high=[], scale=[])
    for t in range(4):
        row = t * row_stride
        loaded.low.append(memory.load_words(buffer, offset.value + layout.v.offset, row, words))
        if layout.v_bits == 3:
            loaded.high.append(memory.load_word(buffer, offset.value_high + layout.v.high_plane, row))
        loaded.scale.append(memory.load_half(buffer, offset.scale + layout.v_scale.offset, row))
    return loaded


def all_words(words: SimpleNamespace) -> list[Value]:
    """Every word of a tile."""
    key, value = words.key, words.value
    found = [word for several in (*key.scale, *key.nibbles, *key.planes, *value.low) for word in several]
    return [*found, *value.high, *value.scale]
