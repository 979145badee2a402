"""How many KV splits a context is cut into: the count for which the modelled time of decode and reduce is least.

The model, in clocks of the chip. Workgroups are dealt evenly to the CUs (on gfx11 WGPs), each of which holds as many
at a time as occupancy allows; a round of them takes the larger of what they keep the SIMDs busy for and of what one
takes alone, when memory answers after 1000 clocks (``launch_costs``). K and V come over HBM while the passes run, so
that a launch takes what its rounds take, or its first prologue and those bytes, whichever is more. Then the fp32
partials are written and read once over HBM, and reduce merges them, by the same rules. Launch gaps, which do not depend
on the splits, caches and the efficiency of HBM are not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from octave_gen import arch as archs
from octave_gen.arch import PORTABLE, Arch
from octave_gen.errors import wrong_request
from octave_gen.formats import CACHE_DTYPES, FAMILIES
from octave_gen.kernels import decode, prefill
from octave_gen.kernels.base import MAX_GRID_YZ, MAX_GROUP, KernelKind, Shape, Tier
from octave_gen.kernels.launch_costs import LaunchCosts, launch_costs
from octave_gen.kernels.splits import MAX_KV_SPLITS, PARTIAL_EXTRA, SPLIT_GRANULE, tokens_per_split

NEAR = 0.98
"""Fewer splits are taken where they are within this share of the least time: they need less workspace."""
_SMALL = (1, 2, 3, 4, 6, 9, 12)
_ROUNDS = (1, 2, 3, 5, 8)
"""How often the chip is filled with workgroups."""
_BALANCES = (0.5, 0.7, 1.0, 1.4)


@dataclass(frozen=True)
class Chip:
    """places: CUs, or WGPs, that take workgroups; simds: of each; bytes_per_clock: of HBM, over all of them."""

    places: int
    simds: int
    bytes_per_clock: float

    @classmethod
    def of(cls, arch: Arch) -> Chip:
        costs = arch.costs
        places = costs.compute_units * costs.simds // arch.lds_simds
        return cls(places, arch.lds_simds, costs.memory_bandwidth / costs.clock)

    def resident(self, costs: LaunchCosts) -> int:
        """Workgroups that a place holds at a time."""
        return max(1, costs.occupancy * self.simds // costs.waves)

    def rounds(self, workgroups: int, costs: LaunchCosts, passes: float) -> float:
        """Clocks that a launch takes on the SIMDs."""
        issue = costs.launch_issue + passes * costs.pass_issue
        alone = costs.launch_latency + passes * costs.pass_latency
        resident = self.resident(costs)
        whole, rest = divmod(-(-workgroups // self.places), resident)
        last = max(rest * issue, alone) if rest else 0.0
        return whole * max(resident * issue, alone) + last if whole else last

    def first(self, workgroups: int, costs: LaunchCosts) -> float:
        """Clocks before the first round of workgroups reads K and V."""
        here = min(-(-workgroups // self.places), self.resident(costs))
        return max(here * costs.launch_issue, costs.launch_latency)


@dataclass(frozen=True)
class Problem:
    """An attention over ``context`` tokens: ``workgroups`` of each split, ``vectors`` of outputs.

    attend, merge: of the kernel that attends and of the one that merges; kv_bytes: of all K and V that are read;
    partial_bytes: of one split of all outputs; most: splits that a launch can have.
    """

    chip: Chip
    attend: LaunchCosts
    merge: LaunchCosts
    workgroups: int
    vectors: int
    context: int
    kv_bytes: int
    partial_bytes: int
    most: int = MAX_KV_SPLITS

    def clocks(self, splits: int) -> float:
        """The modelled time for a number of splits."""
        chip, attend, merge = self.chip, self.attend, self.merge
        tokens = tokens_per_split(self.context, splits)
        used = -(-self.context // tokens) if tokens else 0
        workgroups = self.workgroups * used
        busy = chip.rounds(workgroups, attend, -(-tokens // attend.units))
        streamed = chip.first(workgroups, attend) + self.kv_bytes / chip.bytes_per_clock
        empty = chip.rounds(self.workgroups * (splits - used), attend, 0) if used < splits else 0.0
        traffic = self.partial_bytes * splits / chip.bytes_per_clock
        merging = chip.rounds(self.vectors, merge, splits / merge.units)
        return max(busy, streamed) + empty + traffic + max(traffic, merging)

    def candidates(self) -> set[int]:
        """Counts worth a look: small ones, those that fill the chip, and those that balance passes against the merge.

        Each is the fewest splits with as many passes.
        """
        attend, merge, chip = self.attend, self.merge, self.chip
        filled, resident = chip.places / self.workgroups, chip.resident(attend)
        per_split = merge.pass_latency / merge.units + 2 * self.partial_bytes / chip.bytes_per_clock
        balance = math.sqrt(self.context / attend.units * attend.pass_latency / per_split)
        counts = [*_SMALL, *(int(filled * n) for n in range(1, resident))]
        counts += [*(int(filled * resident * n) for n in _ROUNDS), *(int(balance * n) for n in _BALANCES)]
        most = max(1, min(self.most, -(-self.context // SPLIT_GRANULE)))
        passes = {-(-self.context // (min(max(count, 1), most) * attend.units)) for count in counts} | {1, 2}
        return {max(1, min(most, -(-self.context // (attend.units * n)))) for n in passes if n}

    def best(self) -> int:
        """The candidate with the least time; of those that are nearly as good, the smallest."""
        times = {splits: self.clocks(splits) for splits in self.candidates()}
        enough = min(times.values()) / NEAR
        return min(splits for splits, clocks in times.items() if clocks <= enough)


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


def decode_tier(chip: Arch, shape: Shape) -> str:
    """The chip's first tier that holds a shape and is not the portable one, or that."""
    for tier in decode.KIND.tiers_on(chip):
        if tier.name != PORTABLE and tier.refuse(shape, chip) is None:
            return tier.name
    return PORTABLE


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
    kernel = _tier("kv_splits", decode.KIND, chip, tier or decode_tier(chip, shape))
    reason = kernel.refuse(shape, chip)
    if reason:
        raise wrong_request(reason, where="kv_splits")
    # A tier may share a group out over several workgroups; those without a query do nothing.
    served = kernel.geometry(shape, chip).grid[0].per_workgroup
    whole, rest = divmod(tokens, query_group)
    groups = batch * (whole * -(-query_group // served) + -(-rest // served))
    return Problem(
        chip=Chip.of(chip),
        attend=launch_costs("decode", chip.name, kernel.name, head_size, dtype, group * served),
        merge=launch_costs("reduce", chip.name, PORTABLE, head_size, dtype, 1),
        workgroups=groups * kv_heads,
        vectors=batch * tokens * q_heads,
        context=max_context,
        kv_bytes=groups * kv_heads * max_context * slot_bytes,
        partial_bytes=4 * batch * tokens * q_heads * (head_size + PARTIAL_EXTRA),
    )


def kv_splits(
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
) -> int:
    """The number of KV splits for which decode and reduce take the least modelled time, 1 to ``MAX_KV_SPLITS``.

    arch: of the GPU, such as ``gfx942``; batch: requests; slot_bytes, fmt: of the cache; max_context: tokens that no
    request has more of; query_group: as decode gets it; queries: query tokens of a request (default: query_group);
    tier: ``portable``, or the chip's matrix tier (default: that, where it holds the shape). Nothing else decides: the
    same arguments give the same number, and so bitwise the same results. A bound above the contexts costs empty splits
    and changes results within rounding.

    Raises OctaveError for what no decode has, and for a tier that does not hold the shape or was not counted.
    """
    return decode_problem(
        arch,
        batch=batch,
        kv_heads=kv_heads,
        q_heads=q_heads,
        head_size=head_size,
        slot_bytes=slot_bytes,
        fmt=fmt,
        max_context=max_context,
        query_group=query_group,
        queries=queries,
        tier=tier,
    ).best()


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
    reason = kernel.refuse(Shape("octave", head_size, "f16", dtype), chip)
    if reason:
        raise wrong_request(reason, where="prefix_splits")
    tier = kernel.name
    rows = max_query_len * (q_heads // kv_heads)
    attend = launch_costs("prefill_prefix", chip.name, tier, head_size, dtype, 1)
    merge = launch_costs("prefill_chunk", chip.name, tier, head_size, dtype, 1)
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


def prefix_splits(
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
) -> int:
    """The number of KV splits of the prefix for which prefill takes the least modelled time, 1 to ``MAX_KV_SPLITS``.

    max_query_len: of the chunks, as prefill gets it; max_context: tokens that no request has more of in the cache;
    tier: default: the chip's first besides the portable one. The rest as in :func:`kv_splits`, what it promises too.
    """
    return prefix_problem(
        arch,
        batch=batch,
        kv_heads=kv_heads,
        q_heads=q_heads,
        head_size=head_size,
        slot_bytes=slot_bytes,
        fmt=fmt,
        max_query_len=max_query_len,
        max_context=max_context,
        tier=tier,
    ).best()
