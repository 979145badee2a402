"""KV splits and the decode workspace."""

from __future__ import annotations

import pytest

from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.kernels.splits import (
    MAX_KV_SPLITS,
    SPLIT_GRANULE,
    query_groups,
    split_widths,
    tokens_per_split,
    workspace_bytes,
    workspace_shape,
)

SPLITS = (1, 2, 3, 7, 32, 1000, MAX_KV_SPLITS)


@pytest.mark.parametrize(
    ("klen", "splits", "tokens"),
    [(0, 8, 0), (1, 8, 16), (16, 1, 16), (17, 1, 32), (128, 8, 16), (129, 8, 32), (100_000, 32, 3136)],
)
def test_tokens_of_a_split(klen: int, splits: int, tokens: int) -> None:
    assert tokens_per_split(klen, splits) == tokens


@pytest.mark.parametrize("splits", SPLITS)
def test_splits_cover_the_context_in_whole_tiles_and_no_smaller_share_would(splits: int) -> None:
    for klen in (*range(1, 300), 4095, 4096, 4097, 380_000, 2**31 - 1):
        tokens = tokens_per_split(klen, splits)
        assert tokens % SPLIT_GRANULE == 0
        assert tokens * splits >= klen
        assert (tokens - SPLIT_GRANULE) * splits < klen


def test_the_workspace_holds_the_outputs_the_maximum_and_the_sum() -> None:
    assert workspace_shape(3, 12, 32, 256) == (3, 12, 32, 258)
    assert workspace_bytes(3, 12, 32, 256) == 4 * 3 * 12 * 32 * 258
    assert workspace_bytes(0, 12, 32, 256) == 0


def test_large_workspaces_do_not_wrap() -> None:
    assert workspace_bytes(4096, 64, 1024, 512) == 4 * 4096 * 64 * 1024 * 514 > 2**32


@pytest.mark.parametrize("splits", [1, MAX_KV_SPLITS])
def test_the_least_and_the_most_splits(splits: int) -> None:
    assert workspace_shape(1, 1, splits, 64) == (1, 1, splits, 66)


@pytest.mark.parametrize("splits", [0, -1, MAX_KV_SPLITS + 1])
def test_other_split_counts_are_refused(splits: int) -> None:
    with pytest.raises(OctaveError, match=f"num_kv_splits must be 1 to 1024, not {splits}") as caught:
        workspace_shape(1, 1, splits, 64)
    assert caught.value.exit_code == WRONG_REQUEST
    with pytest.raises(OctaveError, match="num_kv_splits"):
        workspace_bytes(1, 1, splits, 64)


@pytest.mark.parametrize(
    ("q_to_req", "q_to_klen", "splits", "group", "widths"),
    [
        ([0, 0, 0, 0], [61, 62, 63, 65], 2, 4, [48] * 4),
        ([0, 0, 0, 0], [61, 62, 63, 65], 2, 2, [32, 32, 48, 48]),
        ([0, 0, 1, 1], [65, 64, 10, 11], 2, 4, [48, 48, 16, 16]),
        ([0, -1, 0, 0], [10, 99, 33, 0], 2, 4, [16, 0, 32, 0]),  # padding ends a run
        ([0, 2, 0], [10, 99, 33], 2, 3, [16, 0, 32]),  # and so does a request out of range
        ([], [], 4, 4, []),
    ],
)
def test_split_widths(q_to_req: list[int], q_to_klen: list[int], splits: int, group: int, widths: list[int]) -> None:
    assert split_widths(q_to_req, q_to_klen, 2, splits, query_groups(len(q_to_req), group)) == widths


def test_query_groups_follow_each_other_or_start_where_they_are_told() -> None:
    assert query_groups(6, 4) == [range(4), range(4, 6)]
    assert query_groups(0, 4) == []
    assert query_groups(6, 4, [0, 1, 5, 6, 6]) == [range(1), range(1, 5), range(5, 6), range(6, 6), range(6, 6)]


@pytest.mark.parametrize("starts", [[], [1, 5], [0, 5], [0, 4, 3, 6], [0, 4, 7]])
def test_group_starts_that_leave_queries_out(starts: list[int]) -> None:
    with pytest.raises(OctaveError, match=r"group_starts is .* for 6 queries") as caught:
        query_groups(6, 4, starts)
    assert caught.value.exit_code == WRONG_REQUEST
