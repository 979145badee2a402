from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from octave_gen.errors import OctaveError
from octave_gen.ops import QueryGroups, QueryMaps, group_capacity, map_capacity


def expected_maps(query_lens: list[int], seq_lens: list[int], num_tokens: int) -> tuple[list[int], list[int]]:
    requests, klens = [], []
    for request, (query_len, seq_len) in enumerate(zip(query_lens, seq_lens, strict=True)):
        for i in range(query_len):
            klen = seq_len - (query_len - 1 - i)
            requests.append(request if klen > 0 else -1)
            klens.append(max(klen, 0))
    padding = num_tokens - len(requests)
    return requests + [-1] * padding, klens + [0] * padding


def start_loc(query_lens: list[int]) -> torch.Tensor:
    return torch.tensor([0, *query_lens], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def int32(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def built(maps: QueryMaps, query_lens: list[int], seq_lens: list[int], num_tokens: int) -> tuple[list[int], list[int]]:
    q_to_req, q_to_klen = maps.build(start_loc(query_lens), int32(seq_lens), num_tokens)
    assert q_to_req.dtype == q_to_klen.dtype == torch.int32
    return q_to_req.tolist(), q_to_klen.tolist()


def random_batches() -> Iterator[tuple[list[int], list[int], int]]:
    source = random.Random(7)
    for _ in range(200):
        requests = source.randint(1, 12)
        query_lens = [source.choice((0, 0, 1, 1, 2, 3, 4, 5, 7, 40)) for _ in range(requests)]
        seq_lens = [length + source.choice((0, 0, 1, 15, 1568, 400_000)) for length in query_lens]
        tail = source.randint(0, 3)  # padded requests
        yield query_lens + [0] * tail, seq_lens + [0] * tail, sum(query_lens) + source.randint(0, 9)


def test_random_ragged_batches() -> None:
    maps = QueryMaps(600, "cpu")
    for query_lens, seq_lens, num_tokens in random_batches():
        assert built(maps, query_lens, seq_lens, num_tokens) == expected_maps(query_lens, seq_lens, num_tokens)


@pytest.mark.parametrize(
    ("query_lens", "seq_lens", "num_tokens", "maps"),
    [
        ([1, 1, 1], [5, 9, 1], 3, ([0, 1, 2], [5, 9, 1])),
        ([4], [10], 4, ([0] * 4, [7, 8, 9, 10])),
        ([4], [4], 4, ([0] * 4, [1, 2, 3, 4])),  # the whole prompt
        ([0, 2, 0, 1], [3, 8, 0, 6], 4, ([1, 1, 3, -1], [7, 8, 6, 0])),
        ([2, 0, 0], [8, 0, 0], 4, ([0, 0, -1, -1], [7, 8, 0, 0])),  # padded requests
        ([1, 1], [8, 0], 2, ([0, -1], [8, 0])),  # a request that has no tokens yet is padded too
        ([4], [2], 4, ([-1, -1, 0, 0], [0, 0, 1, 2])),
        ([], [], 3, ([-1] * 3, [0] * 3)),
        ([0, 0], [5, 5], 2, ([-1] * 2, [0] * 2)),
        ([2], [2], 0, ([], [])),
        ([1], [2**31 - 1], 2, ([0, -1], [2**31 - 1, 0])),
    ],
)
def test_maps(query_lens: list[int], seq_lens: list[int], num_tokens: int, maps: tuple[list[int], list[int]]) -> None:
    assert built(QueryMaps(8, "cpu"), query_lens, seq_lens, num_tokens) == maps


def test_buffers_never_move() -> None:
    maps = QueryMaps(16, "cpu")
    first = maps.build(start_loc([3, 2]), int32([7, 9]), 8)
    assert (first[0].data_ptr(), first[1].data_ptr()) == (maps.q_to_req.data_ptr(), maps.q_to_klen.data_ptr())
    starts, lengths = start_loc([1, 4]), int32([5, 6])
    second = maps.build(starts, lengths, 8)
    assert first[0].tolist() == second[0].tolist() == [0, 1, 1, 1, 1, -1, -1, -1]
    # as a replayed graph sees it: same tensors, new values
    starts.copy_(start_loc([2, 1]))
    lengths.copy_(int32([4, 1]))
    maps.build(starts, lengths, 8)
    assert first[1].tolist() == [3, 4, 1, 0, 0, 0, 0, 0]


class NoAllocation(TorchDispatchMode):
    """Fails for an op that reads a value on the host or returns memory that is not one of its arguments'."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        assert func is not torch.ops.aten._local_scalar_dense.default
        result = func(*args, **kwargs)
        known = {x.untyped_storage().data_ptr() for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)}
        assert result.untyped_storage().data_ptr() in known, func
        return result


def test_build_allocates_nothing_and_reads_no_value() -> None:
    maps, starts, lengths = QueryMaps(16, "cpu"), start_loc([3, 2]), int32([7, 9])
    with NoAllocation():
        maps.build(starts, lengths, 8)
    assert maps.q_to_req[:8].tolist() == [0, 0, 0, 1, 1, -1, -1, -1]


def test_meta_device() -> None:
    """A meta tensor has no values: whatever needs one fails."""
    maps = QueryMaps(16, "meta")
    q_to_req, q_to_klen = maps.build(start_loc([3, 2]).to("meta"), int32([7, 9]).to("meta"), 8)
    assert q_to_req.shape == q_to_klen.shape == (8,)


def test_compile() -> None:
    maps = QueryMaps(16, "cpu")
    build = torch.compile(maps.build, fullgraph=True, backend="aot_eager")
    q_to_req, q_to_klen = build(start_loc([3, 2]), int32([7, 9]), 8)
    assert (q_to_req.tolist(), q_to_klen.tolist()) == expected_maps([3, 2], [7, 9], 8)


@pytest.mark.parametrize(
    ("tokens", "group", "padded", "capacity"),
    [(2048, 1, 0, 2048), (2049, 4, 0, 2052), (2049, 4, 510, 2564), (1, 1, 0, 1)],
)
def test_capacity(tokens: int, group: int, padded: int, capacity: int) -> None:
    assert map_capacity(tokens, group, padded) == capacity


@pytest.mark.parametrize("arguments", [(0, 1, 0), (8, 0, 0), (8, 1, -1)])
def test_no_capacity(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(OctaveError, match="no capacity"):
        map_capacity(*arguments)


def test_wrong_inputs() -> None:
    maps, starts, lengths = QueryMaps(8, "cpu"), start_loc([3, 2]), int32([7, 9])
    with pytest.raises(OctaveError, match=r"num_tokens is 9, the maps hold 8 \(map_capacity\)"):
        maps.build(starts, lengths, 9)
    with pytest.raises(OctaveError, match=r"query_start_loc is torch.int64"):
        maps.build(starts.long(), lengths, 5)
    with pytest.raises(OctaveError, match=r"seq_lens is torch.int32 .* on meta"):
        maps.build(starts, lengths.to("meta"), 5)
    with pytest.raises(OctaveError, match="query_start_loc has 3 entries for 1 requests"):
        maps.build(starts, lengths[:1], 5)
    with pytest.raises(OctaveError, match="capacity is 0"):
        QueryMaps(0, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU (torch.cuda.is_available())")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
def test_graph_capture_on_a_gpu() -> None:
    maps = QueryMaps(16, "cuda")
    starts, lengths = start_loc([3, 2]).cuda(), int32([7, 9]).cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        maps.build(starts, lengths, 8)  # outside a capture a host sync would pass unnoticed
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        q_to_req, q_to_klen = maps.build(starts, lengths, 8)
    for query_lens, seq_lens in (([3, 2], [7, 9]), ([0, 4], [6, 5]), ([8, 0], [8, 0]), ([1, 1], [400_000, 0])):
        starts.copy_(start_loc(query_lens))
        lengths.copy_(int32(seq_lens))
        graph.replay()
        assert (q_to_req.tolist(), q_to_klen.tolist()) == expected_maps(query_lens, seq_lens, 8)


def expected_groups(query_lens: list[int], num_tokens: int, query_group: int) -> list[int]:
    starts, first = [], 0
    for count in (*query_lens, num_tokens - sum(query_lens)):
        starts += range(first, first + count, query_group)
        first += count
    return starts


def grouped(groups: QueryGroups, query_lens: list[int], num_tokens: int) -> list[int]:
    starts = groups.build(start_loc(query_lens), num_tokens)
    assert starts.dtype == torch.int32
    assert starts.data_ptr() == groups.group_starts.data_ptr()
    return starts.tolist()


@pytest.mark.parametrize("query_group", [1, 3, 4])
def test_groups_of_random_ragged_batches(query_group: int) -> None:
    groups = QueryGroups(600, query_group, "cpu")
    for query_lens, _, num_tokens in random_batches():
        wanted, starts = expected_groups(query_lens, num_tokens, query_group), grouped(groups, query_lens, num_tokens)
        assert starts[: len(wanted)] == wanted
        assert set(starts[len(wanted) :]) <= {num_tokens}


@pytest.mark.parametrize(
    ("query_lens", "num_tokens", "starts"),
    [
        ([3, 3, 3], 9, [0, 3, 6, 9, 9, 9]),
        ([4, 4], 8, [0, 4, 8, 8, 8]),
        ([5, 1, 0, 2], 8, [0, 4, 5, 6, 8, 8, 8]),
        ([1], 7, [0, 1, 5]),  # padding has groups of its own
        ([], 5, [0, 4]),
    ],
)
def test_groups(query_lens: list[int], num_tokens: int, starts: list[int]) -> None:
    assert grouped(QueryGroups(8, 4, "cpu"), query_lens, num_tokens) == starts


def test_number_of_groups_depends_on_shapes_alone() -> None:
    """A meta tensor has no values."""
    groups = QueryGroups(16, 4, "meta")
    assert groups.build(start_loc([3, 2]).to("meta"), 8).shape == (5,)


@pytest.mark.parametrize(("tokens", "requests", "group", "capacity"), [(64, 16, 4, 33), (8, 16, 4, 8), (9, 1, 4, 4)])
def test_group_capacity_is_enough(tokens: int, requests: int, group: int, capacity: int) -> None:
    assert group_capacity(tokens, requests, group) == capacity
    groups = QueryGroups(capacity, group, "cpu")
    for count in range(requests + 1):
        groups.build(torch.zeros(count + 1, dtype=torch.int32), tokens)


def test_wrong_groups() -> None:
    for arguments in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(OctaveError, match="no capacity"):
            group_capacity(*arguments)
    groups = QueryGroups(2, 4, "cpu")
    with pytest.raises(OctaveError, match=r"need 4 groups, the buffer holds 2 \(group_capacity\)"):
        groups.build(start_loc([3, 2]), 5)
    with pytest.raises(OctaveError, match=r"query_start_loc is torch.int64"):
        groups.build(start_loc([3]).long(), 5)
