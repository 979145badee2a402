"""How many KV splits decode and prefill cut a context into: pure functions of what a launch is given.

They take the count for which :mod:`octave_gen.kernels.split_model` sees the least time. Where a kernel has a second one
for launches of few workgroups, the count decides as well which of them serves, with how many waves for each split.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from octave_gen import arch as archs
from octave_gen.arch import PORTABLE, Arch
from octave_gen.errors import wrong_request
from octave_gen.formats import CACHE_DTYPES, FAMILIES
from octave_gen.kernels import decode, prefill, reduce
from octave_gen.kernels.base import MAX_GRID_YZ, MAX_GROUP, Geometry, KernelKind, Shape, Tier
from octave_gen.kernels.launch_costs import LaunchCosts, launch_costs
from octave_gen.kernels.split_model import Chip, Problem
from octave_gen.kernels.splits import MAX_KV_SPLITS, PARTIAL_EXTRA

Sizes = ParamSpec("Sizes")


def _chip_and_dtype(where: str, arch: str, fmt: int, max_context: int, **counts: int) -> tuple[Arch, str]:
    """The chip, and the cache dtype of ``fmt``; raises OctaveError naming everything that no launch has."""
    chip = archs.get(archs.parse_target_id(arch).arch)
    wrong = [f"{name} {count}" for name, count in counts.items() if not isinstance(count, int) or count < 1]
    if not isinstance(max_context, int) or max_context < 0:
        wrong.append(f"max_context {max_context}")
    if counts.get("query_group", 1) > MAX_GROUP:
        wrong.append(f"query_group {counts['query_group']}")
    if all(isinstance(counts[name], int) and counts[name] >= 1 for name in ("kv_heads", "q_heads")):
        group, rest = divmod(counts["q_heads"], counts["kv_heads"])
        if rest or not 1 <= group <= MAX_GROUP:
            wrong.append(f"{counts['q_heads']} query heads on {counts['kv_heads']} kv heads")
    dtype = next((one for one in CACHE_DTYPES.values() if one.fmt == fmt), None)
    if dtype is None:
        wrong.append(f"fmt {fmt}")
    if wrong or dtype is None:
        raise wrong_request(f"no launch has {', '.join(wrong)}", where=where)
    FAMILIES[dtype.family].layout_of_slot(counts["head_size"], counts["slot_bytes"], fmt)
    return chip, dtype.name


def _tier(where: str, kind: KernelKind, chip: Arch, name: str) -> Tier:
    """The tier of a kind that the chip offers under this name."""
    offered = {tier.name: tier for tier in kind.tiers_on(chip)}
    if name not in offered:
        raise wrong_request(
            f"{chip.name} has no {name} tier of {kind.name}", where=where, hint=f"it has {', '.join(offered)}"
        )
    return offered[name]


def default_tier(chip: Arch, shape: Shape) -> str:
    """The chip's first tier of decode that holds a shape and is not the portable one, or that."""
    for tier in decode.KIND.tiers_on(chip):
        if tier.name != PORTABLE and tier.refuse(shape, chip) is None:
            return tier.name
    return PORTABLE


def _costs(kind: KernelKind, chip: Arch, tier: str, shape: Shape, geometry: Geometry, rows: int) -> LaunchCosts:
    """Of the kernel of a tier that is launched so, with ``rows`` query vectors a workgroup."""
    waves = geometry.threads // chip.wave_size
    return launch_costs(kind.name, chip.name, tier, shape.head_size, shape.cache_dtype or "", rows, waves)


def _least(problem: Callable[Sizes, Problem]) -> Callable[[Callable[[], None]], Callable[Sizes, int]]:
    """Makes what a docstring describes: the number of splits for which ``problem``, with its arguments, takes least."""

    def decorate(described: Callable[[], None]) -> Callable[Sizes, int]:
        @wraps(described)
        def splits(*arguments: Sizes.args, **sizes: Sizes.kwargs) -> int:
            return problem(*arguments, **sizes).best()

        vars(splits)["__wrapped__"] = problem  # whose signature it has
        return splits

    return decorate


def decode_problem(
    arch: str,
    *,
    batch: int,
    kv_heads: int,
    q_heads: int,
    head_size: int,
    slot_bytes: int,
    fmt: int,
    max_context: int,
    query_group: int = 1,
    queries: int | None = None,
    tier: str | None = None,
) -> Problem:
    """What :func:`kv_splits` minimises; its arguments."""
    tokens = query_group if queries is None else queries
    chip, dtype = _chip_and_dtype(
        "kv_splits",
        arch,
        fmt,
        max_context,
        batch=batch,
        kv_heads=kv_heads,
        q_heads=q_heads,
        head_size=head_size,
        slot_bytes=slot_bytes,
        query_group=query_group,
        queries=tokens,
    )
    group = q_heads // kv_heads
    shape = Shape("octave", head_size, "f16", dtype, None, group, query_group)
    kernel = _tier("kv_splits", decode.KIND, chip, tier or default_tier(chip, shape))
    reason = kernel.refuse(shape, chip)
    if reason:
        raise wrong_request(reason, where="kv_splits")
    # A tier may share a group out over several workgroups; those without a query do nothing.
    geometry = kernel.geometry(shape, chip)
    served = geometry.grid[0].per_workgroup
    whole, rest = divmod(tokens, query_group)
    groups = batch * (whole * -(-query_group // served) + -(-rest // served))
    attend, *few = (
        _costs(decode.KIND, chip, kernel.name, shape, one, group * served) for one in geometry.kernels.values()
    )
    merging = reduce.KIND.tier(PORTABLE).geometry(shape, chip)
    return Problem(
        chip=Chip.of(chip),
        attend=attend,
        merge=_costs(reduce.KIND, chip, PORTABLE, shape, merging, 1),
        workgroups=groups * kv_heads,
        vectors=batch * tokens * q_heads,
        context=max_context,
        kv_bytes=groups * kv_heads * max_context * slot_bytes,
        partial_bytes=4 * batch * tokens * q_heads * (head_size + PARTIAL_EXTRA),
        wide=(geometry.wide, few[0]) if geometry.wide else None,
    )


@_least(decode_problem)
def kv_splits() -> None:
    """The number of KV splits for which decode and reduce take the least modelled time, 1 to ``MAX_KV_SPLITS``.

    arch: of the GPU, such as ``gfx942``; batch: requests; slot_bytes, fmt: of the cache; max_context: tokens that no
    request has more of; query_group: as decode gets it; queries: query tokens of a request (default: query_group);
    tier: ``portable``, or the chip's matrix tier (default: that, where it holds the shape). Nothing else decides: the
    same arguments give the same number, and so bitwise the same results. A bound above the contexts costs empty splits
    and changes results within rounding.

    Raises OctaveError for what no decode has, and for a tier that does not hold the shape or was not counted.
    """


def prefix_problem(
    arch: str,
    *,
    batch: int,
    kv_heads: int,
    q_heads: int,
    head_size: int,
    slot_bytes: int,
    fmt: int,
    max_query_len: int,
    max_context: int,
    tier: str | None = None,
) -> Problem:
    """What :func:`prefix_splits` minimises; its arguments. The workgroups of the chunk's kernel merge the partials."""
    chip, dtype = _chip_and_dtype(
        "prefix_splits",
        arch,
        fmt,
        max_context,
        batch=batch,
        kv_heads=kv_heads,
        q_heads=q_heads,
        head_size=head_size,
        slot_bytes=slot_bytes,
        max_query_len=max_query_len,
    )
    kernel = _tier("prefix_splits", prefill.PREFIX, chip, tier or chip.matrix_tier or PORTABLE)
    shape = Shape("octave", head_size, "f16", dtype)
    reason = kernel.refuse(shape, chip)
    if reason:
        raise wrong_request(reason, where="prefix_splits")
    tier = kernel.name
    rows = max_query_len * (q_heads // kv_heads)
    attend, merge = (
        _costs(kind, chip, tier, shape, kind.tier(tier).geometry(shape, chip), 1)
        for kind in (prefill.PREFIX, prefill.CHUNK)
    )
    workgroups = batch * kv_heads * -(-rows // attend.rows)
    return Problem(
        chip=Chip.of(chip),
        attend=attend,
        merge=merge,
        workgroups=workgroups,
        vectors=batch * kv_heads * -(-rows // merge.rows),
        context=max_context,
        kv_bytes=batch * kv_heads * max_context * slot_bytes,
        most=max(1, min(MAX_KV_SPLITS, MAX_GRID_YZ // batch)),
        partial_bytes=4 * batch * kv_heads * rows * (head_size + PARTIAL_EXTRA),
    )


@_least(prefix_problem)
def prefix_splits() -> None:
    """The number of KV splits of the prefix for which prefill takes the least modelled time, 1 to ``MAX_KV_SPLITS``.

    max_query_len: of the chunks, as prefill gets it; max_context: tokens that no request has more of in the cache;
    tier: default: the chip's first besides the portable one. The rest as in :func:`kv_splits`, what it promises too.
    """
