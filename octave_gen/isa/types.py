"""Value types of operands, and the description of one arithmetic instruction.

A semantics module holds ``OPERATIONS: dict[str, Operation]``, keyed by the mnemonic without its encoding suffix
(``_e32``, ``_e64``, ``_dpp``, ``_sdwa``, ``_e64_dpp``). The engine fetches operands as typed arrays, applies the input
and output modifiers and writes results under EXEC; a function sees neither registers nor modifiers nor EXEC.

Arrays are ``[waves, lanes]`` for vector instructions and ``[waves]`` for scalar ones; an operand that is the same for
all lanes or waves may come with extent 1 there, so functions rely on broadcasting alone and never write into an
operand. Inactive lanes hold junk: a function must not raise or warn for any bit pattern (the engine runs them inside
``np.errstate(all="ignore")``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Type:
    """How the bits of an operand are read.

    ``registers``: 32-bit registers per lane. ``elements`` 2: a packed pair, an array with a last axis of extent 2 (low,
    high) after ``op_sel``, ``op_sel_hi``, ``neg_lo`` and ``neg_hi``. ``mixed``: float32, or one half of a register
    widened, as ``op_sel_hi`` says (``v_fma_mix_*``); the function sees float32.
    """

    name: str
    dtype: np.dtype[Any]
    registers: int
    elements: int = 1
    mixed: bool = False

    @property
    def floating(self) -> bool:
        """Whether neg and abs act on the sign bit (BF16 is carried as its bits)."""
        return self.dtype.kind == "f" or self.name.startswith("bf16")


def _type(name: str, dtype: str, registers: int = 1, elements: int = 1, mixed: bool = False) -> Type:
    return Type(name, np.dtype(dtype), registers, elements, mixed)


U16 = _type("u16", "u2")
I16 = _type("i16", "i2")
F16 = _type("f16", "f2")
BF16 = _type("bf16", "u2")
U32 = _type("u32", "u4")
I32 = _type("i32", "i4")
F32 = _type("f32", "f4")
U64 = _type("u64", "u8", 2)
I64 = _type("i64", "i8", 2)
F64 = _type("f64", "f8", 2)
U16X2 = _type("u16x2", "u2", 1, 2)
I16X2 = _type("i16x2", "i2", 1, 2)
F16X2 = _type("f16x2", "f2", 1, 2)
BF16X2 = _type("bf16x2", "u2", 1, 2)
U32X2 = _type("u32x2", "u4", 2, 2)
F32X2 = _type("f32x2", "f4", 2, 2)
MIX = _type("mix", "f4", mixed=True)


@dataclass(frozen=True)
class Operation:
    """One arithmetic instruction.

    ``function(*operands[, destination][, carry][, scc])`` gets the ``operands`` in the order of the assembly text;
    then, where a flag asks for it, the old destination (typed as ``result``), the carry or selection mask, or SCC (the
    last two as bool arrays). 16-bit immediates of SOPK instructions are operands of type I16 or U16. It returns the
    result in ``result.dtype``, or a tuple as the flags say.

    Args:
        result: type of the destination; None when nothing but a mask or SCC is written.
        operands: their types.
        function: pure numpy.
        reads_destination: ``v_fmac_*``, ``v_dot4c_*``, ``s_addk_*``, ``s_cmov_*``: the old destination is an input.
        carry_in: the function gets a lane mask (``v_addc_co_u32``, ``v_cndmask_b32``, VCC of ``v_div_fmas_f32``).
        carry_out: it returns ``(value, mask)`` (``v_add_co_u32``, ``v_div_scale_f32``, ``v_mad_u64_u32``).
        compare: it returns a lane mask alone (``v_cmp_*``; ``v_cmpx_*`` keys are not needed, the engine derives them).
        scc: ``"result_nonzero"``: SCC becomes ``result != 0``; ``"returned"``: it returns ``(value, scc)``, or ``scc``
            alone when ``result`` is None (``s_cmp_*``).
        reads_scc: the function gets SCC (``s_cselect_*``, ``s_addc_u32``).
        sign_flags: ``neg_lo`` says which of the first two operands are signed (``v_dot4_i32_iu8``); the function gets
            the keyword ``signed=(bool, bool)``.
        saturates: the function gets the keyword ``clamp=bool``: integer saturation. Clamp of a float result ([0, 1])
            is applied by the engine; the clamp bit of any other integer instruction is refused.
        high_half: a 16-bit result goes to the high half of the register whatever op_sel says (``v_fma_mixhi_f16``); the
            low half is kept. ``v_fma_mixlo_f16`` keeps the high half on both chips (``keeps_half``).
        keeps_half: a 16-bit result leaves the other half of its register alone on gfx9 too, where most 16-bit
            instructions clear it.
        transcendental: counted apart.
        truth_table: ``bitop3`` says what is computed; the function gets it as the keyword ``table=int``.
    """

    result: Type | None
    operands: tuple[Type, ...]
    function: Callable[..., Any]
    reads_destination: bool = False
    carry_in: bool = False
    carry_out: bool = False
    compare: bool = False
    scc: Literal["result_nonzero", "returned"] | None = None
    reads_scc: bool = False
    sign_flags: bool = False
    saturates: bool = False
    high_half: bool = False
    keeps_half: bool = False
    transcendental: bool = False
    truth_table: bool = False


def table(rows: Mapping[str, Operation]) -> dict[str, Operation]:
    """``rows`` with one key per spelling: a key may name several, as in ``"v_add_u32 v_add_nc_u32"``."""
    return {name: operation for names, operation in rows.items() for name in names.split()}
