"""Per-query maps for decode, built on the device from what serving engines keep per request."""

from __future__ import annotations

import torch
from torch import Tensor

from octave_gen.errors import wrong_request

PADDING_REQUEST = -1
PADDING_KLEN = 0


def map_capacity(max_num_batched_tokens: int, query_group: int = 1, max_padded_tokens: int = 0) -> int:
    """Entries that the maps need: the largest batch, rounded up to whole query groups, plus the largest padded graph.

    max_padded_tokens: tokens of the largest captured graph, which a batch is padded to. Raises OctaveError for a count
    that is negative, and for a query group below 1.
    """
    if max_num_batched_tokens < 1 or query_group < 1 or max_padded_tokens < 0:
        raise wrong_request(
            f"no capacity for max_num_batched_tokens {max_num_batched_tokens}, query_group {query_group}, "
            f"max_padded_tokens {max_padded_tokens}",
            where="map_capacity",
            hint="tokens and query_group are at least 1, padded tokens at least 0",
        )
    return sum(-(-tokens // query_group) * query_group for tokens in (max_num_batched_tokens, max_padded_tokens))


class QueryMaps:
    """q_to_req and q_to_klen in buffers that never move.

    Query i of a request with query_len queries and seq_len tokens sees its first seq_len - (query_len - 1 - i) tokens.
    Queries behind the last request, and those that would see nothing, are padding: request -1, klen 0. `build` waits
    for nothing, writes only into its buffers and branches on no value of its inputs, so a graph can capture it.

    Args:
        capacity: entries, of `map_capacity`.
        device: where the maps, and all inputs, are.
    """

    def __init__(self, capacity: int, device: torch.device | str) -> None:
        if capacity < 1:
            raise wrong_request(f"capacity is {capacity}", where="QueryMaps", hint="take it from map_capacity")
        self.q_to_req = torch.full((capacity,), PADDING_REQUEST, dtype=torch.int32, device=device)
        self.q_to_klen = torch.full((capacity,), PADDING_KLEN, dtype=torch.int32, device=device)
        self._token = torch.arange(capacity, dtype=torch.int32, device=device)
        self._request = torch.empty_like(self._token)
        self._from_end = torch.empty_like(self._token)
        self._padding = torch.empty(capacity, dtype=torch.bool, device=device)

    @property
    def capacity(self) -> int:
        return self._token.shape[0]

    def build(self, query_start_loc: Tensor, seq_lens: Tensor, num_tokens: int) -> tuple[Tensor, Tensor]:
        """(q_to_req, q_to_klen), int32 [num_tokens] each: views of the buffers, valid until the next call.

        query_start_loc: int32 [requests + 1], from 0 and never falling; seq_lens: int32 [requests], the tokens of each
        request with its queries. A request may have no query; padded requests repeat the last start. num_tokens:
        queries with padding, at most `capacity`. Raises OctaveError for other shapes, dtypes or devices.
        """
        self._check(query_start_loc, seq_lens, num_tokens)
        q_to_req, q_to_klen = self.q_to_req[:num_tokens], self.q_to_klen[:num_tokens]
        requests = seq_lens.shape[0]
        if requests == 0:
            return q_to_req.fill_(PADDING_REQUEST), q_to_klen.fill_(PADDING_KLEN)
        token, padding = self._token[:num_tokens], self._padding[:num_tokens]
        request, from_end = self._request[:num_tokens], self._from_end[:num_tokens]
        ends = query_start_loc[1:]
        # requests that end at or before a token lie before it; a request without queries never holds one
        torch.searchsorted(ends, token, right=True, out_int32=True, out=q_to_req)
        torch.clamp(q_to_req, max=requests - 1, out=request)
        torch.index_select(ends, 0, request, out=from_end)
        torch.sub(token, from_end, out=from_end)
        torch.index_select(seq_lens, 0, request, out=q_to_klen)
        q_to_klen.add_(from_end).add_(1)
        torch.ge(from_end, 0, out=padding)
        q_to_klen.masked_fill_(padding, PADDING_KLEN).clamp_(min=PADDING_KLEN)
        torch.eq(q_to_klen, PADDING_KLEN, out=padding)
        return q_to_req.masked_fill_(padding, PADDING_REQUEST), q_to_klen

    def _check(self, query_start_loc: Tensor, seq_lens: Tensor, num_tokens: int) -> None:
        problems = []
        for name, x in (("query_start_loc", query_start_loc), ("seq_lens", seq_lens)):
            if x.dtype != torch.int32 or x.dim() != 1 or x.device != self._token.device:
                problems.append(
                    f"{name} is {x.dtype} {list(x.shape)} on {x.device}, not int32 1-D on {self._token.device}"
                )
        if not problems and query_start_loc.shape[0] != seq_lens.shape[0] + 1:
            problems.append(f"query_start_loc has {query_start_loc.shape[0]} entries for {seq_lens.shape[0]} requests")
        if not 0 <= num_tokens <= self.capacity:
            problems.append(f"num_tokens is {num_tokens}, the maps hold {self.capacity} (map_capacity)")
        if problems:
            raise wrong_request("; ".join(problems), where="QueryMaps.build")


def group_capacity(max_num_batched_tokens: int, max_num_requests: int, query_group: int) -> int:
    """Groups that a batch of so many query tokens of so many requests, and its padding, can need."""
    if max_num_batched_tokens < 1 or max_num_requests < 1 or query_group < 1:
        raise wrong_request(
            f"no capacity for max_num_batched_tokens {max_num_batched_tokens}, max_num_requests {max_num_requests}, "
            f"query_group {query_group}",
            where="group_capacity",
            hint="all three are at least 1",
        )
    return min(max_num_batched_tokens, max_num_batched_tokens // query_group + max_num_requests + 1)


class QueryGroups:
    """decode's group_starts in a buffer that never moves: no group holds query tokens of two requests.

    A request with n query tokens takes ceil(n / query_group) groups, so a batch in which requests have different
    numbers of them reads no request's cache more often than that. Queries behind the last request are a request of
    padding. `build` waits for nothing and branches on no value of its inputs, so a graph can capture it.

    Args:
        capacity: groups, of `group_capacity`.
        query_group: of decode.
        device: where the buffer, and all inputs, are.
    """

    def __init__(self, capacity: int, query_group: int, device: torch.device | str) -> None:
        if capacity < 1 or query_group < 1:
            raise wrong_request(f"capacity is {capacity}, query_group {query_group}", where="QueryGroups")
        self.query_group = query_group
        self.group_starts = torch.zeros(capacity, dtype=torch.int32, device=device)
        self._group = torch.arange(capacity, dtype=torch.int32, device=device)

    def build(self, query_start_loc: Tensor, num_tokens: int) -> Tensor:
        """group_starts, int32 [groups]: a view of the buffer, valid until the next call.

        query_start_loc: int32 [requests + 1], from 0 and never falling; num_tokens: queries with padding. The number of
        groups depends on the shapes alone; those that are not needed start at num_tokens and are empty. Raises
        OctaveError for another shape, dtype or device, and where the buffer is too small.
        """
        x, device = query_start_loc, self._group.device
        if x.dtype != torch.int32 or x.dim() != 1 or x.shape[0] < 1 or x.device != device:
            raise wrong_request(
                f"query_start_loc is {x.dtype} {list(x.shape)} on {x.device}, not int32 [requests + 1] on {device}",
                where="QueryGroups.build",
            )
        needed = min(num_tokens, num_tokens // self.query_group + x.shape[0])
        if not 0 <= needed <= self._group.shape[0]:
            raise wrong_request(
                f"{num_tokens} queries of {x.shape[0] - 1} requests need {needed} groups, the buffer holds "
                f"{self._group.shape[0]} (group_capacity)",
                where="QueryGroups.build",
            )
        group, starts = self._group[:needed], self.group_starts[:needed]
        bounds = torch.cat((x, x.new_full((1,), num_tokens)))  # padding is the last request
        groups = (bounds.diff() + (self.query_group - 1)) // self.query_group
        ends = groups.cumsum(0, dtype=torch.int32)
        request = torch.searchsorted(ends, group, right=True, out_int32=True).clamp_(max=x.shape[0] - 1)
        first = bounds.index_select(0, request)
        within = group - (ends - groups).index_select(0, request)
        torch.add(first, within, alpha=self.query_group, out=starts)
        return starts.clamp_(max=num_tokens)
