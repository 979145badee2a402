"""batch: what may be seen is there, what may not is poison."""

from __future__ import annotations

import pytest
import torch
from made_up import SubjectMaker

from octave_gen.formats.octave.codec import dequantize
from octave_gen.reference.paged import gather_slots, visible_rows
from octave_gen.verify.batch import group_starts, make_batch, query_rows
from octave_gen.verify.cases import FULL, DecodeCase
from octave_gen.verify.inputs import POISON, STALE


def test_grouped_rows_end_with_the_whole_request() -> None:
    assert query_rows((7, 2, 0), 4, "grouped") == (
        *((0, 4), (0, 5), (0, 6), (0, 7)),
        *((1, -1), (1, 0), (1, 1), (1, 2)),
        *((2, -3), (2, -2), (2, -1), (2, 0)),
    )
    assert query_rows((7, 0), 1, "grouped") == ((0, 7), (1, 0))


def test_ragged_rows_are_in_groups_of_their_own() -> None:
    rows = query_rows((7, 3, 9), 2, "ragged")
    assert rows == ((0, 6), (0, 7), (1, 3), (2, 7), (2, 8), (2, 9), (-1, 5), (3, 3), (0, 0))
    assert group_starts(rows, 2).tolist() == [0, 2, 3, 5, 6, 7, 8, 9, 9]


def test_mixed_rows_hold_padding_of_each_kind_and_no_full_last_group() -> None:
    rows = query_rows((100, 17, 257, 9), 4, "mixed")
    assert len(rows) % 4
    assert {(0, 100), (0, 98), (1, 17), (1, 8), (2, 257), (2, 255)} <= set(rows)
    assert {(-1, 5), (4, 3), (0, 0)} <= set(rows)
    assert rows[2:4] == ((1, 17), (1, 17))
    groups = [{request for request, _ in rows[i : i + 4]} for i in range(0, len(rows), 4)]
    assert max(map(len, groups)) > 2


@pytest.mark.parametrize("case", FULL["decode"])
def test_visible_tokens_are_stored_and_all_else_is_poison(case: DecodeCase, subject: SubjectMaker) -> None:
    batch = make_batch(subject("decode"), case, 3)
    seen = torch.zeros(batch.cache.shape[0], batch.cache.shape[2], dtype=torch.bool)
    for row in visible_rows(batch.q_to_req, batch.q_to_klen, len(case.lengths)):
        assert row.klen <= case.lengths[row.request]
        token = torch.arange(row.klen)
        seen[batch.block_table[row.request, token // case.block_size].long(), token % case.block_size] = True
        k, _ = dequantize(gather_slots(batch.cache, batch.block_table, row), subject("decode").layout)
        if case.values != "poison" or row.request % 2:
            assert k.isfinite().all()
    unseen = batch.cache.transpose(1, 2)
    assert not seen.all()
    assert (unseen[:, ::2][~seen[:, ::2]] == POISON).all()
    hidden = case.values == "poison"  # longer queries see some of it
    assert ((unseen[:, 1::2] == STALE) | hidden & (unseen[:, 1::2] == POISON))[~seen[:, 1::2]].all()
    for request, length in enumerate(case.lengths):
        rest = batch.block_table[request, -(-length // case.block_size) :]
        assert ((rest < 0) | (rest >= 2**30)).all()


def test_what_a_shorter_query_may_not_see_is_poison(subject: SubjectMaker) -> None:
    case = DecodeCase(lengths=(20, 20), values="poison")
    batch = make_batch(subject("decode"), case, 3)
    finite = []
    for row in visible_rows(batch.q_to_req, batch.q_to_klen, 2):
        k, v = dequantize(gather_slots(batch.cache, batch.block_table, row), subject("decode").layout)
        finite.append((row.request, row.klen, bool(k.isfinite().all() and v.isfinite().all())))
    poisoned = [(0, 17, True), (0, 18, False), (0, 19, False), (0, 20, False)]
    assert finite == [*poisoned, *((1, seen, True) for seen in (17, 18, 19, 20))]


def test_queries_that_are_padding_are_nan(subject: SubjectMaker) -> None:
    for values in ("poison", "edges"):
        batch = make_batch(subject("decode"), DecodeCase(lengths=(9, 2), rows="mixed", values=values), 3)
        assert batch.query[batch.padding].isnan().all()
        assert batch.padding.tolist() == [not (0 <= request < 2 and seen > 0) for request, seen in batch.rows]
        assert not batch.query[~batch.padding][1:].isnan().any()


def test_edges_of_queries_and_tokens(subject: SubjectMaker) -> None:
    case = DecodeCase(lengths=(17, 1, 100, 16), values="edges")
    batch = make_batch(subject("decode", gqa_group=4), case, 3)
    query = batch.query.float()
    assert query[0, 0].isnan().any()
    assert query[-1, -1].isinf().any()
    assert (query == 0).all(-1).any()
    assert (query == 65504).all(-1).any()
    assert ((query.abs().amax(-1) > 0) & (query.abs().amax(-1) < 2**-14)).any()
    scales = []
    for row in visible_rows(batch.q_to_req, batch.q_to_klen, 4):
        slots = gather_slots(batch.cache, batch.block_table, row)
        region = subject("decode").layout.v_scale
        scales.append(slots[..., region.offset : region.end].contiguous().view(torch.float16))
    found = torch.cat([scale.flatten() for scale in scales]).float()
    assert (found == 0).any()
    assert (found > 2**14).any()
    assert ((found > 0) & (found < 2**-14)).any()
