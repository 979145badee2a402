"""What the issue model of ``profile`` charges: for how many clocks an instruction keeps its SIMD, LDS or HBM busy.

Instruction rates: AMD's "CDNA3", "CDNA4" and "RDNA3" instruction set documents (a wave64 passes a CDNA SIMD of 16 lanes
in four clocks, a wave32 an RDNA SIMD in one) and LLVM's SISchedule.td (quarter-rate instructions). Matrix rates: the
peak rates of the products below, which are ``compute_units * simds * rate * clock``; but no MFMA takes fewer clocks
than it has rows (its passes in SISchedule.td), so that CDNA4 does the narrow ones, which it shares with CDNA3, at half
its rate.
LDS: 32 banks of 4 bytes a clock; CDNA4 has 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from octave_gen.arch.layouts import MatrixLayout

QUARTER_RATE_MULTIPLIES = frozenset({"v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32", "v_mad_i64_i32"})
"""32-bit integer multiplies, which take as long as transcendental instructions; the 24-bit ones do not."""


@dataclass(frozen=True)
class LoneWave:
    """When a wave that has its SIMD to itself can go on; clocks.

    slot: from one of its instructions to the next. From the issue of an instruction to that of one that reads its
    result: vector, transcendental, multiply (32-bit integer), scalar; matrix and accumulate (into the same registers)
    come on top of the matrix instruction's own clocks. lds: until LDS has answered. branch: a taken one.
    """

    slot: int
    vector: int
    transcendental: int
    multiply: int
    scalar: int
    matrix: int
    accumulate: int
    lds: int
    branch: int


CDNA3_LONE_WAVE = LoneWave(
    # LLVM's SISchedule.td (SIDPGFX940FullSpeedModel, in units of four clocks) and GCNHazardRecognizer (a matrix result
    # is read passes + 3 slots later, or at once as the next accumulator). LDS: SISchedule.td says 2 to 64 slots; 16 is
    # assumed.
    slot=4,
    vector=4,
    transcendental=16,
    multiply=16,
    scalar=4,
    matrix=12,
    accumulate=0,
    lds=64,
    branch=32,
)

CDNA4_LONE_WAVE = replace(
    # SIDPGFX950FullSpeedModel says the same, but GCNHazardRecognizer wants one slot more after a matrix instruction,
    # and clang waits that long.
    CDNA3_LONE_WAVE,
    matrix=16,
)

RDNA3_LONE_WAVE = LoneWave(
    # LLVM's SISchedule.td (GFX11SpeedModel), but for LDS, where it says 20 and CDNA3's 64 are assumed. Of WMMA it says
    # nothing: a result is assumed to come as late behind its last clock as another vector result.
    slot=1,
    vector=5,
    transcendental=10,
    multiply=8,
    scalar=2,
    matrix=5,
    accumulate=0,
    lds=64,
    branch=32,
)


@dataclass(frozen=True)
class IssueCosts:
    """The figures of one product, for waves of the arch's own size.

    valu: clocks of a vector instruction on its SIMD; quarter_rate: of a transcendental one or a 32-bit integer
    multiply; matrix_rate: multiplications and additions of a SIMD per clock, by the element of A and B;
    matrix_overlaps_valu: whether matrix and other vector instructions of different waves run side by side; lds_bytes:
    per clock of a CU; memory_bandwidth: bytes per second; lone_wave: what keeps a single wave waiting; calibration:
    what the model's figures were held against, or None.
    """

    product: str
    compute_units: int
    clock: float
    memory_bandwidth: float
    simds: int
    valu: int
    quarter_rate: int
    matrix_rate: Mapping[str, int]
    matrix_overlaps_valu: bool
    lds_bytes: int
    lone_wave: LoneWave
    calibration: str | None

    @property
    def hbm_bytes(self) -> float:
        """Bytes of HBM (or GDDR) that one CU gets per clock when all of them read."""
        return self.memory_bandwidth / (self.compute_units * self.clock)

    def matrix(self, layout: MatrixLayout) -> float:
        """Clocks of a matrix instruction on its SIMD."""
        return max(2 * layout.rows * layout.columns * layout.depth / self.matrix_rate[layout.element], layout.rows)


MI300X = IssueCosts(
    # AMD's data sheet: 304 CUs, 2100 MHz, 5.3 TB/s; 1307.4 TFLOPS fp16 and bf16, 2614.9 TOPS int8.
    product="Instinct MI300X",
    compute_units=304,
    clock=2.1e9,
    memory_bandwidth=5.3e12,
    simds=4,
    valu=4,
    quarter_rate=16,
    matrix_rate={"f16": 512, "bf16": 512, "i8": 1024},
    matrix_overlaps_valu=True,
    lds_bytes=128,
    lone_wave=CDNA3_LONE_WAVE,
    calibration=None,
)

MI355X = IssueCosts(
    # AMD's data sheet: 256 CUs, 2400 MHz, 8 TB/s; 2516.6 TFLOPS fp16 and bf16, 5033.2 TOPS int8, all dense. VALU as on
    # CDNA3. LDS reads go at 256 bytes a clock (AMD's announcement of CDNA4: twice CDNA3's); what stores and bank
    # conflicts take is counted besides.
    product="Instinct MI355X",
    compute_units=256,
    clock=2.4e9,
    memory_bandwidth=8e12,
    simds=4,
    valu=4,
    quarter_rate=16,
    matrix_rate={"f16": 1024, "bf16": 1024, "i8": 2048},
    matrix_overlaps_valu=True,
    lds_bytes=256,
    lone_wave=CDNA4_LONE_WAVE,
    calibration=None,
)

RX_7900_XTX = IssueCosts(
    # AMD's product page: 96 CUs, 2500 MHz, 960 GB/s; "How to accelerate AI applications on RDNA 3 using WMMA": 512
    # operations per clock and CU for fp16, bf16 and int8. WMMA occupies the VALU.
    product="Radeon RX 7900 XTX",
    compute_units=96,
    clock=2.5e9,
    memory_bandwidth=960e9,
    simds=2,
    valu=1,
    quarter_rate=4,
    matrix_rate={"f16": 256, "bf16": 256, "iu8": 256},
    matrix_overlaps_valu=False,
    lds_bytes=128,
    lone_wave=RDNA3_LONE_WAVE,
    calibration="64.0 ms for the public Octave kernels' prefill of 2k tokens over 380k, published as 63.9 ms",
)
