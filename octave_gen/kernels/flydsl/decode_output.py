"""Outputs of decode: the running softmax of a column of query rows, and Oᵀ = Vᵀ·Pᵀ on V's biased bytes."""

from __future__ import annotations

from types import SimpleNamespace

import flydsl.expr as fx

from octave_gen.kernels.flydsl import codebook, lanes, matrix, unstable
from octave_gen.kernels.flydsl.arithmetic import INFINITY, LARGEST_HALF, exp2, log2, pack_halves
from octave_gen.kernels.flydsl.codebook import BIASED
from octave_gen.kernels.flydsl.decode_tile import Tile
from octave_gen.kernels.flydsl.unstable import Value

_HUGE_SCORE = 2.0**24
"""Scores from here on are multiples of 2 or more: a reference that is rounded otherwise than a score may lie so far
above it that its weight is lost."""
_LARGE = 0x40004000
"""Bit 14 of an fp16 is set from 2.0 on, for Inf and for NaN."""
_RAISED_BY = 8.0
_SMALLEST_SIZE = 2.0**-30
_BIAS = 0x00800080
"""128·2⁻²⁴ in fp16, twice: what the bias of a byte adds."""


def new_column(query_scale: Value) -> SimpleNamespace:
    """Running softmax of one column: p = 2^(score - reference). The reference follows the largest p·scale of V
    lazily."""
    return SimpleNamespace(query_scale=query_scale, reference=fx.Float32(-INFINITY), sum=fx.Float32(0.0))


def is_huge(score: Value) -> Value:
    return (fx.absf(score) >= _HUGE_SCORE) & (score != -INFINITY)


def weights(scores: list[Value], value_scale: list[Value], column: SimpleNamespace) -> tuple[list[Value], list[Value]]:
    """Probabilities of four tokens in fp32, and two words of these times V's scales in fp16."""
    negative = -column.reference
    p = [exp2(fx.fma(score, column.query_scale, negative)) for score in scores]
    return p, _packed([fx.fma(x, s.to(fx.Float32), fx.Float32(0.0)) for x, s in zip(p, value_scale, strict=True)])


def bounded_weights(
    scores: list[Value], value_scale: list[Value], column: SimpleNamespace
) -> tuple[list[Value], list[Value]]:
    """The same where the reference was just raised; no weight is above the largest fp16."""
    p, products = [], []
    for score, half in zip(scores, value_scale, strict=True):
        # rounded like the reference, which is one of them
        rounded = score * column.query_scale - column.reference
        fused = fx.fma(score, column.query_scale, -column.reference)
        x = exp2(is_huge(column.reference).select(rounded, fused))
        scale = half.to(fx.Float32)
        product = x * scale
        # the reference is rounded
        above = product > LARGEST_HALF
        p.append(above.select(fx.Float32(LARGEST_HALF) / scale, x))
        products.append(above.select(fx.Float32(LARGEST_HALF), product))
    return p, _packed(products)


def _packed(products: list[Value]) -> list[Value]:
    """Four fp32 in fp16: the operand of two words that takes them."""
    halves = [product.to(fx.Float16) for product in products]
    return [pack_halves(halves[0], halves[1]), pack_halves(halves[2], halves[3])]


def any_large(weighted: list[Value]) -> Value:
    """Whether a weight of any lane has reached 2.0."""
    return lanes.ballot(((weighted[0] | weighted[1]) & _LARGE) != 0) != 0


def raised_reference(
    scores: list[Value], value_scale: list[Value], seen: list[Value], column: SimpleNamespace
) -> Value:
    """The reference above the largest weight of the row's tokens that are ``seen``."""
    largest = fx.Float32(-INFINITY)
    for score, half, visible in zip(scores, value_scale, seen, strict=True):
        size = fx.maxnumf(half.to(fx.Float32), fx.Float32(_SMALLEST_SIZE))
        x = score * column.query_scale
        x = is_huge(x).select(x, x + log2(size))
        largest = visible.select(fx.maxnumf(largest, x), largest)
    for mask in (16, 32):
        largest = fx.maxnumf(largest, lanes.lane_xor(largest, mask))
    return fx.maxnumf(column.reference, is_huge(largest).select(largest, largest + _RAISED_BY))


def seen_tokens(first: Value, visible: Value) -> list[Value]:
    """Which of the lane's four tokens, ``first`` and what follows, a row sees of its ``visible`` ones. Opaque, or the
    compiler would compare for all tiles at once what few of them need."""
    first = lanes.opaque(first)
    return [first + r < visible for r in range(4)]


def masked(values: list[Value], seen: list[Value]) -> list[Value]:
    """The values where they are seen, 0 elsewhere."""
    return [there.select(value, type(value)(0.0)) for value, there in zip(values, seen, strict=True)]


def masked_words(words: list[Value], seen: list[Value]) -> list[Value]:
    """The same for fp16 in pairs."""
    low = [there.select(fx.Int32(0xFFFF), fx.Int32(0)) for there in seen[::2]]
    high = [there.select(fx.Int32(-0x10000), fx.Int32(0)) for there in seen[1::2]]
    return [word & (a | b) for word, a, b in zip(words, low, high, strict=True)]


@unstable.device
def weigh_tile(
    scores: list[Value], scale: list[Value], partial: Value, first: Value, visible: Value, state: SimpleNamespace
) -> tuple[list[Value], SimpleNamespace]:
    """Weights of a column's four tokens as an operand of two words, and the column's state behind them.

    partial: not all rows see all tokens of the tile; of the lane's, ``first`` and what follows, the row sees its
    ``visible`` ones. state: column (see :func:`new_column`), out and bias, its sums.
    """
    column = state.column
    if partial:
        seen = seen_tokens(first, visible)
        scores = masked(scores, seen)
        scale = masked(scale, seen)
    p, weighted = weights(scores, scale, column)
    if any_large(weighted):
        counted = [(partial == False) | there for there in seen_tokens(first, visible)]  # noqa: E712
        raised = raised_reference(scores, scale, counted, column)
        rescale = (raised == column.reference).select(fx.Float32(1.0), exp2(column.reference - raised))
        column.reference = raised
        column.sum = column.sum * rescale
        state.bias = state.bias * rescale
        state.out = [sums * rescale for sums in state.out]
        p, weighted = bounded_weights(scores, scale, column)
    if partial:
        seen = seen_tokens(first, visible)
        p = masked(p, seen)
        weighted = masked_words(weighted, seen)
    column.sum = column.sum + ((p[0] + p[1]) + (p[2] + p[3]))
    state.column = column
    return weighted, state


def accumulate_tile(
    tile: Tile,
    value: SimpleNamespace,
    place: SimpleNamespace,
    weighted: list[list[Value]],
    states: list[SimpleNamespace],
) -> None:
    """Adds V times the weights of each column to its ``out``, and the weights times V's bias to its ``bias``."""
    ones = [fx.Int32(_BIAS)] * 2
    for state, p in zip(states, weighted, strict=True):
        state.bias = matrix.multiply_half(ones, p, state.bias)
    for quad in range(tile.value_dims // 4):
        found = [value_bytes(tile, value, place, t, quad) for t in range(4)]
        for b in range(4):
            selector = 0x0C040C00 + 0x00010001 * b
            operand = [codebook.permute_bytes(found[t + 1], found[t], selector) for t in (0, 2)]
            for state, p in zip(states, weighted, strict=True):
                state.out[4 * quad + b] = matrix.multiply_half(operand, p, state.out[4 * quad + b])


def value_bytes(tile: Tile, value: SimpleNamespace, place: SimpleNamespace, token: int, quad: int) -> Value:
    """Biased bytes of four dims of a token."""
    if tile.layout.v_bits == 4:
        word = fx.Uint32(value.low[token][quad // 2])
        return codebook.lookup4(BIASED, codebook.nibble_codes(word, quad % 2), place.bytes)
    if tile.value_dims < 16:
        low = fx.Uint32(value.low[token][0]) >> place.value_shift
    else:
        low = fx.Uint32(value.low[token][quad // 4])
    high = fx.Uint32(value.high[token]) >> (place.value_high_shift + quad % 8 // 4 * 4)
    return codebook.lookup3(BIASED, codebook.plane_codes(low, high, quad % 4))
