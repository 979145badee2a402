"""What all tiers of prefill agree on: the tokens of a request, which query vector a row is."""

from __future__ import annotations

from dataclasses import dataclass

import flydsl.expr as fx

from octave_gen.kernels.flydsl.memory import load_constant, memory, pointer
from octave_gen.kernels.flydsl.prefill_tile import quotient
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
        """Those of a request, from the int32 arrays that a launch is given."""
        first = _word(cu_seqlens_q, request * 4)
        count = _word(cu_seqlens_q, request * 4 + 4) - first
        return cls(first, count, _word(seq_lens, request * 4) - count)


def _word(address: Value, offset: Value) -> Value:
    return load_constant(pointer(memory(address, offset), fx.Int32, 4))


@dataclass(frozen=True)
class Row:
    """Row i of a request and kv head: query token i / gqa_group of the request, query head i % gqa_group of the kv
    head. A row behind the last one stands for that one, and does not exist."""

    token: Value  # of the request
    head: Value  # of all query heads
    exists: Value

    @classmethod
    def of(cls, tokens: Tokens, row: Value, gqa_group: Value, kv_head: Value) -> Row:
        """Row ``row`` of the request."""
        last = tokens.count * gqa_group - 1
        own = fx.min(row, last)
        token = quotient(own, gqa_group)
        return cls(token, kv_head * gqa_group + (own - token * gqa_group), row <= last)

    def offset(self, tokens: Tokens, token_stride: Value, head_stride: Value) -> Value:
        """Where a [tokens, heads, …] tensor has the row, in elements."""
        return fx.Int64(tokens.first + self.token) * token_stride + fx.Int64(self.head) * head_stride
