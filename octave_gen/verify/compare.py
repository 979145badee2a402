"""What is compared with what, and how far apart they may be. A comparer returns what it measured and what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import torch
from torch import Tensor

EPSILON = 2.0**-24
"""Half a unit in the last place of an fp32 number in [1, 2)."""


@dataclass(frozen=True)
class Measured:
    """errors: the worst of each kind; counts: of each kind of difference that is allowed; problems: what is wrong."""

    errors: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[Measured]) -> Measured:
        """All parts joined."""
        return reduce(cls.joined, parts, cls())

    def joined(self, other: Measured) -> Measured:
        """Both: the larger errors, the sums of the counts, all problems."""
        errors = {k: max(m.errors[k] for m in (self, other) if k in m.errors) for k in {**self.errors, **other.errors}}
        counts = {k: self.counts.get(k, 0) + other.counts.get(k, 0) for k in {**self.counts, **other.counts}}
        return Measured(errors, counts, (*self.problems, *other.problems))


def same_bits(what: str, found: Tensor, wanted: Tensor) -> Measured:
    """Equal bit for bit; for floats any NaN equals any other."""
    differ = _bits(found) != _bits(wanted)
    if found.dtype.is_floating_point:
        differ &= ~(found.isnan() & wanted.isnan())
    return Measured(problems=_listed(what, differ, found, wanted))


def rows_near(what: str, found: Tensor, exact: Tensor, same: Tensor, slack: Tensor) -> Measured:
    """|found - exact| <= 2 |same - exact| + slack, element by element.

    exact: the reference in fp64; same: the reference computed in fp32 and rounded to the dtype of found; slack: fp64,
    broadcast over the rows. A NaN or an overflow of ``same`` must be one of ``found`` too, unless what is allowed lies
    on both sides of what the dtype rounds to Inf. The error named ``what`` is the largest share of what is
    allowed.
    """
    limit, largest = _overflow(same.dtype), torch.finfo(same.dtype).max
    nearly = same.isinf() & (exact.abs() - slack < limit)
    same = torch.where(nearly, same.clamp(-largest, largest), same)
    certain = ~same.isfinite()
    wrong = certain & ~((found == same) | (found.isnan() & same.isnan()))
    error = (found.double() - exact).abs()
    allowed = 2 * (same.double() - exact).abs() + slack
    overflow = found.isinf() & (found.sign() == exact.sign()) & (exact.abs() + allowed >= limit)
    error = torch.where(overflow, 0.0, error)
    share = torch.where(certain, 0.0, error / allowed)
    share = torch.where((error == 0) & ~certain, 0.0, share)
    wrong |= ~(share <= 1) & ~certain
    worst = float(share.nan_to_num(torch.inf, torch.inf).max()) if share.numel() else 0.0
    return Measured({what: worst}, problems=_listed(what, wrong, found, exact))


def rows_near_exact_query(what: str, beyond: str, found: Tensor, exact: Tensor, bound: float) -> Measured:
    """|found - exact| <= bound * the row's largest |exact|; the error named ``what`` is the largest quotient.

    The bound is one of chance, over N(0, 1) inputs: a row in a thousand (at least one) may reach up to twice as far.
    Those are allowed, and counted under the name ``beyond``.
    """
    quotient = ((found.double() - exact).abs().amax(-1) / exact.abs().amax(-1)).nan_to_num(torch.inf, torch.inf)
    over = quotient > bound
    count = int(over.sum())
    if count <= 1 + quotient.numel() // 1000:
        over = quotient > 2 * bound
    worst = float(quotient.max()) if quotient.numel() else 0.0
    return Measured({what: worst}, {beyond: count}, _listed(what, over, quotient, torch.full_like(quotient, bound)))


def astray(scores: Tensor, error: Tensor) -> Tensor:
    """Bounds how far a softmax over ``scores`` [..., n], log2 units, moves when each of them is off by ``error`` [...]:
    the result moves by at most so much of its largest value. Small where one score leads all others by far more, Inf
    where a score is NaN."""
    leads = scores.amax(-1, keepdim=True) - scores
    others = torch.exp2(4 * error.unsqueeze(-1) - leads).scatter(-1, leads.argmin(-1, keepdim=True), 0.0)
    return 4 * others.sum(-1).nan_to_num(torch.inf, torch.inf)


def frobenius_near(what: str, found: Tensor, exact: Tensor, bound: float) -> Measured:
    """The norm of found - exact is at most bound times that of exact; the error named ``what`` is the quotient."""
    if not exact.numel():
        return Measured()
    quotient = float(((found.double() - exact).norm() / exact.norm()).nan_to_num(torch.inf))
    problems = () if quotient <= bound else (f"{what}: {quotient:.3g}, at most {bound} is allowed",)
    return Measured({what: quotient}, problems=problems)


def at_least(what: str, found: Tensor, bound: float) -> Measured:
    """Every element that is no NaN is at least ``bound``."""
    return Measured(problems=_listed(what, found < bound, found, torch.full_like(found, bound)))


def zero_rows(what: str, rows: Tensor) -> Measured:
    """Every element is +0."""
    return Measured(problems=_listed(what, _bits(rows) != 0, rows, torch.zeros_like(rows)))


def _overflow(dtype: torch.dtype) -> float:
    """The smallest magnitude that rounds to Inf: half a unit in the last place above the largest finite number."""
    largest = torch.finfo(dtype).max
    return largest + math.ldexp(torch.finfo(dtype).eps / 2, math.frexp(largest)[1] - 1)


def _bits(x: Tensor) -> Tensor:
    return x.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def _listed(what: str, wrong: Tensor, found: Tensor, wanted: Tensor) -> tuple[str, ...]:
    """One line: how many elements are wrong, where the first is, what it is and should be."""
    count = int(wrong.sum())
    if not count:
        return ()
    first = tuple(wrong.nonzero()[0].tolist())
    values = f"{_value(found[first])} instead of {_value(wanted[first])}"
    return (f"{what}: {count} of {wrong.numel()} values are wrong, the first at {list(first)}: {values}",)


def _value(x: Tensor) -> str:
    return f"{float(x):.7g}" if x.dtype.is_floating_point else str(int(x))
