"""Query rows of decode: who attends to what, and the rows themselves, rotated like K and quantized to two int8 halves
of a 16-bit integer."""

from __future__ import annotations

import math
from types import SimpleNamespace

import flydsl.expr as fx

from octave_gen.kernels.flydsl import arithmetic, lanes, memory, unstable
from octave_gen.kernels.flydsl.arithmetic import QUERY_FLOOR, QUERY_RANGE, bits
from octave_gen.kernels.flydsl.decode_tile import Shared, Tile
from octave_gen.kernels.flydsl.unstable import Value

_MOST = 0x7FFFFFFF


@unstable.device
def query_range(tile: Tile, group_starts: Value, num_groups: Value, num_queries: Value) -> tuple[Value, Value]:
    """First query token of this workgroup, and how many: a group of query_group, or the part that ``queries`` holds.

    Group i starts at group_starts[i] and ends where the next one starts; without group_starts groups follow each other.
    """
    parts = tile.query_group // tile.queries
    block = fx.Uint32(fx.block_idx.x)
    group = fx.Int32(block // parts)
    first = group * tile.query_group
    end = num_queries
    if fx.ptrtoint(group_starts) != 0:
        first = num_queries
        if group < num_groups:
            starts = memory.pointer(group_starts, fx.Int32, 4)
            first = memory.load_constant(starts + group)
            following = memory.load_constant(starts + fx.min(group + 1, num_groups - 1))
            end = (group + 1 < num_groups).select(following, num_queries)
    end = fx.min(end, first + tile.query_group)
    first = first + fx.Int32(block % parts) * tile.queries
    return first, fx.min(fx.Int32(tile.queries), end - first)


def load_group(tile: Tile, q_to_req: Value, q_to_klen: Value, queries: Value) -> SimpleNamespace:
    """Request and length of query token q in lane q of every wave; pointers: to those of the first one."""
    q = fx.min(fx.Int32(lanes.lane_index() % tile.queries), queries - 1)
    return SimpleNamespace(request=memory.load_constant(q_to_req + q), length=memory.load_constant(q_to_klen + q))


def group_in(tile: Tile, shared: Value) -> SimpleNamespace:
    """The same from LDS, where :func:`put_group` left it."""
    place, offset = Shared(tile), fx.Int32(lanes.lane_index() % tile.queries) * 4
    return SimpleNamespace(
        request=memory.load(shared + (offset + place.request), fx.Int32),
        length=memory.load(shared + (offset + place.length), fx.Int32),
    )


def settle(tile: Tile, group: SimpleNamespace, queries: Value, num_requests: Value) -> tuple[SimpleNamespace, Value]:
    """The group with request -1 and length 0 where a token attends to nothing, and a bit for each that does."""
    q = fx.Int32(lanes.lane_index() % tile.queries)
    attends = (q < queries) & (group.request >= 0) & (group.request < num_requests) & (group.length > 0)
    settled = SimpleNamespace(request=attends.select(group.request, -1), length=attends.select(group.length, 0))
    return settled, fx.Uint32(lanes.ballot(attends))


@unstable.device
def put_group(tile: Tile, group: SimpleNamespace, shared: Value) -> None:
    """Leaves a settled group in LDS for :func:`group_in`, which needs a barrier before it."""
    place, thread = Shared(tile), lanes.thread_index()
    if thread < tile.queries:
        memory.store(shared + (fx.Int32(thread) * 4 + place.request), group.request)
        memory.store(shared + (fx.Int32(thread) * 4 + place.length), group.length)


@unstable.device
def run_from(tile: Tile, group: SimpleNamespace, first: Value) -> SimpleNamespace:
    """Query tokens of a group, one after the other, of one request: first to next - 1.

    length: the most tokens that one of them sees; shortest: the fewest that any of the group sees of this request.
    """
    if fx.const_expr(tile.queries == 1):
        request, length = lanes.lane_value(group.request, 0), lanes.lane_value(group.length, 0)
        run = SimpleNamespace(first=first, next=fx.Int32(1), request=request, length=length, shortest=length)
    else:
        request = lanes.lane_value(group.request, first)
        run = SimpleNamespace(first=first, next=first, request=request, length=fx.Int32(0), shortest=fx.Int32(_MOST))
        while (run.next < tile.queries) & (lanes.lane_value(group.request, run.next) == run.request):
            tokens = lanes.lane_value(group.length, run.next)
            run.length = fx.max(run.length, tokens)
            run.shortest = fx.min(run.shortest, tokens)
            run.next = run.next + 1
        # Tokens of other runs see nothing of this one.
        run.shortest = (run.next - run.first < tile.queries).select(fx.Int32(0), run.shortest)
    return run


def own_rows(tile: Tile) -> int:
    """Rows of a wave: waves·i + wave for each i."""
    return tile.all_rows // tile.waves


def _row(tile: Tile, i: int) -> Value:
    return lanes.wave_index() + i * tile.waves


def load_rows(
    tile: Tile, query: Value, scalar: Value, signs: Value, rows: Value, token_stride: Value, head_stride: Value
) -> SimpleNamespace:
    """The wave's raw rows and the sign bits of the lane's dims. query: of the first row; ``rows`` of them are there."""
    count = tile.elements
    dim = lanes.lane_index() * count
    found = memory.pointer(signs, fx.Uint32, 4)[fx.Int32(dim // 32)] >> (dim % 32)
    raw = []
    for i in range(-(-tile.rows // tile.waves)):
        there = fx.Uint32(fx.min(fx.Int32(_row(tile, i)), rows - 1))
        token, head = fx.Int64(fx.Uint64(there // tile.gqa_group)), fx.Int64(fx.Uint64(there % tile.gqa_group))
        first = memory.pointer(query, scalar, 2) + (token * token_stride + head * head_stride)
        vector = memory.load(first + fx.Int32(dim), scalar, count)
        raw.append([vector[j] for j in range(count)])
    return SimpleNamespace(raw=raw, signs=found)


def quantize_rows(
    tile: Tile, rows: SimpleNamespace, first: int, count: int, attending: Value, unit: Value, shared: Value
) -> None:
    """Rows first to first + count - 1 of the wave into LDS, as 128·high + low with one scale each.

    attending: a bit for each query token that does; the rows of others are zero. unit: of the scores, over QUERY_RANGE.
    """
    place, lane = Shared(tile), lanes.lane_index()
    # As integers, so that a NaN is larger than all numbers and does not get lost between finite blocks.
    peak = fx.Uint32(0)
    rotated = []
    for n in range(count):
        if first + n >= len(rows.raw):
            rotated.append([fx.Float32(0.0)] * tile.elements)
            continue
        x = hadamard(
            tile.layout.k_block_size, flip(rows.signs, [value.to(fx.Float32) for value in rows.raw[first + n]])
        )
        rotated.append(x)
        largest = fx.Uint32(0)
        for value in x:
            largest = fx.max(largest, bits(fx.absf(value)))
        largest = lanes.row_reduce(largest, fx.max)
        lower = fx.max(lanes.lane_value(largest, 0), lanes.lane_value(largest, 16))
        upper = fx.max(lanes.lane_value(largest, 32), lanes.lane_value(largest, 48))
        row = _row(tile, first + n)
        attends = (row < tile.rows) & ((attending >> (row // tile.gqa_group) & 1) != 0)
        # A lane for each row: one division serves all.
        peak = ((lane == n) & attends).select(fx.max(lower, upper), peak)
    inverse = _put_scales(tile, arithmetic.from_bits(peak), first, count, unit, shared)
    for n, x in enumerate(rotated):
        factor = lanes.lane_value(inverse, n)
        high, low = [], []
        for value in x:
            code = fx.Int32((factor != 0.0).select(fx.roundeven(value * factor), fx.Float32(0.0)))
            upper = (code + 64) >> 7
            high.append(fx.Int8(upper))
            low.append(fx.Int8(code - upper * 128))
        at = shared + (fx.Int32(_row(tile, first + n)) * place.query_stride + fx.Int32(lane) * tile.elements)
        memory.store(at, fx.Vector.from_elements(high, fx.Int8), alignment=tile.elements)
        memory.store(at + place.query_half, fx.Vector.from_elements(low, fx.Int8), alignment=tile.elements)


@unstable.device
def _put_scales(tile: Tile, largest: Value, first: int, count: int, unit: Value, shared: Value) -> Value:
    """The scales of rows, one in each of the first lanes, into LDS; their reciprocals, 0 for rows without any."""
    lane = lanes.lane_index()
    finite = largest < arithmetic.INFINITY
    used = finite & (largest >= QUERY_FLOOR)
    # Divided by all lanes, without a branch.
    divisor = used.select(largest, fx.Float32(1.0))
    inverse = fx.Float32(QUERY_RANGE) / divisor * used.select(fx.Float32(1.0), fx.Float32(0.0))
    scale = used.select(divisor * unit, finite.select(fx.Float32(0.0), fx.Float32(math.nan)))
    if lane < count:
        row = fx.Int32(lane) * tile.waves + fx.Int32(lanes.wave_index()) + first * tile.waves
        memory.store(shared + (row * 4 + Shared(tile).query_scale), scale)
    return inverse


def flip(signs: Value, x: list[Value]) -> list[Value]:
    """Negates the dims whose bit is set."""
    return [arithmetic.from_bits(bits(value) ^ ((signs >> i) << 31)) for i, value in enumerate(x)]


def hadamard(dims: int, x: list[Value]) -> list[Value]:
    """Orthonormal Walsh-Hadamard transform of each ``dims`` consecutive dims, of which a lane holds len(x): stages at
    distance 1, 2, 4, …, registers of a lane first, then one multiplication."""
    x, step = list(x), 1
    while step < len(x):
        for i in range(len(x)):
            if not i & step:
                x[i], x[i + step] = x[i] + x[i + step], x[i] - x[i + step]
        step *= 2
    mask = 1
    while mask < dims // len(x):
        # x·±1 + partner rounds once, exactly as the sum or the difference does.
        sign = ((lanes.lane_index() & mask) != 0).select(fx.Float32(-1.0), fx.Float32(1.0))
        x = [fx.fma(value, sign, lanes.lane_xor(value, mask)) for value in x]
        mask *= 2
    return [value * _inverse_root(dims) for value in x]


def _inverse_root(power_of_two: int) -> float:
    """1/sqrt(2^k): halves for even powers, and 1/sqrt(2) rounded to fp32 for the odd one that is left."""
    halves, odd = divmod(power_of_two.bit_length() - 1, 2)
    return 2.0**-halves * (0.70710678118654752 if odd else 1.0)
