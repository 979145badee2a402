"""prefill: partials of the packed prefixes and the output behind them; and the chunk kernel on synthetic partials.

Compared with the prefix tier's own form of the query, tightly, and for N(0, 1) inputs with the exact query, by the
Frobenius norm. Rows that see a token that is not finite are not finite, all others are. Splits without a token, and
rows of padding, are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from octave_gen.formats.octave.codec import dequantize
from octave_gen.kernels.base import Accuracy
from octave_gen.kernels.splits import workspace_shape
from octave_gen.reference.attention import LOG2_E, merge_partials
from octave_gen.reference.paged import QueryRow, gather_slots
from octave_gen.reference.prefill import attend_chunk, prefix_partials, rounded
from octave_gen.reference.query import QueryMode, prepare_rotated
from octave_gen.verify.cases import ChunkCase, PrefixCase
from octave_gen.verify.chunks import Chunks, make_chunks, make_partials, make_prefixes, marked, used_splits
from octave_gen.verify.compare import EPSILON, Measured, astray, at_least, frobenius_near, rows_near, same_bits
from octave_gen.verify.inputs import place, place_pair
from octave_gen.verify.operators import Chunked, Executor, Prefill
from octave_gen.verify.subject import Subject

PARTIALS = "partials, share of the allowance"
WEIGHTS = "log2 of the partials' weight, share of the allowance"
OUTPUT = "output, share of the allowance"
EXACT = "exact query, relative error over all rows"
EXACT_CHUNK = "chunk alone, relative error over all rows"
CHUNK_BOUND = 2e-3
BOUNDS = {1: 1e-2, 2: 2e-2, 3: 2e-2}
"""Relative errors of the whole output, by the scale of q and k."""

Sizes = tuple[Tensor, Tensor, Tensor]
"""fp64 [tokens, heads] each: of a row's prefix the largest |q| |k| (a score's size, in log2 units), the largest |v|,
and how far its softmax may go `astray`; 0 without a prefix."""

_UNTOUCHED = 7.0
_LEAST_SUM = 1 - 2.0**-8


def check_prefix(subject: Subject, case: PrefixCase, seed: int, executor: Executor) -> Measured:
    """Runs both kernels (the prefix's alone without the other) and compares."""
    batch, accuracy = make_chunks(subject, case, seed), subject.accuracy
    table, cache = make_prefixes(subject, case, seed)
    tokens, heads, head = batch.q.shape
    workspace = workspace_shape(tokens, heads, case.splits, head)
    given = Prefill(
        **_placed(batch, case),
        partials=place(torch.full(workspace, torch.nan), case.memory),
        cache=place(cache, case.memory, order=(0, 2, 1), pad=12, dims=2),
        block_table=place(table, "strided" if case.memory == "strided" else "dense"),
    )
    executor.prefill(subject.variant, subject.merge, given)

    def partials(mode: QueryMode, dtype: torch.dtype) -> Tensor:
        maps = (table, batch.cu_seqlens_q, batch.seq_lens)
        lengths = batch.seq_lens.tolist()
        return prefix_partials(batch.q, cache, *maps, subject.layout, given.sm_scale, 1, lengths, mode, dtype)

    exact, single = (partials(accuracy.query_mode, dtype) for dtype in (torch.float64, torch.float32))
    found = given.partials.clone()
    sizes = _sizes_of_prefixes(batch, subject, table, cache, given.sm_scale)
    measured = [
        _untouched_splits(found, batch),
        _partials_near(found, exact, single, batch, accuracy, sizes),
    ]
    if subject.merge is not None:
        measured.append(_output_near(given.out, batch, given, (exact, single), subject, sizes))
        if case.values == "gaussian":
            measured.append(_norm_near(given.out, batch, given, partials("exact", torch.float64), case))
    return Measured.of(measured)


def check_chunk(subject: Subject, case: ChunkCase, seed: int, executor: Executor) -> Measured:
    """Runs the chunk kernel and compares."""
    batch = make_chunks(subject, case, seed)
    partials = make_partials(subject, case, batch, seed)
    given = Chunked(**_placed(batch, case), partials=place(partials, case.memory))
    executor.prefill_chunk(subject.variant, given)
    before = marked(partials, batch)
    sizes = _sizes_of_partials(before)
    measured = _output_near(given.out, batch, given, (before.double(), before), subject, sizes)
    return measured.joined(_norm_near(given.out, batch, given, before, None)) if case.values == "gaussian" else measured


def _placed(batch: Chunks, case: ChunkCase) -> dict[str, Any]:
    """What both kernels are given, in memory: rows of 16 bytes, strides of 8 elements."""
    k, v = place_pair(batch.k, batch.v, case.memory, pad=8)
    return {
        "q": place(batch.q, case.memory, order=(1, 0), pad=8),
        "k": k,
        "v": v,
        "out": place(torch.full_like(batch.q, _UNTOUCHED), case.memory, pad=8),
        "cu_seqlens_q": place(batch.cu_seqlens_q, "dense"),
        "seq_lens": place(batch.seq_lens, "dense"),
        "max_query_len": max(new for _, new in case.requests),
        "sm_scale": batch.q.shape[-1] ** -0.5,
        "num_kv_splits": case.splits,
    }


def _untouched_splits(partials: Tensor, batch: Chunks) -> Measured:
    rest = partials.clone()
    for chunk in batch.requests:
        rest[chunk.tokens, :, : used_splits(chunk.prefix, partials.shape[2])] = torch.nan
    return same_bits("splits without tokens", rest, torch.full_like(rest, torch.nan))


def _partials_near(
    found: Tensor,
    exact: Tensor,
    single: Tensor,
    batch: Chunks,
    accuracy: Accuracy,
    sizes: Sizes,
) -> Measured:
    """The merge of the splits and the logarithm of its weight, of the rows that have a prefix; and that the maximum of
    a split is no higher than its scores, because the chunk's weights, which are measured by it, may be fp16."""
    rows = torch.cat([torch.arange(c.start, c.end) for c in batch.requests if c.prefix] or [torch.arange(0)])
    three = [x[rows].double() for x in (marked(found, batch), exact, single)]
    slack = _slack((accuracy,), *sizes)[rows]
    merged, wanted, same = (merge_partials(x, x.shape[-1] - 2, torch.float64)[0] for x in three)
    near = rows_near(PARTIALS, _one_nan(merged), wanted, _one_nan(same), slack)
    merged, wanted, same = (_log2_of_weight(x) for x in three)
    slack = LOG2_E * _slack((accuracy,), sizes[0], torch.ones_like(sizes[1]), None)[rows]
    near = near.joined(rows_near(WEIGHTS, _one_nan(merged), wanted, _one_nan(same), slack))
    maxima, sums = three[0][..., -2], three[0][..., -1]
    sums = sums.where(maxima != -torch.inf, 1.0)  # not those without tokens
    return near.joined(at_least("sums of partials", sums, _LEAST_SUM))


def _log2_of_weight(partials: Tensor) -> Tensor:
    """[rows, heads, 1]: log2 of the sum of 2^score over all splits."""
    maxima, sums = partials[..., -2], partials[..., -1]
    largest = maxima.amax(-1, keepdim=True)
    return largest + (torch.exp2(maxima - largest) * sums).sum(-1, keepdim=True).log2()


def _output_near(
    out: Tensor,
    batch: Chunks,
    given: Chunked,
    partials: tuple[Tensor, Tensor],
    subject: Subject,
    sizes: Sizes,
) -> Measured:
    """``partials``: of the reference in fp64 and in fp32. Finite outputs beyond the dtype's range saturate."""
    vectors = (batch.q, batch.k, batch.v)
    maps = (batch.cu_seqlens_q, batch.seq_lens, given.sm_scale)
    exact, single = (attend_chunk(*vectors, x, *maps, x.dtype) for x in partials)
    same = rounded(single, out.dtype)
    exact = exact.where(~single.isfinite(), exact.clamp(*(torch.finfo(out.dtype).max * s for s in (-1, 1))))
    own = _sizes_of_chunks(batch, given.sm_scale)
    scores, values = (torch.maximum(one, other) for one, other in zip(sizes[:2], own, strict=True))
    between = _astray_between(batch, partials[0], given.sm_scale, _score_error(subject.accuracies, scores))
    half_unit = torch.finfo(out.dtype).eps / 2
    slack = _slack(subject.accuracies, scores, values, sizes[2] + between + half_unit)
    rows = slice(batch.tokens)
    padding = out[batch.tokens :].clone()
    near = rows_near(OUTPUT, _one_nan(out[rows]), exact[rows], _one_nan(same[rows]), slack[rows])
    return near.joined(same_bits("rows of padding", padding, torch.full_like(padding, _UNTOUCHED)))


def _norm_near(out: Tensor, batch: Chunks, given: Chunked, partials: Tensor, case: PrefixCase | None) -> Measured:
    """``case``: of a prefix; None where the chunk's part alone is not exact."""
    vectors, maps = (batch.q, batch.k, batch.v), (batch.cu_seqlens_q, batch.seq_lens)
    exact = attend_chunk(*vectors, partials, *maps, given.sm_scale, torch.float64)
    rows = slice(batch.tokens)
    if case is None or not any(chunk.prefix for chunk in batch.requests):
        return frobenius_near(EXACT_CHUNK, out[rows], exact[rows], CHUNK_BOUND)
    if case.scale not in BOUNDS:
        return Measured()
    return frobenius_near(EXACT, out[rows], exact[rows], BOUNDS[case.scale])


def _one_nan(x: Tensor) -> Tensor:
    """What is not finite as NaN: which one a row gets depends on the order of the sums."""
    return x.where(x.isfinite(), torch.nan)


def _score_error(accuracies: Sequence[Accuracy], scores: Tensor) -> Tensor:
    """What rounding may change in scores of this size."""
    return EPSILON * max(one.score_rounding for one in accuracies) * scores


def _slack(accuracies: Sequence[Accuracy], scores: Tensor, values: Tensor, moved: Tensor | None) -> Tensor:
    """fp64 [tokens, heads, 1]: what rounding may change: EPSILON (rounding + score_rounding |q| |k|) |v|, the largest
    of each that a row sees. moved: `astray` of the row, which bounds the scores' part."""
    error = _score_error(accuracies, scores)
    share = error if moved is None else torch.minimum(error, moved)
    return ((EPSILON * max(one.rounding for one in accuracies) + share) * values).unsqueeze(-1)


def _astray_between(batch: Chunks, partials: Tensor, scale: float, error: Tensor) -> Tensor:
    """[tokens, heads]: `astray` between the marked partials of the prefix, each taken as one token, and the chunk's
    tokens."""
    before = partials[..., -2] + partials[..., -1].log2()
    moved = torch.zeros_like(error)
    for chunk in batch.requests:
        q, k = batch.q[chunk.tokens].double(), batch.k[chunk.tokens].double()
        group = q.shape[1] // k.shape[1]
        scores = torch.einsum("ihd,jhd->hij", q, k.repeat_interleave(group, dim=1)) * (scale * LOG2_E)
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf).transpose(0, 1)
        moved[chunk.tokens] = astray(torch.cat([before[chunk.tokens], scores], dim=-1), error[chunk.tokens])
    return moved


def _sizes_of_prefixes(batch: Chunks, subject: Subject, table: Tensor, cache: Tensor, scale: float) -> Sizes:
    scores, values, moved = torch.zeros(3, *batch.q.shape[:2], dtype=torch.float64)
    lengths = batch.q.double().norm(dim=-1) * (scale * LOG2_E)
    for chunk in batch.requests:
        if chunk.prefix:
            slots = gather_slots(cache, table, QueryRow(chunk.start, chunk.request, chunk.prefix))
            k, v = dequantize(slots, subject.layout, torch.float64)
            group = lengths.shape[1] // k.shape[1]
            scores[chunk.tokens] = lengths[chunk.tokens] * k.norm(dim=-1).amax(0).repeat_interleave(group)
            values[chunk.tokens] = v.abs().amax((0, 2)).repeat_interleave(group)
            query = prepare_rotated(batch.q[chunk.tokens], subject.accuracy.query_mode, torch.float64)
            each = torch.einsum("ihd,thd->iht", query, k.repeat_interleave(group, dim=1)) * (scale * LOG2_E)
            moved[chunk.tokens] = astray(each, _score_error((subject.accuracy,), scores[chunk.tokens]))
    return scores, values, moved


def _sizes_of_chunks(batch: Chunks, scale: float) -> tuple[Tensor, Tensor]:
    """The first two of the chunk's tokens that a row sees, as far as they are finite."""
    scores, values = torch.zeros(2, *batch.q.shape[:2], dtype=torch.float64)
    q, k, v = (x.double().nan_to_num(0.0, 0.0, 0.0) for x in (batch.q, batch.k, batch.v))
    group = q.shape[1] // k.shape[1]
    for chunk in batch.requests:
        keys, largest = (
            x[chunk.tokens].cummax(0).values.repeat_interleave(group, dim=1) for x in (k.norm(dim=-1), v.abs().amax(-1))
        )
        scores[chunk.tokens] = q[chunk.tokens].norm(dim=-1) * keys * (scale * LOG2_E)
        values[chunk.tokens] = largest
    return scores, values


def _sizes_of_partials(partials: Tensor) -> Sizes:
    """The same of marked partials, which nothing moves. A maximum below zero counts only beside scores that are as low,
    which count too."""
    full = partials[..., -1] > 0
    scores = partials[..., -2].double().where(full, 0.0).amax(-1).clamp(min=0)
    means = (partials[..., :-2].double().abs().amax(-1) / partials[..., -1]).where(full, 0.0)
    return scores, means.amax(-1), torch.zeros_like(scores)
