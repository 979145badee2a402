"""KV splits of a context: ``octave_gen.kernels.splits`` states the rule."""

from __future__ import annotations

import flydsl.expr as fx

from octave_gen.kernels.flydsl.lanes import uniform
from octave_gen.kernels.flydsl.unstable import Value


def split_range(granule: int, length: Value, splits: Value, split: Value) -> tuple[Value, Value]:
    """The first token of a split and the one behind its last; Int32, in scalar registers."""
    # In 64 bits: split * per_split may be beyond 2^31.
    per_split, whole = fx.Int64(tokens_per_split(granule, length, splits)), fx.Int64(length)
    begin = fx.Int64(split) * per_split
    ends = ((end < whole).select(end, whole) for end in (begin, begin + per_split))
    first, behind = (uniform(fx.Int32(end)) for end in ends)
    return first, behind


def tokens_per_split(granule: int, length: Value, splits: Value) -> Value:
    """Of a context of ``length`` tokens; at most 2^31."""
    share = (fx.Uint32(length) + fx.Uint32(splits) - 1) // fx.Uint32(splits)
    return (share + (granule - 1)) // granule * granule


def splits_in_use(granule: int, context: Value, splits: Value) -> Value:
    """How many of the splits of a context hold tokens: the first ones."""
    per_split = tokens_per_split(granule, context, splits)
    # Of no context none; the divisor is not 0.
    return fx.Int32((fx.Uint32(context) + per_split - 1) // (context > 0).select(per_split, fx.Uint32(1)))
