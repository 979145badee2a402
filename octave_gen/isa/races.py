"""LDS races: two waves touch a byte between two barriers, and one of them stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.faults import InstructionError
from octave_gen.isa.transfers import chosen

if TYPE_CHECKING:
    from octave_gen.isa.registers import Batch, Mask

Tags = NDArray[np.int32]
Kind = Literal["store", "load", "atomic"]
_AGAINST: dict[Kind, tuple[Kind, ...]] = {
    "store": ("store", "load", "atomic"),
    "load": ("store", "atomic"),
    "atomic": ("store", "load"),
}
"""What an access races with; atomic accesses do not race with each other."""


class RaceDetector:
    """Who last stored, loaded and atomically changed each unit of a chunk's LDS, and in which barrier interval.

    A tag is ``interval * (waves + 2) + wave + 1``; ``waves + 1`` stands for several waves. Units are words until an
    access is narrower or not aligned; then they become half words or bytes, which loses nothing.
    """

    def __init__(self, bytes_per_workgroup: int, workgroups: int, waves: int) -> None:
        self._stride = bytes_per_workgroup
        self._waves = waves
        self._unit = 4
        self._tags: dict[Kind, Tags] = {
            kind: np.full(bytes_per_workgroup * workgroups // 4, -1, np.int32) for kind in ("store", "load")
        }
        self.interval = np.zeros(workgroups, np.int32)

    def check(self, b: Batch, offsets: NDArray[np.int64], size: int, mask: Mask | None, kind: Kind) -> None:
        """Records an access of ``size`` bytes per lane in ``mask``, at offsets into the chunk's LDS.

        Raises InstructionError when it races with another wave's.
        """
        if not offsets.size:
            return
        self._refine(offsets, size, kind)
        wave_start = self.interval[b.workgroup] * np.int32(self._waves + 2)
        wave_tag = wave_start + b.wave.astype(np.int32) + np.int32(1)
        units = size // self._unit
        where = offsets >> self._unit.bit_length() - 1
        start, mine = (chosen(np.broadcast_to(value[:, None], b.exec.shape), mask) for value in (wave_start, wave_tag))
        if units > 1:
            where = where[:, None] + np.arange(units)
            start, mine = start[:, None], mine[:, None]
        for other in _AGAINST[kind]:
            seen = self._tags[other][where] if other in self._tags else None
            if seen is None:
                continue
            recent = seen > start
            if recent.any() and (recent & (seen != mine)).any():
                raise self._race(seen, start, mine, offsets, kind, other)
        tags = self._tags[kind]
        if kind == "store":
            tags[where] = mine
            if (tags[where] != mine).any():
                raise self._race(tags[where], start, mine, offsets, kind, "store")
            return
        seen = tags[where]
        crowd = start + np.int32(self._waves + 1)
        new = np.where((seen > start) & (seen != mine), crowd, mine)
        tags[where] = new
        lost = tags[where] != new
        if lost.any():
            tags[where[lost]] = np.broadcast_to(crowd, where.shape)[lost]

    def _refine(self, offsets: NDArray[np.int64], size: int, kind: Kind) -> None:
        if kind not in self._tags:
            self._tags[kind] = np.full_like(self._tags["store"], -1)
        unit = self._unit
        while unit > 1 and (size % unit or (offsets & unit - 1).any()):
            unit //= 2
        if unit != self._unit:
            self._tags = {name: np.repeat(tags, self._unit // unit) for name, tags in self._tags.items()}
            self._unit = unit

    def _race(
        self, seen: Tags, start: Tags, mine: Tags, offsets: NDArray[np.int64], kind: Kind, other: Kind
    ) -> InstructionError:
        bad = ((seen > start) & (seen != mine)).reshape(len(offsets), -1)
        lane, unit = np.argwhere(bad)[0].tolist()
        first = int(start.reshape(-1)[lane])
        address = int(offsets[lane] % self._stride) + unit * self._unit
        wave = int(mine.reshape(-1)[lane]) - first - 1
        against = int(seen.reshape(len(offsets), -1)[lane, unit]) - first - 1
        who = f"wave {against}" if against < self._waves else "several waves"
        lanes = int(bad.any(axis=1).sum())
        detail = f"{kind} by wave {wave} and {other} by {who} with no barrier between them, {lanes} lanes"
        return InstructionError("lds_race", detail, address, "put __syncthreads() between them")
