"""The state of a batch: all waves of a launch chunk that stand at one instruction.

Lanes of all waves lie side by side, so one numpy operation executes one instruction for the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from octave_gen.isa.decode import EXEC, NULL

if TYPE_CHECKING:
    from octave_gen.isa.launch import Chunk

SCALAR_REGISTERS = 128
Mask = NDArray[np.bool_]
"""One bool per lane, [waves, lanes]."""


class RegisterFile:
    """32-bit registers as one array, ``[registers, waves, lanes]`` (vector) or ``[registers, waves]`` (scalar).

    ``u32``, ``i32`` and ``f32`` are views of it; ``u16``, ``i16`` and ``f16`` too, with a last axis (low, high half).
    """

    __slots__ = ("f16", "f32", "i16", "i32", "u16", "u32")

    def __init__(self, data: NDArray[np.uint32]) -> None:
        halves = (*data.shape, 2)
        self.u32 = data
        self.i32 = data.view(np.int32)
        self.f32 = data.view(np.float32)
        self.u16 = data.view(np.uint16).reshape(halves)
        self.i16 = data.view(np.int16).reshape(halves)
        self.f16 = data.view(np.float16).reshape(halves)


class Batch:
    """Waves at one address of one chunk.

    v, a, s: register files; scc: per wave; exec: EXEC as a mask, ``full`` when all its lanes are on; wave: index in the
    workgroup; workgroup: index in the chunk; scratch: bytes ``[waves, lanes, size]``; steps: instructions that the
    longest-running wave has executed.
    """

    __slots__ = ("a", "chunk", "exec", "full", "pc", "s", "scc", "scratch", "steps", "v", "wave", "workgroup")

    def __init__(
        self,
        chunk: Chunk,
        pc: int,
        vector: NDArray[np.uint32],
        accumulators: NDArray[np.uint32],
        scalar: NDArray[np.uint32],
        scc: NDArray[np.bool_],
        wave: NDArray[np.int64],
        workgroup: NDArray[np.int64],
        scratch: NDArray[np.uint8],
        steps: int,
    ) -> None:
        self.chunk = chunk
        self.pc = pc
        self.v = RegisterFile(vector)
        self.a = RegisterFile(accumulators)
        self.s = RegisterFile(scalar)
        self.scc = scc
        self.wave = wave
        self.workgroup = workgroup
        self.scratch = scratch
        self.steps = steps
        self.exec: Mask
        self.full: bool
        self.refresh()

    @property
    def waves(self) -> int:
        return len(self.wave)

    @property
    def lanes(self) -> int:
        return int(self.v.u32.shape[2])

    def refresh(self) -> None:
        """Makes ``exec`` and ``full`` follow the EXEC registers."""
        self.exec = self.mask(EXEC)
        self.full = bool(self.exec.all())

    def mask(self, index: int) -> Mask:
        """The scalar registers from ``index`` on as one bool per lane."""
        words = self.s.u32[index : index + self.lanes // 32]
        octets = np.ascontiguousarray(words.T).view(np.uint8)
        return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)

    def set_mask(self, index: int, mask: Mask) -> None:
        """Writes one bit per lane into the scalar registers from ``index`` on."""
        if index == NULL:
            return
        words = np.packbits(mask, axis=1, bitorder="little").view(np.uint32)
        self.s.u32[index : index + words.shape[1]] = words.T
        if index == EXEC:
            self.refresh()

    def read64(self, index: int) -> NDArray[np.uint64]:
        """A pair of scalar registers, one value per wave."""
        words = self.s.u32
        value: NDArray[np.uint64] = (words[index + 1].astype(np.uint64) << np.uint64(32)) | words[index]
        return value

    def take(self, waves: NDArray[np.intp]) -> Batch:
        """A batch of some of the waves (copies)."""
        return Batch(
            self.chunk,
            self.pc,
            self.v.u32[:, waves],
            self.a.u32[:, waves],
            np.ascontiguousarray(self.s.u32[:, waves]),
            self.scc[waves],
            self.wave[waves],
            self.workgroup[waves],
            self.scratch[waves],
            self.steps,
        )

    @staticmethod
    def join(batches: Sequence[Batch]) -> Batch:
        """One batch of all the waves; they must stand at one address."""
        if len(batches) == 1:
            return batches[0]
        first = batches[0]

        def together(part: Callable[[Batch], NDArray[Any]], axis: int = 0) -> NDArray[Any]:
            return np.concatenate([part(batch) for batch in batches], axis)

        return Batch(
            first.chunk,
            first.pc,
            together(lambda batch: batch.v.u32, 1),
            together(lambda batch: batch.a.u32, 1),
            together(lambda batch: batch.s.u32, 1),
            together(lambda batch: batch.scc),
            together(lambda batch: batch.wave),
            together(lambda batch: batch.workgroup),
            together(lambda batch: batch.scratch),
            max(batch.steps for batch in batches),
        )
