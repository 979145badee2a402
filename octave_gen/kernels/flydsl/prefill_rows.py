"""What all tiers of prefill agree on: the tokens of a request, which query vector a row is, the splits of a prefix."""

from __future__ import annotations

from dataclasses import dataclass

import flydsl.expr as fx

from octave_gen.kernels.flydsl.lanes import uniform
from octave_gen.kernels.flydsl.memory import load_constant, memory
from octave_gen.kernels.flydsl.prefill_tile import quotient, smaller
from octave_gen.kernels.flydsl.unstable import Value


@dataclass(frozen=True)
class Tokens:
    """A request's query tokens are first … first + count - 1 of the batch; ``context`` tokens before them are in the
    cache."""

    first: Value
    count: Value
    context: Value

    @classmethod
    def of(cls, cu_seqlens_q: Value, seq_lens: Value, request: Value) -> Tokens:
        first = load_constant(memory(cu_seqlens_q, request * 4), fx.Int32)
        count = load_constant(memory(cu_seqlens_q, request * 4 + 4), fx.Int32) - first
        return cls(first, count, load_constant(memory(seq_lens, request * 4), fx.Int32) - count)


@dataclass(frozen=True)
class Row:
    """Row i of a request and kv head: query token i / gqa_group of the request, query head i % gqa_group of the kv
    head. A row behind the last one stands for that one, and does not exist."""

    token: Value  # of the request
    head: Value  # of all query heads
    exists: Value

    @classmethod
    def of(cls, tokens: Tokens, row: Value, gqa_group: Value, kv_head: Value) -> Row:
        last = tokens.count * gqa_group - 1
        own = smaller(row, last)
        token = quotient(own, gqa_group)
        return cls(token, kv_head * gqa_group + (own - token * gqa_group), row <= last)

    def offset(self, tokens: Tokens, token_stride: Value, head_stride: Value) -> Value:
        """Where a [tokens, heads, …] tensor has the row, in elements."""
        return fx.Int64(tokens.first + self.token) * token_stride + fx.Int64(self.head) * head_stride


def split_range(granule: int, length: Value, splits: Value, split: Value) -> tuple[Value, Value]:
    """The tokens of a split, first and behind the last: ``octave_gen.kernels.splits`` states the rule."""
    # In 64 bits: split * per_split may be beyond 2^31.
    per_split = fx.Int64(tokens_per_split(granule, length, splits))
    begin = fx.Int64(split) * per_split
    end, whole = begin + per_split, fx.Int64(length)
    return uniform(smaller(begin, whole).to(fx.Int32)), uniform(smaller(end, whole).to(fx.Int32))


def tokens_per_split(granule: int, length: Value, splits: Value) -> Value:
    """Of a context of ``length`` tokens; at most 2^31."""
    share = (fx.Uint32(length) + fx.Uint32(splits) - 1) // fx.Uint32(splits)
    return (share + (granule - 1)) // granule * granule


def splits_in_use(granule: int, context: Value, splits: Value) -> Value:
    """How many of the splits of a context hold tokens: the first ones."""
    per_split = tokens_per_split(granule, context, splits)
    # Of no context none; the divisor is not 0.
    return fx.Int32((fx.Uint32(context) + per_split - 1) // (context > 0).select(per_split, fx.Uint32(1)))
