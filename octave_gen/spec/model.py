"""A checked spec as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from octave_gen.kernels import KINDS


@dataclass(frozen=True)
class Budget:
    """Upper bounds on a code object's resources, and a lower bound on its occupancy.

    vgprs, agprs, sgprs: registers per lane (vgprs contains the AGPRs where the chip unifies them); lds_bytes: static
    LDS of a workgroup; occupancy: waves per SIMD at least; spills and scratch_bytes: at most, 0 unless a spec says
    otherwise.
    """

    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    occupancy: int
    vgpr_spills: int = 0
    sgpr_spills: int = 0
    scratch_bytes: int = 0


@dataclass(frozen=True)
class CountedBudget:
    """Upper bounds on what a kernel executes for one unit of work; None where there is none.

    valu: vector arithmetic instructions of waves; clocks: of a compute unit, as the issue model counts them: the larger
    of VALU and matrix work one after the other, and LDS.
    """

    valu: float | None = None
    clocks: float | None = None


UNCOUNTED = CountedBudget()


@dataclass(frozen=True)
class BudgetRule:
    """A budget and the variants it is for; an empty selector selects every value."""

    kernel: str
    arch: str
    budget: Budget
    gqa_groups: tuple[int, ...] = ()
    query_groups: tuple[int, ...] = ()
    cache_dtypes: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    counted: CountedBudget = UNCOUNTED
    tiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Spec:
    """One spec file: what to build. ``source`` is the label that reports and the manifest show.

    kernels: the kinds that it asks for.
    """

    source: str
    family: str
    cache_dtypes: tuple[str, ...]
    encoders: tuple[str, ...]
    head_size: int
    rotary_dims: int
    gqa_groups: tuple[int, ...]
    query_groups: tuple[int, ...]
    query_dtypes: tuple[str, ...]
    archs: tuple[str, ...]
    budgets: tuple[BudgetRule, ...]
    kernels: tuple[str, ...] = tuple(KINDS)
