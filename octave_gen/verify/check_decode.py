"""decode, with the reduce behind it: partials and output against paged attention in fp64.

Compared with the tier's own form of the query, tightly, and for N(0, 1) inputs with the exact query, by the tier's
bound. Padding rows are +0, splits without a token are (-inf, 0).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from octave_gen.formats.octave.codec import dequantize
from octave_gen.formats.octave.rotation import rotate_inverse
from octave_gen.kernels.splits import tokens_per_split, workspace_shape
from octave_gen.reference.attention import LOG2_E, decode, reduce_partials
from octave_gen.reference.paged import gather_slots, visible_rows
from octave_gen.reference.query import QueryMode, prepare_query
from octave_gen.verify.batch import Batch, make_batch
from octave_gen.verify.cases import DecodeCase
from octave_gen.verify.check_reduce import OUTPUT
from octave_gen.verify.compare import EPSILON, Measured, astray, rows_near, rows_near_exact_query, same_bits, zero_rows
from octave_gen.verify.inputs import place
from octave_gen.verify.operators import Attention, Executor
from octave_gen.verify.subject import Subject

PARTIALS = "partials, share of the allowance"
EXACT = "exact query, share of the row's largest output"
BEYOND = "rows beyond the bound of the exact query"


def check(subject: Subject, case: DecodeCase, seed: int, executor: Executor) -> Measured:
    """Runs the case and compares."""
    batch = make_batch(subject, case, seed)
    arguments = _placed(batch, subject, case)
    executor.decode(subject.variant, subject.merge, arguments)
    return _compare(batch, arguments, subject, case)


def _placed(batch: Batch, subject: Subject, case: DecodeCase) -> Attention:
    head, queries, heads = subject.head_size, *batch.query.shape[:2]
    return Attention(
        out=place(torch.full_like(batch.query, torch.nan), case.memory),
        query=place(batch.query, case.memory),
        cache=place(batch.cache, case.memory, order=(0, 2, 1), pad=12, dims=2),
        block_table=place(batch.block_table, "strided" if case.memory == "strided" else "dense"),
        q_to_req=place(batch.q_to_req, "dense"),
        q_to_klen=place(batch.q_to_klen, "dense"),
        mid_o=place(torch.full(workspace_shape(queries, heads, case.splits, head), torch.nan), case.memory),
        k_signs=batch.k_signs,
        v_signs=batch.v_signs,
        sm_scale=head**-0.5,
        num_kv_splits=case.splits,
        group_starts=None if batch.group_starts is None else place(batch.group_starts, "dense"),
    )


def _compare(batch: Batch, arguments: Attention, subject: Subject, case: DecodeCase) -> Measured:
    layout, accuracy = subject.layout, subject.accuracy

    def reference(query_mode: QueryMode, dtype: torch.dtype) -> Tensor:
        maps = (batch.block_table, batch.q_to_req, batch.q_to_klen)
        scale, signs = arguments.sm_scale, (batch.k_signs, batch.v_signs)
        return decode(batch.query, batch.cache, *maps, layout, scale, query_mode, dtype, *signs)

    exact, single = (reference(accuracy.query_mode, dtype) for dtype in (torch.float64, torch.float32))
    slack, slack_of_output = _slack(batch, subject, arguments.sm_scale)
    partials = arguments.mid_o.clone()
    merged = reduce_partials(partials, layout, torch.float64, batch.v_signs)
    measured = [_empty_splits(partials, batch, case.splits), rows_near(PARTIALS, merged, exact, single, slack)]
    if subject.merge is not None:
        out = arguments.out.clone()
        measured.append(rows_near(OUTPUT, out, exact, single.to(subject.dtype), slack_of_output))
        measured.append(zero_rows("padding rows", out[batch.padding]))
    if case.values != "edges" and case.scale == 1:
        rows = ~batch.padding & exact.isfinite().all(-1).all(-1)
        wanted = reference("exact", torch.float64)[rows]
        measured.append(rows_near_exact_query(EXACT, BEYOND, merged[rows], wanted, accuracy.exact_bound))
    return Measured.of(measured)


def _empty_splits(partials: Tensor, batch: Batch, splits: int) -> Measured:
    """Splits in which no row of a query has a token say so: maximum -inf, sum 0."""
    empty = torch.ones(len(batch.rows), splits, dtype=torch.bool)
    for row in visible_rows(batch.q_to_req, batch.q_to_klen, batch.block_table.shape[0]):
        empty[row.index, : -(-row.klen // tokens_per_split(row.klen, splits))] = False
    marks = partials.transpose(1, 2)[empty][..., -2:]
    wanted = torch.tensor([-math.inf, 0.0]).expand(marks.shape)
    return same_bits("maximum and sum of splits without tokens", marks, wanted)


def _slack(batch: Batch, subject: Subject, scale: float) -> tuple[Tensor, Tensor]:
    """fp64 [rows, heads, 1], of partials and of the output: what rounding may change, EPSILON (rounding +
    score_rounding |score|) |v|, the largest of each that the row sees, scores in log2 units. Where one score leads all
    others its rounding changes nothing, and the result is one V, rotated back: EPSILON rounding |V|, and half a unit
    of the output's dtype."""
    layout, accuracy = subject.layout, subject.accuracy
    prepared = prepare_query(batch.query, layout, accuracy.query_mode, torch.float64, batch.k_signs)
    slack, slack_of_output = torch.zeros(2, *batch.query.shape[:2], 1, dtype=torch.float64)
    rounding, half_unit = EPSILON * accuracy.rounding, torch.finfo(subject.dtype).eps / 2
    for row in visible_rows(batch.q_to_req, batch.q_to_klen, batch.block_table.shape[0]):
        k, v = dequantize(gather_slots(batch.cache, batch.block_table, row), layout, torch.float64)
        query = prepared[row.index].reshape(k.shape[1], -1, k.shape[2])
        scores = torch.einsum("hgd,thd->hgt", query, k) * (scale * LOG2_E)
        error = EPSILON * accuracy.score_rounding * scores.abs().amax(-1)
        moved = astray(scores, error)
        largest, of_one = (
            x.abs().amax((0, 2)).unsqueeze(1) for x in (v, rotate_inverse(v, layout.v_block_size, batch.v_signs))
        )
        for made, unit in ((slack, 0.0), (slack_of_output, half_unit)):
            bound = torch.minimum((rounding + error) * largest, (rounding + moved + unit) * of_one)
            made[row.index, :, 0] = bound.flatten()
    return slack, slack_of_output
