"""cases: what they cover, how they are written, and how they are made smaller."""

from __future__ import annotations

import pytest

from octave_gen.errors import OctaveError
from octave_gen.verify.cases import (
    FULL,
    HUGE,
    KINDS,
    QUICK,
    Case,
    ChunkCase,
    DecodeCase,
    PrefixCase,
    ReduceCase,
    RotateCase,
    StoreCase,
    parse,
    smaller,
)

ALL = [(kind, case) for table in (FULL, QUICK) for kind, cases in table.items() for case in cases]


@pytest.mark.parametrize(("kind", "case"), ALL)
def test_a_case_reads_back_as_it_is_written(kind: str, case: Case) -> None:
    assert parse(kind, str(case)) == case
    assert type(case) is KINDS[kind]


def test_every_kind_has_cases() -> None:
    assert set(FULL) == set(QUICK) == set(KINDS)
    assert all(FULL.values())
    assert all(QUICK.values())


def test_the_full_cases_of_decode_cover_the_edges() -> None:
    cases = [case for case in FULL["decode"] if isinstance(case, DecodeCase)]
    assert {0, 1, 15, 16, 17, 100, 257} <= {length for case in cases for length in case.lengths}
    assert {1, 3} <= {case.splits for case in cases}
    assert any(case.splits > min(case.lengths) > 0 and case.splits > 16 for case in cases)
    assert {case.block_size for case in cases} == {16, 48, 1568}
    assert {case.rows for case in cases} == {"grouped", "mixed", "ragged"}
    assert {case.memory for case in cases} == {"dense", "strided", "far"}
    assert {case.values for case in cases} == {"gaussian", "poison", "edges"}
    assert {case.scale for case in cases} == {1, HUGE}


def test_the_full_cases_of_prefill_cover_the_edges() -> None:
    for kind in ("prefill_prefix", "prefill_chunk"):
        cases = [case for case in FULL[kind] if isinstance(case, ChunkCase)]
        assert {0, 1, 17, 33} <= {prefix for case in cases for prefix, _ in case.requests}
        assert {0, 5, 22, 40} <= {chunk for case in cases for _, chunk in case.requests}
        assert any(case.splits > prefix > 0 for case in cases for prefix in case.prefixes)
        assert {case.scale for case in cases} == {1, 3, HUGE}
        assert len({case.group for case in cases}) == 4
        assert {case.memory for case in cases} == {"dense", "strided", "far"}
        assert {case.values for case in cases} == {"gaussian", "poison", "edges"}
    assert {case.block_size for case in FULL["prefill_prefix"] if isinstance(case, PrefixCase)} == {16, 48, 1568}


def test_requests_of_a_prefill_fill_up_the_shorter_list() -> None:
    assert ChunkCase((5, 0), (1, 2, 3)).requests == ((5, 1), (0, 2), (0, 3))
    assert PrefixCase((5, 7), (1,)).requests == ((5, 1), (7, 0))


def test_fields_left_out_have_their_defaults() -> None:
    assert parse("decode", "lengths=5,0 splits=2") == DecodeCase(lengths=(5, 0), splits=2)
    assert parse("reduce", "") == ReduceCase()


def test_the_quick_cases_have_a_center_and_have_none() -> None:
    for kind in ("store", "rotate"):
        for cases in (FULL[kind], QUICK[kind]):
            centers = {case.center for case in cases if isinstance(case, StoreCase | RotateCase)}
            assert centers >= {"absent", "edges"}
        assert "center=gaussian" in " ".join(map(str, FULL[kind]))


def test_the_inverse_rotation_has_no_center() -> None:
    with pytest.raises(OctaveError, match="the inverse rotation takes no center"):
        parse("rotate", "inverse=1 center=gaussian")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("token=3", r"no 'token' \(did you mean tokens"),
        ("tokens=0", "tokens is 0, not one number from 1"),
        ("tokens=3,4", "not one number"),
        ("tokens=x", "tokens is 'x'"),
        ("tokens=", "tokens is ''"),
        ("tokens=99999999", "no number of this size"),
        ("memory=sparse", "not dense or strided or far"),
        ("tokens", "tokens is ''"),
    ],
)
def test_what_is_no_case(text: str, problem: str) -> None:
    with pytest.raises(OctaveError, match=problem) as error:
        parse("store", text)
    assert error.value.exit_code == 2


WORDS = [
    "absent",
    "dense",
    "strided",
    "far",
    "gaussian",
    "poison",
    "edges",
    "own",
    "random",
    "grouped",
    "mixed",
    "ragged",
]


def weight(case: Case) -> tuple[int, ...]:
    """Every step of `smaller` lowers the sum."""
    found = []
    for value in vars(case).values():
        if isinstance(value, str):
            found.append(WORDS.index(value))
        else:
            found.append(sum(value) + len(value) if isinstance(value, tuple) else value)
    return tuple(found)


@pytest.mark.parametrize(("kind", "case"), ALL)
def test_smaller_cases_differ_in_one_field_and_come_to_an_end(kind: str, case: Case) -> None:
    steps = list(smaller(case))
    assert len(set(steps)) == len(steps) or isinstance(case, DecodeCase | ChunkCase)
    for step in steps:
        before, after = weight(case), weight(step)
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
        assert sum(after) < sum(before)


def test_the_plainest_case_has_nothing_smaller() -> None:
    assert list(smaller(StoreCase(tokens=1, heads=1))) == []
    assert list(smaller(DecodeCase(lengths=(0,)))) == []
    assert list(smaller(PrefixCase((0,), (0,)))) == []


def test_requests_are_dropped_before_tokens() -> None:
    steps = list(smaller(DecodeCase(lengths=(9, 4))))
    assert [step.lengths for step in steps[:4]] == [(9,), (4,), (4,), (9,)]
    assert steps[4].lengths == (0, 4)
