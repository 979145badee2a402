"""Tiny units in FlyDSL: one kernel of a few instructions for fp16 and bf16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tiny_units import ARGUMENTS, BUDGET, THREADS

from octave_gen import arch as archs
from octave_gen.build import records, render, target
from octave_gen.build.cache import Cache
from octave_gen.build.compile import Compiled
from octave_gen.build.flydsl import tool
from octave_gen.build.flydsl.compile import FlyJob, compile_units
from octave_gen.build.target import Source
from octave_gen.kernels.base import FLYDSL, Extent, Geometry, KernelKind, Shape, Tier
from octave_gen.plan import Unit, Variant
from octave_gen.spec.model import Budget

KERNELS = Path(__file__).resolve().parent / "kernels"
Mnemonics = tuple[tuple[str, ...], ...]


def fly_unit(
    module: str = "sound",
    head_size: int = 64,
    arch: str = "gfx942",
    budget: Budget = BUDGET,
    mnemonics: Mnemonics = (),
    threads: int = THREADS,
) -> Unit:
    """A unit of two variants of the kernel module ``kernels/<module>.py``."""
    geometry = Geometry(threads, (Extent("count", threads),))
    tier = Tier(
        "flydsl",
        str(KERNELS / f"{module}.py"),
        ARGUMENTS,
        lambda s, a: geometry,
        lambda s, a: {"rows": 3},
        lambda s, a: None,
        language=FLYDSL,
        mnemonics=mnemonics,
    )
    kind = KernelKind(module, "rotate", "a test's kernel", (), (tier,))
    chip = archs.ARCHS.get(arch) or replace(archs.get("gfx942"), name=arch)
    shapes = [Shape("octave", head_size, scalar) for scalar in ("bf16", "f16")]
    variants = tuple(Variant(kind, shape, tier, chip, budget, ("tiny.toml",)) for shape in shapes)
    return Unit(variants[0].unit, variants[0].source, variants)


def source(unit: Unit) -> Source:
    text = render.render_unit(unit)
    return Source(unit, text, tuple(records.unit_records(unit, text)))


def job(unit: Unit) -> FlyJob:
    return target.fly_job(source(unit), tool.find())


@dataclass
class Shop:
    """Compiles tiny units in a folder of a test's own. ``lines``: the progress."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    @property
    def store(self) -> Cache:
        return Cache(self.folder / "cache", 1 << 30, 60.0, self.lines.append)

    def compile(self, units: Sequence[Unit], *, keep_going: bool = True, parallel: int = 2) -> Compiled:
        with self.store.writing() as session:
            return compile_units(
                [job(unit) for unit in units],
                flydsl=tool.find(),
                session=session,
                parallel=parallel,
                keep_going=keep_going,
                progress=self.lines.append,
            )


@dataclass(frozen=True)
class Batch:
    """Units that were compiled together, by the name of their kernel module and the chip where it is not gfx942."""

    units: Mapping[str, Unit]
    compiled: Compiled
    shop: Shop

    def code(self, name: str) -> bytes:
        return self.compiled.code_objects[self.units[name].name]

    def failure(self, name: str) -> tuple[int, str]:
        (found,) = (f for f in self.compiled.failures if f.job.name == self.units[name].name)
        return found.status, found.log


@dataclass(frozen=True)
class Unchecked:
    """What flydsl makes of units when nobody looks at its exit status and output. ``raised``: by unit."""

    folder: Path
    stderr: str
    status: int
    raised: dict[str, str] = field(default_factory=dict)

    def code(self, unit: Unit) -> bytes:
        return (self.folder / f"{unit.name}.hsaco").read_bytes()
