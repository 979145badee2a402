"""check_prefill and chunks: what is right passes, what is wrong in one respect fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import prefill_stand_in
import pytest
import torch
from made_up import Right, SubjectMaker
from torch import Tensor

from octave_gen.kernels import KINDS
from octave_gen.kernels.base import Accuracy
from octave_gen.runtime.library import LoadedVariant
from octave_gen.verify import checks, chunks
from octave_gen.verify.cases import FULL, HUGE, QUICK, ChunkCase, PrefixCase
from octave_gen.verify.inputs import POISON, STALE
from octave_gen.verify.operators import Chunked, Prefill
from octave_gen.verify.subject import Subject, subjects

PREFIX, CHUNK = "prefill_prefix", "prefill_chunk"


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    prefill_stand_in.register(monkeypatch)


@pytest.mark.parametrize("query_dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("kind", [PREFIX, CHUNK])
def test_what_the_reference_computes_passes_every_case(
    kind: str, query_dtype: str, subject: SubjectMaker, right: Right
) -> None:
    checked = checks.check(subject(kind, query_dtype), (*FULL[kind], *QUICK[kind]), 11, right)
    assert checked.failure is None
    assert checked.cases == (*FULL[kind], *QUICK[kind])
    assert len(checked.measured.errors) == {PREFIX: 4, CHUNK: 2}[kind]
    assert max(checked.measured.errors.values()) <= 1


@pytest.mark.parametrize("dtype", ["octave_k3v4", "octave_k3v3_compact", "octave_k3v4_compact", "octave_k4v3_compact"])
def test_every_cache_dtype(dtype: str, subject: SubjectMaker, right: Right) -> None:
    made = subject(PREFIX, dtype=dtype, head_size=128)
    assert checks.check(made, FULL[PREFIX], 2, right).failure is None


@pytest.mark.parametrize("kind", [PREFIX, CHUNK])
@pytest.mark.parametrize("text", [((0,), (0,)), ((9,), (0,)), ((5, 0), (1,)), ((0,), (1, 1, 1)), ((33,), (3,))])
@pytest.mark.parametrize("values", ["gaussian", "poison", "edges"])
def test_small_cases(kind: str, text: tuple[tuple[int, ...], ...], values: str, subject: SubjectMaker) -> None:
    case = {PREFIX: PrefixCase, CHUNK: ChunkCase}[kind](*text, splits=2, values=values)
    assert not checks.run(subject(kind), case, 1, Right()).problems


def before(change: Callable[[Prefill], Prefill]) -> Right:
    class Wrong(Right):
        def prefill(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Prefill) -> None:
            super().prefill(variant, merge, change(arguments))

    return Wrong()


def before_chunk(change: Callable[[Chunked], Chunked]) -> Right:
    class Wrong(Right):
        def prefill_chunk(self, variant: LoadedVariant, arguments: Chunked) -> None:
            super().prefill_chunk(variant, change(arguments))

    return Wrong()


def between(change: Callable[[Tensor], object]) -> Right:
    """Changes the partials before the chunk kernel reads them."""

    class Wrong(Right):
        def prefill(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Prefill) -> None:
            super().prefill(variant, None, arguments)
            change(arguments.partials)
            assert merge is not None
            self.prefill_chunk(merge, arguments)

    return Wrong()


def after(change: Callable[[Tensor], object]) -> Right:
    class Wrong(Right):
        def prefill_chunk(self, variant: LoadedVariant, arguments: Chunked) -> None:
            super().prefill_chunk(variant, arguments)
            change(arguments.out)

    return Wrong()


def touch(x: Tensor, index: tuple[int, ...], value: float) -> None:
    x[index] = value


CASE = PrefixCase((40, 0, 9), (5, 6, 3), splits=3, kv_heads=2, group=2, values="poison")
ALONE = ChunkCase((40, 0, 9), (5, 6, 3), splits=3, kv_heads=2, group=2, values="poison")


def test_the_cases_of_these_tests_pass(subject: SubjectMaker, right: Right) -> None:
    assert not checks.run(subject(PREFIX), CASE, 1, right).problems
    assert not checks.run(subject(CHUNK), ALONE, 1, right).problems


@pytest.mark.parametrize(
    "change",
    [
        lambda a: replace(a, sm_scale=a.sm_scale * 1.001),
        lambda a: replace(a, q=a.q.flip(1)),
        lambda a: replace(a, q=(a.q * 4).round() / 4),
        lambda a: replace(a, seq_lens=a.seq_lens - torch.tensor([1, 0, 0])),  # the newest token of the prefix is unseen
        lambda a: replace(a, seq_lens=a.seq_lens + torch.tensor([0, 0, 1])),  # one behind it is seen
        lambda a: replace(a, cache=a.cache.flip(1)),
    ],
)
def test_a_wrong_prefix_fails(change: Callable[[Prefill], Prefill], subject: SubjectMaker) -> None:
    problems = checks.run(subject(PREFIX), CASE, 1, before(change)).problems
    assert any("partials" in problem for problem in problems)
    alone = checks.run(subject(PREFIX, with_reduce=False), CASE, 1, before(change))
    assert alone.problems
    assert [error.split(",")[0] for error in alone.errors] == ["partials", "log2 of the partials' weight"]


@pytest.mark.parametrize("factor", [0.0, 0.97, 1.03])
@pytest.mark.parametrize("kind", [PREFIX, CHUNK])
def test_a_wrong_result_of_huge_scores_fails(kind: str, factor: float, subject: SubjectMaker, right: Right) -> None:
    """Their rounding alone would allow for any result."""
    case = {PREFIX: PrefixCase, CHUNK: ChunkCase}[kind]((40, 2), (5, 9), scale=HUGE)
    assert not checks.run(subject(kind), case, 1, right).problems
    assert checks.run(subject(kind), case, 1, after(lambda out: out.mul_(factor))).problems
    if kind == PREFIX:
        wrong = between(lambda partials: partials[..., :-2].mul_(factor))
        assert "partials, share" in checks.run(subject(kind), case, 1, wrong).problems[0]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda p: touch(p, (5, 0, 0, 0), 0.0), "splits without tokens"),  # the request without a prefix
        (lambda p: touch(p, (13, 1, 1, 3), 0.0), "splits without tokens"),  # nine tokens are one split
        (lambda p: touch(p, (16, 1, 0, 3), 0.0), "splits without tokens"),  # padding
        (lambda p: p[2, 1, :, :-2].mul_(1.001), "partials"),
        (lambda p: p[4, 3, 1, -1:].mul_(1.001), "partials"),
        (lambda p: touch(p, (1, 0, 2, 5), float("nan")), "partials"),
        (lambda p: p[..., -2].add_(1e-4), "log2 of the partials' weight"),
        (lambda p: p[12, 3, 0].mul_(torch.tensor([1.001] * 64 + [1.0, 1.001])), "log2 of the partials' weight"),
    ],
)
def test_wrong_partials_fail(change: Callable[[Tensor], object], what: str, subject: SubjectMaker) -> None:
    problems = checks.run(subject(PREFIX), CASE, 1, between(change)).problems
    assert problems[0].startswith(what)


def test_partials_whose_maximum_is_no_score_fail(subject: SubjectMaker) -> None:
    """The same weight in all, but so far below the maximum that fp16 weights of the chunk would lose their bits."""

    def lower(partials: Tensor) -> None:
        partials[:3, 1] *= torch.tensor([2.0**-9] * 64 + [1.0, 2.0**-9])
        partials[:3, 1, :, -2] += 9

    (problem,) = checks.run(subject(PREFIX), CASE, 1, between(lower)).problems
    assert problem.startswith("sums of partials: 9 of ")


@pytest.mark.parametrize(
    "change",
    [
        lambda a: replace(a, sm_scale=a.sm_scale * 1.001),
        lambda a: replace(a, k=a.k.roll(1, 0)),
        lambda a: replace(a, v=a.v.roll(1, 0)),
        lambda a: replace(a, v=a.v.nan_to_num(0, 0, 0), k=a.k.nan_to_num(0, 0, 0)),  # hides what is not finite
        lambda a: replace(a, partials=a.partials.where(torch.tensor([1.0, 1.0, 0.0])[:, None] > 0, torch.nan)),
        lambda a: replace(a, partials=a.partials * 1.002),
    ],
)
@pytest.mark.parametrize("kind", [PREFIX, CHUNK])
def test_a_wrong_chunk_fails(kind: str, change: Callable[[Chunked], Chunked], subject: SubjectMaker) -> None:
    case = CASE if kind == PREFIX else ALONE
    problems = checks.run(subject(kind), case, 1, before_chunk(change)).problems
    assert any(problem.startswith("output") for problem in problems)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda out: out[:14].mul_(1.004), "output"),
        (lambda out: touch(out, (0, 1, 3), float("nan")), "output"),
        (lambda out: touch(out, (0, 1, 3), 7.0), "output"),
        (lambda out: out.copy_(out.nan_to_num()), "output"),
        (lambda out: touch(out, (14, 0, 0), 0.0), "rows of padding"),
        (lambda out: touch(out, (-1, -1, -1), float("nan")), "rows of padding"),
    ],
)
@pytest.mark.parametrize("kind", [PREFIX, CHUNK])
def test_wrong_outputs_fail(kind: str, change: Callable[[Tensor], object], what: str, subject: SubjectMaker) -> None:
    case = CASE if kind == PREFIX else ALONE
    problems = checks.run(subject(kind), case, 1, after(change)).problems
    assert problems[0].startswith(what)


def test_a_token_that_reaches_rows_before_it_fails(subject: SubjectMaker) -> None:
    def spread(a: Chunked) -> Chunked:
        bad = ~(a.k[:5] + a.v[:5]).isfinite().all(-1).all(-1)
        return replace(a, v=a.v.index_fill(0, bad.nonzero()[:1].flatten() - 1, torch.nan))

    problems = checks.run(subject(CHUNK), ALONE, 1, before_chunk(spread)).problems
    assert problems[0].startswith("output")


@pytest.mark.parametrize(("scale", "error"), [(1, 3e-2), (3, 6e-2)])
def test_the_bounds_of_the_whole_output(scale: int, error: float, subject: SubjectMaker) -> None:
    """A wide allowance by element does not hide it."""
    case = PrefixCase((60,), (9,), group=2, scale=scale)
    (problem,) = checks.run(subject(PREFIX), case, 1, after(lambda out: out[:9].mul_(1 + error))).problems[-1:]
    assert problem.startswith("exact query, relative error")
    case = replace(case, prefixes=(0,))
    (problem,) = checks.run(subject(PREFIX), case, 1, after(lambda out: out[:9].mul_(1.003))).problems[-1:]
    assert problem.startswith("chunk alone, relative error")


def test_finite_outputs_saturate(subject: SubjectMaker) -> None:
    case = PrefixCase((0, 9, 40), (1, 3, 6), group=4, values="edges")
    overflow = after(lambda out: out.copy_(out.where(out.abs() != 65504, torch.inf)))
    (problem,) = checks.run(subject(PREFIX, head_size=128), case, 1, overflow).problems
    assert "nan instead of -65504" in problem  # any that is not finite


def test_a_scale_without_a_bound_has_none(subject: SubjectMaker, right: Right) -> None:
    measured = checks.run(subject(PREFIX), PrefixCase(scale=4), 1, right)
    assert not measured.problems
    assert len(measured.errors) == 3


def test_failing_cases_are_made_small(subject: SubjectMaker) -> None:
    wrong = after(lambda out: out[:1, 2:].mul_(1.5))
    failure = checks.check(subject(PREFIX), FULL[PREFIX], 3, wrong, seconds=20).failure
    assert failure is not None
    assert isinstance(failure.case, PrefixCase)
    assert sum(failure.case.prefixes) + sum(failure.case.chunks) <= 2
    assert failure.case.group * failure.case.kv_heads == 3


def test_the_chunk_kernel_of_the_same_tier_goes_behind(subject: SubjectMaker) -> None:
    prefix, chunk, other = subject(PREFIX).variant, subject(CHUNK).variant, subject(CHUNK, "bf16").variant
    found = subjects([prefix, chunk, other])
    assert found == [Subject(prefix, chunk), Subject(chunk), Subject(other)]
    assert subjects([prefix, other])[0].merge is None


def test_a_prefix_has_the_rounding_of_both_kernels(subject: SubjectMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS[CHUNK]
    tier = replace(kind.tiers[0], accuracy=Accuracy(rounding=4.0))
    monkeypatch.setitem(KINDS, CHUNK, replace(kind, tiers=(tier,)))
    assert subject(CHUNK).accuracy.rounding == 4.0
    assert [one.rounding for one in subject(PREFIX).accuracies] == [16.0, 4.0]


@pytest.mark.parametrize("values", ["gaussian", "poison", "edges"])
def test_the_inputs(values: str, subject: SubjectMaker) -> None:
    case = PrefixCase((20, 0, 33), (6, 0, 5), kv_heads=2, group=4, values=values)
    batch = chunks.make_chunks(subject(PREFIX), case, 3)
    assert batch.cu_seqlens_q.tolist() == [0, 6, 6, 11]
    assert batch.seq_lens.tolist() == [26, 0, 38]
    assert batch.tokens == 11
    assert len(batch.q) == len(batch.k) == 14
    for x in (batch.q, batch.k, batch.v):
        assert x[11:].isnan().all()
    bad = [not (batch.k[t].isfinite().all() and batch.v[t].isfinite().all()) for t in range(11)]
    poisoned = values == "poison"
    assert bad == [False] * 3 + [poisoned] * 3 + [False] * 3 + [poisoned] * 2
    if values == "edges":
        heads = batch.q[:11].float().abs().amax(-1)
        assert {0.0, 65504.0} <= set(heads.flatten().tolist())
        assert batch.v[:11].abs().max() == 65504
    table, cache = chunks.make_prefixes(subject(PREFIX), case, 3)
    seen = torch.zeros(cache.shape[0], 16, dtype=torch.bool)
    for request, length in ((0, 20), (2, 33)):
        token = torch.arange(length)
        seen[table[request, token // 16].long(), token % 16] = True
        assert ((table[request, -(-length // 16) :] < 0) | (table[request, -(-length // 16) :] >= 2**30)).all()
    for first, byte in ((0, POISON), (1, STALE)):
        assert (cache.transpose(1, 2)[:, first::2][~seen[:, first::2]] == byte).all()


def test_synthetic_partials(subject: SubjectMaker) -> None:
    case = ChunkCase((40, 0, 9), (2, 2, 1), splits=3, group=4, values="edges")
    batch = chunks.make_chunks(subject(CHUNK), case, 3)
    partials = chunks.make_partials(subject(CHUNK), case, batch, 3)
    full = partials.isfinite().all(-1)
    assert full[:2].all()
    assert not full[2:4].any()
    assert full[4].tolist() == [[True, False, False]] * 4
    assert not full[5:].any()
    marked = chunks.marked(partials, batch)
    assert torch.equal(marked[full], partials[full])
    assert (marked[~full][:, -2] == -torch.inf).all()
    assert not marked[~full][:, -1].any()
    assert [chunks.used_splits(n, 3) for n in (0, 1, 16, 17, 33, 49, 40)] == [0, 1, 1, 2, 3, 2, 3]
