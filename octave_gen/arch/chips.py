"""The chips as data: what a kernel, a budget and the command line need to know of each.

Register and LDS figures: AMD's "CDNA3", "CDNA4" and "RDNA3" instruction set documents; the occupancy rule built on them
agrees with the compiler's own remark on the kernels of this project. LDS granules: LLVM's ``getLdsDwGranularity``.

A chip may be there on request only: its kernels can be built, executed in the interpreter and counted, but nothing
takes it for granted. No plan holds it unless it is named (``--arch``, or a variant's name), so the lists, ``generate``
and ``check`` leave it out, and ``build`` wants ``--allow-unvalidated`` besides. The README's table of chips shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from octave_gen.arch.costs import MI300X, MI355X, RX_7900_XTX, IssueCosts
from octave_gen.errors import did_you_mean, wrong_request

PORTABLE = "portable"
"""The tier that every chip offers; the others are for matrix cores."""
ALLOW_UNVALIDATED = "--allow-unvalidated"
"""The option of ``build`` that chips on request need."""


@dataclass(frozen=True)
class Evidence:
    """What is known of the kernels of a chip.

    level: ``compiled`` (built, not executed), ``interpreted`` (executed and checked by an interpreter on a CPU), or
    ``hardware`` (run on the chip); ``by`` and ``when`` (ISO date) say who ran them on hardware.
    """

    level: str
    by: str | None = None
    when: str | None = None


@dataclass(frozen=True)
class Arch:
    """One supported chip.

    Registers are counted per lane, LDS in bytes. ``lds_scope`` bytes are shared by the ``lds_simds`` SIMDs that one
    workgroup can run on (a CU on CDNA, a WGP on RDNA). ``unified_registers``: AGPRs come out of the VGPR file.
    ``max_sgprs`` is the largest count that a code object reports, VCC and the other reserved registers included.
    ``elf_machine``: EF_AMDGPU_MACH in the flags of its code objects (LLVM, "User Guide for AMDGPU Backend").
    ``costs``: of the issue model, for one product with this chip.
    ``on_request``: why nothing is planned for the chip unless it is named, and built only with ``ALLOW_UNVALIDATED``;
    None for the other chips.
    """

    name: str
    elf_machine: int
    family: str
    product: str
    wave_size: int
    tiers: tuple[str, ...]
    vgpr_file: int
    vgpr_granule: int
    max_vgprs: int
    max_sgprs: int
    unified_registers: bool
    max_waves_per_simd: int
    lds_scope: int
    lds_simds: int
    lds_granule: int
    max_workgroup_lds: int
    costs: IssueCosts
    evidence: Evidence
    on_request: str | None = None

    @property
    def gfx9(self) -> bool:
        """Whether its instruction set is of LLVM's gfx9 line (CDNA)."""
        return self.family.startswith("CDNA")

    @property
    def matrix_tier(self) -> str | None:
        """The first tier for the chip's matrix cores; None where it has none."""
        return next((tier for tier in self.tiers if tier != PORTABLE), None)

    @property
    def workgroup_places(self) -> int:
        """CUs of the chip, or WGPs where it hands workgroups to those."""
        return self.costs.compute_units * self.costs.simds // self.lds_simds

    def occupancy(self, vgprs: int, lds_bytes: int, threads: int) -> int:
        """Waves per SIMD that fit. ``vgprs``: the code object's vgpr count (it contains the AGPRs)."""
        granules = max(1, -(-vgprs // self.vgpr_granule))
        waves = min(self.max_waves_per_simd, self.vgpr_file // (granules * self.vgpr_granule))
        if lds_bytes:
            workgroups = self.lds_scope // (-(-lds_bytes // self.lds_granule) * self.lds_granule)
            waves_per_workgroup = -(-threads // self.wave_size)
            waves = min(waves, workgroups * waves_per_workgroup // self.lds_simds)
        return waves


ARCHS: dict[str, Arch] = {
    arch.name: arch
    for arch in (
        Arch(
            name="gfx942",
            elf_machine=0x4C,
            family="CDNA3",
            product="Instinct MI300",
            wave_size=64,
            tiers=(PORTABLE, "mfma", "flydsl"),
            vgpr_file=512,
            vgpr_granule=8,
            max_vgprs=512,
            max_sgprs=108,
            unified_registers=True,
            max_waves_per_simd=8,
            lds_scope=65536,
            lds_simds=4,
            lds_granule=512,
            max_workgroup_lds=65536,
            costs=MI300X,
            evidence=Evidence("interpreted"),
        ),
        Arch(
            name="gfx1100",
            elf_machine=0x41,
            family="RDNA3",
            product="Radeon RX 7900",
            wave_size=32,
            tiers=(PORTABLE, "wmma"),
            vgpr_file=1536,
            vgpr_granule=24,
            max_vgprs=256,
            max_sgprs=108,
            unified_registers=False,
            max_waves_per_simd=16,
            lds_scope=131072,
            lds_simds=4,
            lds_granule=1024,
            max_workgroup_lds=65536,
            costs=RX_7900_XTX,
            evidence=Evidence("interpreted"),
        ),
        Arch(
            name="gfx950",
            elf_machine=0x4F,
            family="CDNA4",
            product="Instinct MI350",
            wave_size=64,
            tiers=(PORTABLE, "mfma", "flydsl"),
            vgpr_file=512,
            vgpr_granule=8,
            max_vgprs=512,
            max_sgprs=108,
            unified_registers=True,
            max_waves_per_simd=8,
            lds_scope=163840,
            lds_simds=4,
            lds_granule=1280,
            max_workgroup_lds=163840,
            costs=MI355X,
            evidence=Evidence("interpreted"),
            on_request="no kernel was launched on it, and the layouts of its wide matrix instructions are assumed",
        ),
    )
}

UNSUPPORTED: dict[str, str] = {
    "gfx900": "Vega has no int8 dot product",
    "gfx906": "no kernel has been built or checked for it",
    "gfx908": "CDNA1: no kernel has been built or checked for it",
    "gfx90a": "CDNA2: its int8 matrix instruction is narrower than the one the kernels use",
    "gfx940": "a pre-production CDNA3 stepping; the product is gfx942",
    "gfx941": "a pre-production CDNA3 stepping; the product is gfx942",
    "gfx1030": "RDNA2 has no matrix instruction; no kernel has been built or checked for it",
    "gfx1101": "RDNA3, but no kernel has been checked for it; only gfx1100 is supported",
    "gfx1102": "RDNA3, but no kernel has been checked for it; only gfx1100 is supported",
    "gfx1103": "RDNA3, but no kernel has been checked for it; only gfx1100 is supported",
    "gfx1150": "RDNA3.5: no kernel has been built or checked for it",
    "gfx1151": "RDNA3.5: no kernel has been built or checked for it",
    "gfx1200": "RDNA4 lays out matrix operands in another way; no kernel has been built or checked for it",
    "gfx1201": "RDNA4 lays out matrix operands in another way; no kernel has been built or checked for it",
}


def refusal(name: str) -> str | None:
    """Why there are no kernels for the chip ``name``, or None when it is supported."""
    if name in ARCHS:
        return None
    supported = f"supported: {supported_words()}"
    if name in UNSUPPORTED:
        return f"{name} is not supported: {UNSUPPORTED[name]}; {supported}"
    return f"{name!r} is no arch that octave-gen knows{did_you_mean(name, list(ARCHS))}; {supported}"


def supported_words() -> str:
    """The supported chips, those on request last."""
    on_request = [chip.name for chip in ARCHS.values() if chip.on_request]
    always = ", ".join(name for name in ARCHS if name not in on_request)
    return always + (f"; on request: {', '.join(on_request)}" if on_request else "")


def build_command(name: str) -> str:
    """The command that builds the kernels of the chip ``name``."""
    on_request = name in ARCHS and ARCHS[name].on_request
    return f"octave-gen build --arch {name}" + (f" {ALLOW_UNVALIDATED}" if on_request else "")


def get(name: str) -> Arch:
    """The chip ``name``; raises OctaveError with the reason for a chip that is not supported."""
    reason = refusal(name)
    if reason:
        raise wrong_request(reason, where="arch", hint="name a supported arch with --arch")
    return ARCHS[name]
