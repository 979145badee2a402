"""Paired differences of losses, with their standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from octave_gen.errors import OctaveError


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error, which is None for a single observation."""

    value: float
    error: float | None
    count: int


def mean(values: Sequence[float]) -> Mean:
    """The mean of independent observations; its standard error is sqrt(sum (x - mean)**2 / (n (n - 1)))."""
    if not values:
        raise OctaveError("there is nothing to average")
    count = len(values)
    value = math.fsum(values) / count
    if count == 1:
        return Mean(value, None, 1)
    squares = math.fsum((x - value) ** 2 for x in values)
    return Mean(value, math.sqrt(squares / (count * (count - 1))), count)


def added(measured: Sequence[float], base: Sequence[float]) -> Mean:
    """Mean of measured - base, paired one by one: what windows have in common (easy text, hard text) cancels out."""
    if len(measured) != len(base):
        raise OctaveError(f"{len(measured)} losses cannot be paired with {len(base)}")
    return mean([x - y for x, y in zip(measured, base, strict=True)])
