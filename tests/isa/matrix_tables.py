"""Register layouts as AMD's tables and, of CDNA4's wide instructions, IREE state them, and matrices placed by them,
independent of the formulas in ``arch``."""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from octave_gen.arch import MATRIX_LAYOUTS

TABLES = Path(__file__).parents[1] / "data" / "matrix_layouts"
FAMILIES = {"gfx942": "cdna3", "gfx1100": "rdna3"}
F16_RESULT = "v_wmma_f16_16x16x16_f16"

Fragment = tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]
"""IREE's MMASingleSubgroupLayout of a matrix: outer, thread, tstrides, element; of rows and columns each.

A row or column is ``(o * thread + lane // tstride % thread) * element + e``, and a lane holds its values in the order
of outer and element.
"""
Place = tuple[int, int, int, int]
"""lane, register, lowest bit, bits."""
Array = np.ndarray[Any, Any]


def _wide(size: int, depth: int) -> dict[str, Fragment]:
    groups = 64 // size
    return {
        "A": ((1, 1), (size, groups), (1, size), (1, depth // groups)),
        "B": ((1, 1), (groups, size), (size, 1), (depth // groups, 1)),
        "D": ((size // 4 // groups, 1), (groups, size), (size, 1), (4, 1)),
    }


WIDE = {
    "v_mfma_i32_16x16x64_i8": _wide(16, 64),
    "v_mfma_i32_32x32x32_i8": _wide(32, 32),
    "v_mfma_f32_16x16x32_f16": _wide(16, 32),
    "v_mfma_f32_32x32x16_f16": _wide(32, 16),
    "v_mfma_f32_16x16x32_bf16": _wide(16, 32),
    "v_mfma_f32_32x32x16_bf16": _wide(32, 16),
}


def _of_fragment(fragment: Fragment, bits: int) -> dict[Place, tuple[int, int]]:
    outer, thread, stride, element = fragment
    places = {}
    for lane in range(64):
        for number, (o0, o1, e0, e1) in enumerate(np.ndindex(*outer, *element)):
            row, column = (
                (o * thread[axis] + lane // stride[axis] % thread[axis]) * element[axis] + e
                for axis, (o, e) in enumerate(((o0, e0), (o1, e1)))
            )
            register, first = divmod(number * bits, 32)
            places[lane, register, first, bits] = (row, column)
    return places


@cache
def table(mnemonic: str, matrix: str) -> dict[Place, tuple[int, int]]:
    """The element in each place of a wave's registers, as AMD, or IREE, states it."""
    if mnemonic in WIDE:
        bits = 32 if matrix == "D" else 8 if mnemonic.endswith("i8") else 16
        return _of_fragment(WIDE[mnemonic][matrix], bits)
    if mnemonic == F16_RESULT:
        if matrix == "D":  # AMD's RDNA 3 WMMA example: c[16 * r + lane] = c_frag[ele * 2], r = ele * 2 + lIdx / 16
            return {(lane, ele, 0, 16): (ele * 2 + lane // 16, lane % 16) for lane in range(32) for ele in range(8)}
        mnemonic = "v_wmma_f32_16x16x16_f16"
    file = TABLES / f"{FAMILIES[MATRIX_LAYOUTS[mnemonic].archs[0]]}.{mnemonic}.{matrix}.csv"
    _, title, header, *rows = csv.reader(file.read_text().splitlines())
    assert title == [f"Instruction: {mnemonic.upper()}"]
    places = {}
    for lane, *cells in rows:
        for name, cell in zip(header[1:], cells, strict=True):
            column = re.fullmatch(r"v(\d+)(?:\.\[(\d+):(\d+)\])?", name)
            element = re.fullmatch(rf"{matrix}\[(\d+)\]\[(\d+)\]", cell)
            assert column
            assert element
            register, last, first = int(column[1]), int(column[2] or 31), int(column[3] or 0)
            places[int(lane), register, first, last - first + 1] = (int(element[1]), int(element[2]))
    return places


def bits_of(values: Array, element: str) -> Array:
    """The bits of each value as uint32; bf16 values are given as float32 that bf16 holds."""
    if element == "bf16":
        return values.astype(np.float32).view(np.uint32) >> 16
    dtypes = {"i8": (np.int8, np.uint8), "iu8": (np.int16, np.uint16), "f16": (np.float16, np.uint16)}
    wide, unsigned = dtypes.get(element, (np.dtype(element[0] + "4"), np.uint32))
    return values.astype(wide).view(unsigned).astype(np.uint32)


def placed(values: Array, mnemonic: str, matrix: str, element: str) -> Array:
    """uint32 [registers, waves, lanes] with ``values`` [waves, rows, columns] where the table puts them."""
    places = table(mnemonic, matrix)
    wave_size = MATRIX_LAYOUTS[mnemonic].wave_size
    registers = np.zeros((1 + max(register for _, register, _, _ in places), len(values), wave_size), np.uint32)
    bits = bits_of(values, element)
    for (lane, register, first, size), (row, column) in places.items():
        mask = np.uint32((1 << size) - 1)
        keep = ~np.uint32(int(mask) << first)
        registers[register, :, lane] &= keep
        registers[register, :, lane] |= (bits[:, row, column] & mask) << np.uint32(first)
    return registers


def taken(registers: Array, mnemonic: str) -> Array:
    """D [waves, rows, columns] out of its registers."""
    layout = MATRIX_LAYOUTS[mnemonic]
    dtype = np.int32 if layout.result == "i32" else np.float32
    out = np.zeros((registers.shape[1], layout.rows, layout.columns), dtype)
    for (lane, register, _, size), (row, column) in table(mnemonic, "D").items():
        raw = np.ascontiguousarray(registers[register, :, lane])
        out[:, row, column] = raw.astype(np.uint16).view(np.float16) if size == 16 else raw.view(dtype)
    return out


def shapes(mnemonic: str, waves: int) -> tuple[tuple[int, int, int], ...]:
    layout = MATRIX_LAYOUTS[mnemonic]
    m, n, k = layout.rows, layout.columns, layout.depth
    return (waves, m, k), (waves, k, n), (waves, m, n)
