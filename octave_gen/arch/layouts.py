"""Matrix instructions: where each element of D = A·B + C sits in the registers of a wave.

Source: the tables of AMD's matrix instruction calculator for CDNA3 and RDNA3, which the tests hold these formulas
against. They have no table of ``v_wmma_f16_16x16x16_f16``: AMD's "How to accelerate AI applications on RDNA 3 using
WMMA" puts its C and D where the fp32 result has them, in one half of each register.

Of CDNA4 they have none either. That its wide MFMAs keep the rule of the narrow ones, a lane holding twice as many
consecutive k, is what two compilers assume that say it in notations of their own: IREE (``getSingleSubgroupLayout`` of
its GPU dialect, which the tests hold the formulas against) and FlyDSL (``tv_layout_a``, ``_b`` and ``_c`` of its MMA
atoms).
"""

from __future__ import annotations

from dataclasses import dataclass

_BITS = {"i8": 8, "iu8": 8, "f16": 16, "bf16": 16, "f32": 32, "i32": 32}


@dataclass(frozen=True)
class MatrixLayout:
    """One matrix instruction of ``archs`` in waves of ``wave_size`` lanes; it multiplies one block.

    A is [rows, depth] and B [depth, columns], of ``element`` s packed into registers from the low bits up; ``iu8`` is
    signed or not as ``neg_lo`` says. C and D are [rows, columns] of ``result`` s, one to a register.

    The lanes form groups of ``columns``, one column of B, C and D (and one row of A: ``rows == columns``) to a lane.
    ``repeated``: every group holds A and B whole, else the groups share the depth in equal parts. ``run``: rows of C
    and D that one lane holds in a row, before those of the next group follow.
    """

    mnemonic: str
    archs: tuple[str, ...]
    wave_size: int
    rows: int
    columns: int
    depth: int
    element: str
    result: str
    repeated: bool
    run: int

    @property
    def groups(self) -> int:
        """Groups of lanes in a wave."""
        return self.wave_size // self.columns

    @property
    def packed(self) -> int:
        """Elements of A and B in one register."""
        return 32 // _BITS[self.element]

    @property
    def depth_per_lane(self) -> int:
        """Elements of A and B in one lane."""
        return self.depth if self.repeated else self.depth // self.groups

    @property
    def operand_registers(self) -> int:
        """Registers of A, and of B."""
        return self.depth_per_lane // self.packed

    @property
    def result_registers(self) -> int:
        """Registers of C, and of D."""
        return self.rows * self.columns // self.wave_size

    def a(self, lane: int, register: int, part: int) -> tuple[int, int]:
        """(row, k) of the element of A in ``register``, the ``part`` th from the low bits."""
        return lane % self.rows, self._k(lane, register, part)

    def b(self, lane: int, register: int, part: int) -> tuple[int, int]:
        """(k, column) of the element of B in ``register``, the ``part`` th from the low bits."""
        return self._k(lane, register, part), lane % self.columns

    def d(self, lane: int, register: int) -> tuple[int, int]:
        """(row, column) of the element of C or D in ``register``."""
        stretch, within = divmod(register, self.run)
        return self.run * (self.groups * stretch + lane // self.columns) + within, lane % self.columns

    def _k(self, lane: int, register: int, part: int) -> int:
        first = 0 if self.repeated else self.depth_per_lane * (lane // self.columns)
        return first + self.packed * register + part


_CDNA = ("gfx942", "gfx950")


def _mfma(size: int, depth: int, element: str, result: str, archs: tuple[str, ...] = _CDNA) -> MatrixLayout:
    name = f"v_mfma_{result}_{size}x{size}x{depth}_{element}"
    return MatrixLayout(name, archs, 64, size, size, depth, element, result, repeated=False, run=4)


def _wide_mfma(size: int, depth: int, element: str, result: str) -> MatrixLayout:
    return _mfma(size, depth, element, result, ("gfx950",))


def _wmma(element: str, result: str) -> MatrixLayout:
    name = f"v_wmma_{result}_16x16x16_{element}"
    return MatrixLayout(name, ("gfx1100",), 32, 16, 16, 16, element, result, repeated=True, run=1)


MATRIX_LAYOUTS: dict[str, MatrixLayout] = {
    layout.mnemonic: layout
    for layout in (
        _mfma(16, 32, "i8", "i32"),
        _mfma(32, 16, "i8", "i32"),
        _mfma(16, 16, "f16", "f32"),
        _mfma(32, 8, "f16", "f32"),
        _mfma(16, 16, "bf16", "f32"),
        _mfma(32, 8, "bf16", "f32"),
        _wide_mfma(16, 64, "i8", "i32"),
        _wide_mfma(32, 32, "i8", "i32"),
        _wide_mfma(16, 32, "f16", "f32"),
        _wide_mfma(32, 16, "f16", "f32"),
        _wide_mfma(16, 32, "bf16", "f32"),
        _wide_mfma(32, 16, "bf16", "f32"),
        _wmma("iu8", "i32"),
        _wmma("f16", "f32"),
        _wmma("bf16", "f32"),
        _wmma("f16", "f16"),
    )
}
"""By mnemonic, as LLVM's disassembler spells it for the chip."""
