"""The issue model's arithmetic, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from octave_gen.arch import ARCHS, MATRIX_LAYOUTS
from octave_gen.profile.counts import Counts
from octave_gen.profile.model import Clocks, clocks

GFX942 = ARCHS["gfx942"].costs
GFX1100 = ARCHS["gfx1100"].costs
PEAKS = [
    ("gfx942", "v_mfma_f32_16x16x16_f16", 1307.4e12),
    ("gfx942", "v_mfma_f32_32x32x8_f16", 1307.4e12),
    ("gfx942", "v_mfma_f32_16x16x16_bf16", 1307.4e12),
    ("gfx942", "v_mfma_i32_16x16x32_i8", 2614.9e12),
    ("gfx942", "v_mfma_i32_32x32x16_i8", 2614.9e12),
    ("gfx950", "v_mfma_f32_16x16x32_f16", 2516.6e12),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 2516.6e12),
    ("gfx950", "v_mfma_i32_16x16x64_i8", 5033.2e12),
    ("gfx950", "v_mfma_i32_32x32x32_i8", 5033.2e12),
    ("gfx1100", "v_wmma_f32_16x16x16_f16", 122.8e12),
    ("gfx1100", "v_wmma_i32_16x16x16_iu8", 122.8e12),
]
"""Dense peak rates of AMD's data sheets for the MI300X, the MI355X and the RX 7900 XTX, operations per second."""


@pytest.mark.parametrize(("arch", "mnemonic", "peak"), PEAKS)
def test_matrix_clocks_give_the_published_peak_rates(arch: str, mnemonic: str, peak: float) -> None:
    costs, layout = ARCHS[arch].costs, MATRIX_LAYOUTS[mnemonic]
    operations = 2 * layout.rows * layout.columns * layout.depth
    rate = operations / costs.matrix(layout) * costs.simds * costs.compute_units * costs.clock
    assert rate == pytest.approx(peak, rel=2e-3)


@pytest.mark.parametrize(
    ("arch", "name", "expected"),
    [
        ("gfx942", "v_mfma_i32_16x16x32_i8", 16),
        ("gfx942", "v_mfma_f32_16x16x16_f16", 16),
        ("gfx942", "v_mfma_f32_32x32x8_f16", 32),
        ("gfx950", "v_mfma_i32_16x16x64_i8", 16),
        ("gfx950", "v_mfma_i32_32x32x32_i8", 32),
        ("gfx950", "v_mfma_f32_16x16x32_f16", 16),
        ("gfx950", "v_mfma_i32_16x16x32_i8", 16),
        ("gfx950", "v_mfma_f32_16x16x16_f16", 16),
        ("gfx950", "v_mfma_f32_32x32x8_f16", 32),
        ("gfx1100", "v_wmma_i32_16x16x16_iu8", 32),
        ("gfx1100", "v_wmma_f32_16x16x16_bf16", 32),
    ],
)
def test_clocks_of_matrix_instructions(arch: str, name: str, expected: float) -> None:
    assert ARCHS[arch].costs.matrix(MATRIX_LAYOUTS[name]) == expected


def test_every_matrix_instruction_has_a_rate() -> None:
    for layout in MATRIX_LAYOUTS.values():
        assert {ARCHS[arch].costs.matrix(layout) for arch in layout.archs} <= {16, 32}


@pytest.mark.parametrize(("arch", "expected"), [("gfx942", 8.3), ("gfx950", 13.02), ("gfx1100", 4.0)])
def test_hbm_bytes_per_clock_of_a_cu(arch: str, expected: float) -> None:
    """5.3e12 / (304 CUs · 2.1e9), 8e12 / (256 CUs · 2.4e9) and 960e9 / (96 CUs · 2.5e9)."""
    assert ARCHS[arch].costs.hbm_bytes == pytest.approx(expected, rel=1e-3)


def test_gfx942_by_hand() -> None:
    """A SIMD takes 4 clocks for an instruction and 16 for a slow one; a CU has four of them.

    VALU: (24 - 3) · 4 + 3 · 16 = 132 on one SIMD, 33 on the CU; transcendental: 2 · 16 / 4 = 8; matrix: 3 · 16 / 4
    = 12; LDS: 640 / 128 = 5, and 7 with conflicts.
    """
    counts = Counts(
        valu=24, transcendental=2, multiply=1, lds_bytes=640, lds_clocks=7, matrix={"v_mfma_i32_16x16x32_i8": 3}
    )
    result = clocks(counts, 249.06, GFX942)
    assert result.hbm == pytest.approx(249.06 / 8.302005)
    assert (result.valu, result.transcendental, result.matrix, result.lds) == (33, 8, 12, 7)
    assert result.terms == {"HBM": pytest.approx(30.0), "VALU": 33, "matrix": 12, "LDS": 7}
    assert result.bound == "VALU"
    assert result.issue == 45
    assert result.share == pytest.approx(30 / 33)
    assert result.share_without_overlap == pytest.approx(30 / 45)


def test_gfx1100_by_hand() -> None:
    """One clock for an instruction and 4 for a slow one, two SIMDs, and WMMA adds to VALU.

    VALU: ((86 - 6) + 6 · 4) / 2 = 52; WMMA: 2 · 32 / 2 = 32; LDS: 12800 / 128 = 100, and 90 with conflicts.
    """
    counts = Counts(
        valu=86, transcendental=5, multiply=1, lds_bytes=12800, lds_clocks=90, matrix={"v_wmma_f32_16x16x16_f16": 2}
    )
    result = clocks(counts, 248, GFX1100)
    assert (result.hbm, result.valu, result.transcendental, result.matrix, result.lds) == (62, 52, 10, 32, 100)
    assert result.terms == {"HBM": 62, "VALU+matrix": 84, "LDS": 100}
    assert result.bound == "LDS"
    assert result.share == result.share_without_overlap == 0.62


PUBLIC = [
    ("gfx942", "v_mfma_i32_16x16x32_i8", 248, 26.8, 1 / 3, 2, (29.9, 27.8, 8), 1.00, 0.83),
    ("gfx942", "v_mfma_i32_16x16x32_i8", 216, 22.7, 0.3, 2, (26.0, 23.6, 8), 1.00, 0.82),
    ("gfx942", "v_mfma_i32_16x16x32_i8", 196, 44.3, 1.63, 4, (23.6, 49.2, 16), 0.48, 0.36),
    ("gfx1100", "v_wmma_f32_16x16x16_f16", 248, 83.6, 3.07, 2, (62, 46.4, 32), 0.79, 0.79),
    ("gfx1100", "v_wmma_f32_16x16x16_f16", 196, 142, 1.2, 4, (49, 72.8, 64), 0.36, 0.36),
]
"""Bytes of a slot, VALU instructions, slow ones among them and matrix instructions of a token in the public kernels
for head 256 and GQA group 6; then the clocks (HBM, VALU, matrix) and shares that were found for them."""


@pytest.mark.parametrize(
    ("arch", "mnemonic", "slot", "valu", "slow", "matrices", "expected", "share", "serial"), PUBLIC
)
def test_the_public_kernels_come_out_as_known(
    arch: str,
    mnemonic: str,
    slot: int,
    valu: float,
    slow: float,
    matrices: int,
    expected: tuple[float, float, float],
    share: float,
    serial: float,
) -> None:
    result = clocks(Counts(valu=valu, transcendental=slow, matrix={mnemonic: matrices}), slot, ARCHS[arch].costs)
    assert (result.hbm, result.valu, result.matrix) == pytest.approx(expected, abs=0.1)
    assert result.share == pytest.approx(share, abs=0.006)
    assert result.share_without_overlap == pytest.approx(serial, abs=0.006)


@pytest.mark.parametrize(
    ("valu", "matrix", "lds", "overlap", "bound"),
    [
        (9.0, 9.0, 9.0, True, "HBM"),
        (11.0, 1.0, 0.0, True, "VALU"),
        (1.0, 11.0, 0.0, True, "matrix"),
        (6.0, 6.0, 0.0, True, "HBM"),
        (6.0, 6.0, 0.0, False, "VALU+matrix"),
        (11.0, 0.0, 0.0, False, "VALU"),
        (10.0, 0.0, 10.0, False, "HBM"),
        (6.0, 6.0, 12.5, False, "LDS"),
    ],
)
def test_what_bounds_a_kernel(valu: float, matrix: float, lds: float, overlap: bool, bound: str) -> None:
    result = Clocks(hbm=10.0, valu=valu, transcendental=0.0, matrix=matrix, lds=lds, overlap=overlap)
    assert result.bound == bound
    assert (result.share == 1.0) is (bound == "HBM")


def test_a_kernel_that_executes_nothing_is_bound_by_hbm() -> None:
    result = clocks(Counts(), 216, GFX942)
    assert (result.bound, result.share, result.share_without_overlap, result.issue) == ("HBM", 1.0, 1.0, 0.0)


def test_only_the_chip_with_public_timings_is_called_calibrated() -> None:
    assert GFX942.calibration is None
    assert "63.9 ms" in str(GFX1100.calibration)
