"""Tiny units in place of the catalogue's: one kernel of a few instructions for fp16 and bf16, compiled in 0.1 s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from octave_gen import arch as archs
from octave_gen import manifest
from octave_gen.build import cache, link, toolchain
from octave_gen.build.bundle import Kernel
from octave_gen.build.cache import Cache
from octave_gen.build.compile import Job, compile_units
from octave_gen.build.pipeline import BuiltLibrary, Source, Tools, build_targets, by_arch
from octave_gen.kernels.base import F32, I32, I64, Argument, Extent, Geometry, KernelKind, Shape, Tier, pointer
from octave_gen.plan import Unit, Variant
from octave_gen.spec.model import Budget

THREADS = 64
ARGUMENTS = (
    Argument("x", pointer("const Scalar*")),
    Argument("y", pointer("float*")),
    Argument("count", I32),
    Argument("stride", I64),
    Argument("scale", F32),
)
BUDGET = Budget(vgprs=32, agprs=0, sgprs=32, lds_bytes=0, occupancy=8)

PRELUDE = """\
#include "tiny.h"
#define KERNEL extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 64))) void
#define ARGUMENTS(T) const T* x, float* y, int count, long stride, float scale
"""
BODY = """\
  int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (i < count) y[i * stride] = static_cast<float>(x[i]) * scale + TINY;
"""
TYPES = {"f16": "_Float16", "bf16": "__bf16"}


def tiny_unit(head_size: int = 64, arch: str = "gfx942", budget: Budget = BUDGET) -> Unit:
    """A unit of two variants whose kernels take ``ARGUMENTS``."""
    geometry = Geometry(THREADS, (Extent("count", THREADS),))
    tier = Tier("portable", "tiny.hip.j2", ARGUMENTS, lambda s, a: geometry, lambda s, a: {}, lambda s, a: None)
    kind = KernelKind("tiny", "rotate", "a test's kernel", (), (tier,))
    chip = archs.get(arch)
    shapes = [Shape("octave", head_size, scalar) for scalar in ("bf16", "f16")]
    variants = tuple(Variant(kind, shape, tier, chip, budget, ("tiny.toml",)) for shape in shapes)
    return Unit(variants[0].unit, variants[0].source, variants)


def tiny_text(unit: Unit, body: str = BODY, prelude: str = PRELUDE) -> str:
    """The source of a tiny unit; ``body`` is each kernel's."""
    kernels = [f"KERNEL {v.name}(ARGUMENTS({TYPES[v.shape.scalar]})) {{\n{body}}}\n" for v in unit.variants]
    return prelude + "".join(kernels)


def source(unit: Unit, text: str | None = None, header: str = "") -> Source:
    text = tiny_text(unit) if text is None else text
    templates = {"include/tiny.h": manifest.sha256(header)}
    flags = toolchain.device_flags(unit.first.arch.name)
    made = [manifest.record(v, source_text=text, templates=templates, flags=flags) for v in unit.variants]
    return Source(unit, text, tuple(made))


@dataclass
class Workshop:
    """Builds tiny units in folders of a test's own. ``lines``: the progress of all builds."""

    folder: Path
    tools: Tools
    monkeypatch: pytest.MonkeyPatch
    lines: list[str] = field(default_factory=list)

    def cache_at(self, name: str) -> Path:
        """Makes ``name`` the folder of the cache."""
        path = self.folder / name
        self.monkeypatch.setenv("OCTAVE_CACHE_DIR", str(path))
        return path

    def build(
        self, sources: list[Source], out: str | Path = "out", *, jobs: int | None = None, keep_going: bool = False
    ) -> list[BuiltLibrary]:
        targets = by_arch(sources, self.tools, self.folder / out)
        return build_targets(targets, jobs=jobs, keep_going=keep_going, progress=self.lines.append)


def make_workshop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    include = folder / "include"
    include.mkdir(parents=True, exist_ok=True)
    (include / "tiny.h").write_text("#define TINY 1.0f\n")
    tools = Tools(toolchain.find("ziglang"), link.find_compiler(), link.find_torch(), include)
    workshop = Workshop(folder, tools, monkeypatch)
    workshop.cache_at("cache")
    return workshop


@dataclass(frozen=True)
class Built:
    """Two tiny units for gfx942 and one for gfx1100, built once for all tests that only read them."""

    workshop: Workshop
    sources: dict[str, list[Source]]
    libraries: dict[str, BuiltLibrary]


def pretended_link(linked: Callable[[str], None]) -> Callable[..., link.Library]:
    """Stands in for `link.link`: a library that is no more than its bundles; tells ``linked`` the arch."""

    def pretend(bundles: bytes, kernels: Sequence[Kernel], *, arch: str, **rest: object) -> link.Library:
        linked(arch)
        return link.Library(b"\x7fELF" + bundles, link.namespace(bundles, kernels))

    return pretend


def compile_texts(texts: dict[str, str], folder: Path, arch: str = "gfx942") -> dict[str, bytes]:
    """The code objects of texts that must compile; headers are looked for in ``folder``."""
    store = Cache(folder / "cache", 1 << 30, 60.0, lambda line: None)
    jobs = [Job(name, text, arch, cache.key("test", text=text, arch=arch)) for name, text in texts.items()]
    with store.writing() as session:
        compiled = compile_units(
            jobs,
            compiler=toolchain.find("ziglang"),
            include=folder,
            session=session,
            parallel=2,
            keep_going=False,
            progress=lambda line: None,
        )
    assert not compiled.failures, "".join(failure.log for failure in compiled.failures)
    return compiled.code_objects
