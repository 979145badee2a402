"""MFMA and WMMA: D = A·B + C on the registers of whole waves, by the layouts of ``octave_gen.arch``.

Integers are exact and wrap at 32 bits. Floats: every product is exact, all products of an element and C are summed in
float64, and the sum is rounded once (nearest even) to the type of D; denormals count as they are in A, B, C and D.

What hardware does with floats: AMD publishes no order of summation. By the bit-accurate model that Xie et al. fitted to
CDNA3 (arXiv 2511.10909), fp16 and bf16 MFMA keep denormals, sum the products of 8 k in fixed point, each truncated
2^-24 below the largest, add that to C in fixed point, rounded down, and round to fp32, nearest even: up to depth/8
roundings. No such model of RDNA3's WMMA is known. To first order, with n = depth + 1 terms in any order, if every
addition errs by one unit in the last place: ``|D - sum| <= n * 2**-23 * (sum |a*b| + |c|)``; here ``|D - sum| <= 2**-24
* |sum| + n * 2**-53 * (sum |a*b| + |c|)``, and half the least denormal where D is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octave_gen.arch import MATRIX_LAYOUTS, MatrixLayout

Registers = NDArray[np.uint32]
"""[registers, waves, lanes]."""


@dataclass(frozen=True)
class MatrixInstruction:
    """One matrix instruction. ``modifiers``: those of its text that it takes, besides plain zeros."""

    layout: MatrixLayout
    modifiers: tuple[str, ...] = ()

    @property
    def ignores_exec(self) -> bool:
        """Whether it works on all lanes whatever EXEC says (MFMA); WMMA must find EXEC full."""
        return not self.layout.repeated

    def refusal(self, modifiers: Mapping[str, Any]) -> str | None:
        """The first modifier, by name and value, that is not executed; None when all are.

        ``modifiers``: the values of ``cbsz``, ``abid``, ``blgp``, ``neg_lo``, ``neg_hi``, ``op_sel``, ``clamp``...; one
        that the text lacks may be absent, 0, False or all zeros.
        """
        for name, value in modifiers.items():
            accepted = {"neg_lo": (0, 1), "op_sel": (2,)}[name] if name in self.modifiers else ()
            flags = value if isinstance(value, (tuple, list)) else (value,)
            if any(flag for position, flag in enumerate(flags) if position not in accepted):
                return f"{name}:{list(flags) if flags is value else value}".replace(" ", "")
        return None

    def unequal_halves(self, a: Registers, b: Registers, relaxed: bool = False) -> str | None:
        """Which operand and lane breaks the rule that lanes 16-31 of WMMA's A and B hold what lanes 0-15 hold.

        relaxed: only lane half h of A counts in a row of parity h, so nothing is asked of A.
        """
        if not self.layout.repeated:
            return None
        width = self.layout.columns
        for name, block in (("B", b),) if relaxed else (("A", a), ("B", b)):
            halves = block.reshape(*block.shape[:2], -1, width)
            differs = (halves != halves[:, :, :1]).any(axis=2)
            if differs.any():
                register, _, lane = np.argwhere(differs)[0].tolist()
                return f"register {register} of {name} differs between lanes {lane} and {lane + width}"
        return None

    def execute(
        self,
        a: Registers,
        b: Registers,
        c: Registers,
        old: Registers,
        *,
        signed: tuple[bool, bool] = (False, False),
        high: bool = False,
        relaxed: bool = False,
    ) -> Registers:
        """D [result_registers, waves, lanes]; A and B [operand_registers, waves, lanes], C as D.

        old: D's registers as they were; a 16-bit D keeps their other halves. signed (``neg_lo``): whether iu8 A and B
        are. high (``op_sel[2]``): a 16-bit C and D are the high halves. relaxed: rows of A of parity h are read from
        lane half h, for the kernels that feed no more than that.
        """
        layout = self.layout
        left = self._matrix(a, signed[0], self._a_sources[relaxed]).reshape(-1, layout.rows, layout.depth)
        right = self._matrix(b, signed[1], self._b_sources).reshape(-1, layout.depth, layout.columns)
        product = (left @ right).reshape(-1, layout.rows * layout.columns)
        product = product[:, self._d_targets].reshape(-1, layout.result_registers, layout.wave_size).transpose(1, 0, 2)
        total: NDArray[Any]
        if layout.result == "i32":
            total = product.astype(np.int32) + c.view(np.int32)
        elif layout.result == "f32":
            total = (product + c.view(np.float32)).astype(np.float32)
        else:
            total = np.array(old, np.uint32, order="C").view(np.float16).reshape(*c.shape, 2)
            addend = np.ascontiguousarray(c).view(np.float16).reshape(*c.shape, 2)
            total[..., int(high)] = (product + addend[..., int(high)]).astype(np.float16)
        d: Registers = total.view(np.uint32).reshape(c.shape)
        return d

    def _matrix(self, block: Registers, signed: bool, sources: NDArray[np.intp]) -> NDArray[Any]:
        """The elements at ``sources`` of every wave [waves, sources], widened so that sums of products are exact.

        Sums of 64 products of bytes stay below 2^24: exact in float32, in any order.
        """
        waves = np.ascontiguousarray(block.transpose(1, 0, 2)).reshape(block.shape[1], -1)
        element = self.layout.element
        if element in ("i8", "iu8"):
            return waves.view(np.int8 if signed or element == "i8" else np.uint8)[:, sources].astype(np.float32)
        if element == "f16":
            return waves.view(np.float16)[:, sources].astype(np.float64)
        upper = waves.view(np.uint16)[:, sources].astype(np.uint32) << np.uint32(16)
        widened: NDArray[Any] = upper.view(np.float32).astype(np.float64)
        return widened

    def _position(self, lane: int, register: int, part: int) -> int:
        return (register * self.layout.wave_size + lane) * self.layout.packed + part

    @cached_property
    def _a_sources(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Where the elements of A, row by row, lie in a wave's registers: by the rule, and relaxed."""
        layout = self.layout
        strict = np.zeros((layout.rows, layout.depth), np.intp)
        relaxed = strict.copy()
        for lane, register, part in self._operand_elements():
            row, k = layout.a(lane, register, part)
            strict[row, k] = self._position(lane, register, part)
            if row % layout.groups == lane // layout.columns:
                relaxed[row, k] = strict[row, k]
        return strict.ravel(), relaxed.ravel()

    @cached_property
    def _b_sources(self) -> NDArray[np.intp]:
        """Where the elements of B, row by row, lie in a wave's registers."""
        sources = np.zeros((self.layout.depth, self.layout.columns), np.intp)
        for lane, register, part in self._operand_elements():
            sources[self.layout.b(lane, register, part)] = self._position(lane, register, part)
        return sources.ravel()

    @cached_property
    def _d_targets(self) -> NDArray[np.intp]:
        """Which element of D, counted row by row, each register and lane holds."""
        layout = self.layout
        positions = (layout.d(lane, r) for r in range(layout.result_registers) for lane in range(layout.wave_size))
        return np.array([row * layout.columns + column for row, column in positions], np.intp)

    def _operand_elements(self) -> list[tuple[int, int, int]]:
        layout = self.layout
        return [
            (lane, register, part)
            for lane in range(layout.wave_size)
            for register in range(layout.operand_registers)
            for part in range(layout.packed)
        ]


def _modifiers(layout: MatrixLayout) -> tuple[str, ...]:
    if layout.element == "iu8":
        return ("neg_lo",)
    return ("op_sel",) if layout.result == "f16" else ()


MATRIX: dict[str, MatrixInstruction] = {
    mnemonic: MatrixInstruction(layout, _modifiers(layout)) for mnemonic, layout in MATRIX_LAYOUTS.items()
}
"""By mnemonic, without encoding suffix."""
