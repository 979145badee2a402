"""reduce on synthetic partials: the merge of the KV splits, empty ones among them, and the rotation of the output."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from octave_gen.formats.octave.layout import BLOCK_DIMS, FMTS, SlotLayout
from octave_gen.kernels.splits import workspace_shape
from octave_gen.reference.attention import reduce_partials
from octave_gen.verify.cases import ReduceCase
from octave_gen.verify.compare import EPSILON, Measured, rows_near, zero_rows
from octave_gen.verify.inputs import gaussian, generator, place, signs
from octave_gen.verify.operators import Executor
from octave_gen.verify.subject import Subject

OUTPUT = "output, share of the allowance"
_LOG2_SCORES = 20.0
_OUT_OF = 5


def check(subject: Subject, case: ReduceCase, seed: int, executor: Executor) -> Measured:
    """Runs the case and compares."""
    head = subject.head_size
    partials, empty = _partials(case, seed, head)
    v_signs = signs(seed, "v_signs", head, case.signs)
    mid_o = place(partials, case.memory)
    out = place(torch.full((case.queries, case.heads, head), torch.nan, dtype=subject.dtype), case.memory)
    executor.reduce(subject.variant, mid_o, out, v_signs, case.splits)
    return merged_near(OUTPUT, out, partials, v_signs, subject).joined(zero_rows("rows without tokens", out[empty]))


def merged_near(what: str, out: Tensor, partials: Tensor, v_signs: Tensor, subject: Subject) -> Measured:
    """``out`` against the merge of ``partials`` by the reference."""
    layout = SlotLayout.of(subject.head_size, BLOCK_DIMS, FMTS[0])  # any of this head size: V is rotated alike in all
    exact = reduce_partials(partials, layout, torch.float64, v_signs)
    same = reduce_partials(partials, layout, torch.float32, v_signs).to(subject.dtype)
    return rows_near(what, out, exact, same, merge_slack(partials, subject.accuracy.rounding))


def merge_slack(partials: Tensor, rounding: float) -> Tensor:
    """[queries, heads, 1] fp64: what rounding in fp32 may change of a row: relative to the largest value of a split.

    exp2 of two maxima that lie d apart has a relative error of about d halves of a unit in the last place.
    """
    head = partials.shape[-1] - 2
    values, largest, total = partials[..., :head].double(), partials[..., head].double(), partials[..., head + 1]
    full = total > 0
    means = values.abs().amax(-1).div(total).where(full, torch.zeros(()).double())
    spread = (largest.where(full, -math.inf).amax(-1) - largest.where(full, math.inf).amin(-1)).clamp(min=0)
    return (EPSILON * (rounding + spread) * means.amax(-1)).unsqueeze(-1)


def _partials(case: ReduceCase, seed: int, head: int) -> tuple[Tensor, Tensor]:
    """fp32 [queries, heads, splits, head + 2] and bool [queries, heads]: whose splits are all empty.

    The splits of the second query are all empty; an empty one has NaN outputs.
    """
    shape = workspace_shape(case.queries, case.heads, case.splits, head)
    source = generator(seed, "partials")
    made = gaussian(seed, "mid_o", shape, torch.float32)
    made[..., head] *= _LOG2_SCORES
    made[..., head + 1] = torch.rand(shape[:-1], generator=source) * 15 + 1
    made[..., :head] *= made[..., head + 1 :]
    empty = torch.rand(shape[:-1], generator=source) < case.empty / _OUT_OF
    empty[1:2] = case.empty > 0
    made[..., :head][empty] = torch.nan
    made[..., head][empty] = -math.inf
    made[..., head + 1][empty] = 0.0
    return made, empty.all(-1)
