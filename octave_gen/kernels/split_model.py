"""The modelled time of an attention that is cut into KV splits, and the number of splits for which it is least.

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

from octave_gen.arch import Arch
from octave_gen.kernels.base import Wide
from octave_gen.kernels.launch_costs import LaunchCosts
from octave_gen.kernels.splits import MAX_KV_SPLITS, SPLIT_GRANULE, tokens_per_split

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
        return cls(arch.workgroup_places, arch.lds_simds, costs.memory_bandwidth / costs.clock)

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
    partial_bytes: of one split of all outputs; most: splits that a launch can have; wide: the kernel that attends in
    launches of few workgroups, where that is another one.
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
    wide: tuple[Wide, LaunchCosts] | None = None

    @property
    def kernels(self) -> tuple[LaunchCosts, ...]:
        """Those that attend."""
        return (self.attend,) if self.wide is None else (self.attend, self.wide[1])

    def kernel(self, splits: int) -> LaunchCosts:
        """The one that a launch with so many splits takes."""
        if self.wide is not None and self.wide[0].serves(self.workgroups * splits):
            return self.wide[1]
        return self.attend

    def clocks(self, splits: int) -> float:
        """The modelled time for a number of splits."""
        return self.clocks_with(self.kernel(splits), splits)

    def clocks_with(self, attend: LaunchCosts, splits: int) -> float:
        """The same if ``attend`` were the kernel, whatever the size of the launch."""
        chip, merge = self.chip, self.merge
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
        """Counts worth a look."""
        return set().union(*(self._candidates_with(attend) for attend in self.kernels))

    def _candidates_with(self, attend: LaunchCosts) -> set[int]:
        """For a kernel: small counts, those that fill the chip, and those that balance passes against the merge.

        Each is the fewest splits with as many passes.
        """
        merge, chip = self.merge, self.chip
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
