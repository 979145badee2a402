"""checks: what is right passes, what is wrong in one respect fails, and the failing case is made small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from made_up import Right, SubjectMaker
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.formats.octave.rotation import rotate_inverse, sign_tensor
from octave_gen.runtime.library import LoadedVariant
from octave_gen.verify import checks
from octave_gen.verify.cases import FULL, HUGE, QUICK, DecodeCase, ReduceCase, RotateCase, StoreCase
from octave_gen.verify.operators import Attention


@pytest.mark.parametrize("query_dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("kind", ["store", "rotate", "decode", "reduce"])
def test_what_the_reference_computes_passes_every_case(
    kind: str, query_dtype: str, subject: SubjectMaker, right: Right
) -> None:
    made = subject(kind, query_dtype)
    checked = checks.check(made, (*FULL[kind], *QUICK[kind]), 11, right)
    assert checked.failure is None
    assert checked.cases == (*FULL[kind], *QUICK[kind])
    if kind == "store":
        assert set(checked.measured.counts.values()) == {0}
    if kind == "decode":
        assert len(checked.measured.errors) == 3
        assert max(checked.measured.errors.values()) <= 1


def after_store(change: Callable[[Tensor], object]) -> Right:
    class Wrong(Right):
        def cache_store(self, variant: LoadedVariant, key: Tensor, value: Tensor, cache: Tensor, *rest: Any) -> None:
            super().cache_store(variant, key, value, cache, *rest)
            change(cache)

    return Wrong()


def after_rotate(change: Callable[[Tensor], object]) -> Right:
    class Wrong(Right):
        def rotate(self, variant: LoadedVariant, x: Tensor, *rest: Any) -> None:
            super().rotate(variant, x, *rest)
            change(x)

    return Wrong()


def after_reduce(change: Callable[[Tensor], object]) -> Right:
    class Wrong(Right):
        def reduce(self, variant: LoadedVariant, mid_o: Tensor, out: Tensor, *rest: Any) -> None:
            super().reduce(variant, mid_o, out, *rest)
            change(out)

    return Wrong()


def before_decode(change: Callable[[Attention], Attention]) -> Right:
    class Wrong(Right):
        def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
            super().decode(variant, merge, change(arguments))

    return Wrong()


def between(change: Callable[[Tensor], object]) -> Right:
    """Changes the partials before they are merged."""

    class Wrong(Right):
        def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
            super().decode(variant, None, arguments)
            change(arguments.mid_o)
            assert merge is not None
            self.reduce(merge, arguments.mid_o, arguments.out, arguments.v_signs, arguments.num_kv_splits)

    return Wrong()


def touch(x: Tensor, index: tuple[int, ...], value: float) -> None:
    x[index] = value


@pytest.mark.parametrize(
    "change",
    [
        lambda cache: touch(cache, (-1, -1, -1, 0), 1),  # a block that nobody stores to
        lambda cache: cache.bitwise_xor_((cache != 0xA5).all(-1, keepdim=True).to(torch.uint8)),  # one bit of each byte
        lambda cache: cache[..., -1:].fill_(7),  # padding
    ],
)
def test_a_wrong_store_fails(change: Callable[[Tensor], object], subject: SubjectMaker) -> None:
    assert checks.run(subject("store", dtype="octave_k3v4"), StoreCase(), 1, after_store(change)).problems


@pytest.mark.parametrize("factor", [0.0, 0.99, 1.01])
def test_a_wrong_result_of_huge_scores_fails(factor: float, subject: SubjectMaker, right: Right) -> None:
    """Their rounding alone would allow for any result."""
    case = DecodeCase(lengths=(40, 2), scale=HUGE)
    assert not checks.run(subject("decode"), case, 1, right).problems
    wrong = between(lambda partials: partials[..., :-2].mul_(factor))
    assert checks.run(subject("decode"), case, 1, wrong).problems


@pytest.mark.parametrize("change", [lambda center: None, lambda center: center.flip(0), lambda center: center * 0.999])
def test_a_wrong_center_fails(change: Callable[[Tensor], Tensor | None], subject: SubjectMaker) -> None:
    class Wrong(Right):
        def cache_store(self, variant: LoadedVariant, *tensors: Any) -> None:
            super().cache_store(variant, *tensors[:-1], change(tensors[-1]))

        def rotate(self, variant: LoadedVariant, *arguments: Any) -> None:
            super().rotate(variant, *arguments[:-1], change(arguments[-1]))

    for kind, make in (("store", StoreCase), ("rotate", RotateCase)):
        for word in ("gaussian", "edges"):
            assert not checks.run(subject(kind), make(heads=6, center=word), 1, Right()).problems
            assert checks.run(subject(kind), make(heads=6, center=word), 1, Wrong()).problems


def test_a_center_of_one_head_that_reaches_another_fails(subject: SubjectMaker) -> None:
    """The cases' center is NaN in one head and -Inf in another; all others must stay as they are."""

    class Wrong(Right):
        def cache_store(self, variant: LoadedVariant, *tensors: Any) -> None:
            super().cache_store(variant, *tensors[:-1], tensors[-1] + 0 * tensors[-1].sum(0))

    found = checks.run(subject("store"), StoreCase(tokens=5, heads=6, center="edges"), 1, Wrong()).problems
    assert found


def test_a_store_to_a_skipped_slot_fails(subject: SubjectMaker) -> None:
    class Wrong(Right):
        def cache_store(self, variant: LoadedVariant, *tensors: Any) -> None:
            key, value, cache, slot_mapping, *signs = tensors
            taken = set(slot_mapping.tolist())
            free = next(slot for slot in range(10**6) if slot not in taken)
            super().cache_store(variant, key, value, cache, slot_mapping.where(slot_mapping >= 0, free), *signs)

    assert not checks.run(subject("store"), StoreCase(tokens=4, skipped=0), 1, Wrong()).problems
    found = checks.run(subject("store"), StoreCase(tokens=4, skipped=1), 1, Wrong()).problems
    assert "slots that are not stored to" in found[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: touch(x, (0, 0, 0), float(x[0, 0, 0]) + 1),
        lambda x: x[2, 2].copy_(x[2, 1]),
        lambda x: x.copy_(x.nan_to_num()),
    ],
)
def test_a_wrong_rotation_fails(change: Callable[[Tensor], object], subject: SubjectMaker) -> None:
    assert checks.run(subject("rotate"), RotateCase(values="edges"), 1, after_rotate(change)).problems


def test_the_last_bit_of_a_rotation_counts(subject: SubjectMaker) -> None:
    wrong = after_rotate(lambda x: x.view(torch.int16)[1, 1, 5:6].bitwise_xor_(1))
    assert checks.run(subject("rotate"), RotateCase(), 1, wrong).problems


@pytest.mark.parametrize(
    "change",
    [
        lambda out: out.mul_(1.004),
        lambda out: touch(out, (0, 0, 3), float(out[0, 0, 3]) + 2e-2),
        lambda out: out[1].neg_(),  # the query without tokens: -0
        lambda out: touch(out, (2, 1, 0), float("nan")),
    ],
)
def test_a_wrong_merge_fails(change: Callable[[Tensor], object], subject: SubjectMaker) -> None:
    assert checks.run(subject("reduce"), ReduceCase(), 1, after_reduce(change)).problems


CASE = DecodeCase(lengths=(0, 17, 40, 5), splits=3, kv_heads=2, values="poison")


@pytest.mark.parametrize(
    "change",
    [
        lambda a: replace(a, q_to_klen=(a.q_to_klen - 1).clamp(min=1)),  # the newest token is not seen
        lambda a: replace(a, q_to_klen=a.q_to_klen.where(a.q_to_klen != 14, 15)),  # a token that it may not see
        lambda a: replace(a, sm_scale=a.sm_scale * 1.001),
        lambda a: replace(a, q_to_req=a.q_to_req.where(a.q_to_req != 3, 1)),
        lambda a: replace(a, k_signs=a.k_signs ^ 1),
        lambda a: replace(a, v_signs=a.v_signs ^ 1),
        lambda a: replace(a, query=a.query.flip(1)),
    ],
)
def test_a_wrong_attention_fails(change: Callable[[Attention], Attention], subject: SubjectMaker) -> None:
    assert checks.run(subject("decode"), CASE, 1, before_decode(change)).problems


@pytest.mark.parametrize("which", ["k_signs", "v_signs"])
def test_signs_that_are_not_those_of_the_call_fail(which: str, subject: SubjectMaker, right: Right) -> None:
    case = replace(CASE, signs="random")
    assert not checks.run(subject("decode"), case, 1, right).problems
    wrong = before_decode(lambda a: replace(a, **{which: sign_tensor(64)}))
    assert checks.run(subject("decode"), case, 1, wrong).problems


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda mid_o: touch(mid_o, (0, 0, 0, -2), -1e30), "maximum and sum"),
        (lambda mid_o: touch(mid_o, (4, 0, 2, -1), 1e-30), "maximum and sum"),
        (lambda mid_o: mid_o[-1, 0, 0, :-1].mul_(1.0001), "partials"),
        (lambda mid_o: mid_o[..., :-2].neg_(), "partials"),
    ],
)
def test_wrong_partials_fail(change: Callable[[Tensor], object], what: str, subject: SubjectMaker) -> None:
    problems = checks.run(subject("decode"), CASE, 1, between(change)).problems
    assert problems[0].startswith(what)


@pytest.mark.parametrize(
    "change",
    [
        lambda out: out.mul_(1.004),
        lambda out: out[0].fill_(-0.0),  # a padding row
        lambda out: touch(out, (-1, 3, 0), float("nan")),
        lambda out: out.copy_(out.nan_to_num()),  # a row that sees a NaN must not hide it
    ],
)
def test_wrong_outputs_fail(change: Callable[[Tensor], object], subject: SubjectMaker) -> None:
    assert checks.run(subject("decode"), CASE, 1, after_reduce(change)).problems


def test_an_inverse_rotation_left_out_fails(subject: SubjectMaker) -> None:
    wrong = after_reduce(lambda out: out.copy_(rotate_inverse(out.float(), 64)))
    assert checks.run(subject("decode"), DecodeCase(), 1, wrong).problems


def test_a_query_form_that_is_too_coarse_breaks_the_bound_of_the_exact_query(subject: SubjectMaker) -> None:
    def coarse(a: Attention) -> Attention:
        return replace(a, query=(a.query * 4).round() / 4)

    problems = checks.run(subject("decode"), DecodeCase(lengths=(40,)), 1, before_decode(coarse)).problems
    assert any(problem.startswith("exact query") for problem in problems)


def test_without_a_reduce_the_partials_alone_are_checked(subject: SubjectMaker, right: Right) -> None:
    alone = subject("decode", with_reduce=False)
    measured = checks.run(alone, CASE, 1, right)
    assert not measured.problems
    assert [name.split(",")[0] for name in measured.errors] == ["partials", "exact query"]
    assert checks.run(alone, CASE, 1, before_decode(lambda a: replace(a, sm_scale=a.sm_scale * 1.001))).problems


def test_what_an_executor_reports_is_a_failure_of_the_case(subject: SubjectMaker) -> None:
    class Faulty(Right):
        def rotate(self, *arguments: Any) -> None:
            raise OctaveError("access outside any buffer", where="rotate", hint="see there")

    failure = checks.check(subject("rotate"), FULL["rotate"], 3, Faulty()).failure
    assert failure is not None
    assert failure.problems == ("rotate: access outside any buffer\n  hint: see there",)
    assert failure.case == RotateCase(tokens=1, heads=1)


def test_a_failing_case_is_made_as_small_as_it_can_be(subject: SubjectMaker) -> None:
    """Wrong for tokens behind the first 32 of a request, in the second kv head alone."""

    class Wrong(Right):
        def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
            super().decode(variant, None, arguments)
            wrong = arguments.q_to_klen > 32
            arguments.mid_o[wrong, 2:, :, :-2] *= 1.5
            assert merge is not None
            self.reduce(merge, arguments.mid_o, arguments.out, arguments.v_signs, arguments.num_kv_splits)

    checked = checks.check(subject("decode"), FULL["decode"], 7, Wrong(), seconds=30)
    assert checked.failure is not None
    assert checked.failure.case == DecodeCase(lengths=(33,), kv_heads=2)
    assert checked.cases == FULL["decode"][:1]
    again = checks.run(subject("decode"), checked.failure.case, 7, Wrong())
    assert again.problems == checked.failure.problems


def test_no_time_to_shrink_leaves_the_case_as_it_was(subject: SubjectMaker) -> None:
    wrong = after_rotate(lambda x: x.zero_())
    failure = checks.check(subject("rotate"), FULL["rotate"], 3, wrong, seconds=0).failure
    assert failure is not None
    assert failure.case == FULL["rotate"][0]
