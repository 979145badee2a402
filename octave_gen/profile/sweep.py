"""The choice of KV splits against all others: ``python -m octave_gen.profile.sweep [--arch ARCH] [--tier TIER] …``.

Every count from 1 to the largest useful one, with every number of waves that the variant has a kernel for, is put
through the model of ``kernels/split_model``, for contexts and batches, and compared with what the policy takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from octave_gen.formats import CACHE_DTYPES, FAMILIES
from octave_gen.kernels.launch_costs import LaunchCosts
from octave_gen.kernels.split_model import Problem
from octave_gen.kernels.split_policy import decode_problem
from octave_gen.kernels.splits import MAX_KV_SPLITS, SPLIT_GRANULE

CONTEXTS = (1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 380000)
BATCHES = (1, 4, 16, 64)
DEFAULT_SPLITS = 32

# The public kernels for head 256, group 6, one query, k3v4: a wave for each split, counted by the same model from their
# code objects (prologue: about 2000 vector instructions; the merge: a wave for each row, a split after the other).
PUBLIC = {
    "gfx942": LaunchCosts("decode", "gfx942", "public", 256, "octave_k3v4", 6, 1, 2, 16, 2000, 445, 12000, 2620),
    "gfx1100": LaunchCosts("decode", "gfx1100", "public", 256, "octave_k3v4", 6, 1, 5, 16, 500, 627, 7000, 4780),
}
PUBLIC_MERGE = {
    "gfx942": LaunchCosts("reduce", "gfx942", "public", 256, "*", 4, 4, 8, 1, 1000, 52, 4868, 2135),
    "gfx1100": LaunchCosts("reduce", "gfx1100", "public", 256, "*", 4, 4, 16, 1, 300, 19, 4000, 2135),
}


@dataclass(frozen=True)
class Choice:
    """KV splits, each of a workgroup with so many waves."""

    splits: int
    waves: int


@dataclass(frozen=True)
class Row:
    """One decode. best: the choice with the least time of all; share: of the HBM roofline, K and V read once."""

    context: int
    batch: int
    chosen: Choice
    best: Choice
    ratio: float
    share: float
    share_at_default: float
    share_of_public: float | None


def best_of_all(problem: Problem) -> tuple[Choice, float]:
    """The choice with the least time among all that give a split a tile, whatever the launch takes, and its time."""
    most = max(1, min(MAX_KV_SPLITS, -(-problem.context // SPLIT_GRANULE)))
    choices = product(problem.kernels, range(1, most + 1))
    clocks, waves, splits = min((problem.clocks_with(one, splits), one.waves, splits) for one, splits in choices)
    return Choice(splits, waves), clocks


def share(problem: Problem, splits: int) -> float:
    """Of the HBM roofline, of decode and reduce together."""
    return problem.kv_bytes / problem.chip.bytes_per_clock / problem.clocks(splits)


def compare(problem: Problem, batch: int) -> Row:
    chosen, (best, least) = problem.best(), best_of_all(problem)
    public = PUBLIC.get(problem.attend.arch)
    theirs = None
    if public is not None and problem.attend.rows == public.rows and problem.attend.head_size == public.head_size:
        merge = PUBLIC_MERGE[public.arch]
        rows = -(-problem.vectors // 4)
        theirs = share(replace(problem, attend=public, wide=None, merge=merge, vectors=rows), DEFAULT_SPLITS)
    return Row(
        problem.context,
        batch,
        Choice(chosen, problem.kernel(chosen).waves),
        best,
        problem.clocks(chosen) / least,
        share(problem, chosen),
        share(problem, DEFAULT_SPLITS),
        theirs,
    )


def table(rows: Sequence[Row]) -> str:
    heads = ("context", "batch", "chosen", "best", "ratio", "share", f"share at {DEFAULT_SPLITS}", "public kernel")
    lines: list[tuple[str, ...]] = [heads]
    for row in rows:
        shares = (row.share, row.share_at_default, row.share_of_public)
        words = ("-" if one is None else f"{100 * one:.0f}%" for one in shares)
        choices = (f"{one.splits}x{one.waves}" for one in (row.chosen, row.best))
        lines.append((str(row.context), str(row.batch), *choices, f"{row.ratio:.3f}", *words))
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m octave_gen.profile.sweep", description=__doc__)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--tier", default=None, help="default: the one that decode takes")
    parser.add_argument("--cache-dtype", default="octave_k3v4", choices=list(CACHE_DTYPES))
    parser.add_argument("--head-size", type=int, default=256)
    parser.add_argument("--rotary-dims", type=int, default=64)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--group", type=int, default=6)
    parser.add_argument("--query-group", type=int, default=1)
    given = parser.parse_args(arguments)
    dtype = CACHE_DTYPES[given.cache_dtype]
    slot_bytes = FAMILIES[dtype.family].layout(dtype, given.head_size, given.rotary_dims).slot_bytes
    rows = []
    for context in CONTEXTS:
        for batch in BATCHES:
            problem = decode_problem(
                given.arch,
                batch=batch,
                kv_heads=given.kv_heads,
                q_heads=given.kv_heads * given.group,
                head_size=given.head_size,
                slot_bytes=slot_bytes,
                fmt=dtype.fmt,
                max_context=context,
                query_group=given.query_group,
                tier=given.tier,
            )
            rows.append(compare(problem, batch))
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
