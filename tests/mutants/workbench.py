"""Builds a unit from edited templates, and runs the verify room's checks on its code object."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from mutants import REDUCE
from torch import Tensor

from octave_gen import __version__, isa, paths, plan, spec
from octave_gen.build import compile, render, toolchain
from octave_gen.build.records import unit_records
from octave_gen.build.toolchain import DeviceCompiler
from octave_gen.errors import OctaveError
from octave_gen.isa.faults import Place
from octave_gen.plan import Unit
from octave_gen.runtime.launch import Launch
from octave_gen.runtime.library import LoadedVariant, variants_of
from octave_gen.verify import checks
from octave_gen.verify.cases import FULL, QUICK, Case
from octave_gen.verify.executor import Interpreter
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject, subjects

SEED = 0


@dataclass(frozen=True)
class Built:
    """A compiled unit: its variants as a loaded library would give them, and its code object."""

    variants: tuple[LoadedVariant, ...]
    code_object: bytes


@dataclass(frozen=True)
class Finding:
    """What a check found wrong: the case, its set (``quick`` or ``full``) and the first line of the problem."""

    set: str
    case: Case
    problem: str


@dataclass(frozen=True)
class Workbench:
    """Compiles into folders of its own under ``folder``; ``units``: the shipped ones by name."""

    folder: Path
    compiler: DeviceCompiler
    units: dict[str, Unit]
    _merges: dict[str, Built] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path) -> Workbench:
        units = {unit.name: unit for unit in plan.units(plan.variants(spec.shipped()))}
        return cls(folder, toolchain.find("ziglang"), units)

    def edited(self, file: str, before: str, after: str) -> Path:
        """A copy of ``templates/`` with the one ``before`` of ``file`` replaced."""
        copy = self._fresh("templates")
        shutil.copytree(paths.templates(), copy)
        text = (copy / file).read_text()
        assert text.count(before) == 1, f"{file} has {text.count(before)} of {before!r}"
        (copy / file).write_text(text.replace(before, after))
        return copy

    def build(self, name: str, templates: Path | None = None, level: str = "-O3") -> Built:
        """Renders and compiles a unit from ``templates`` (None: the project's own) at an optimisation level."""
        unit = self.units[name]
        with pytest.MonkeyPatch.context() as patch:
            if templates is not None:
                patch.setattr(paths, "templates", lambda: templates)
            text = render.render_unit(unit)
            records = unit_records(unit, text)
            include = render.include_dir()
        folder = self._fresh("compile")
        folder.mkdir(parents=True)
        (folder / f"{name}.hip").write_text(text)
        compile.write_linker(folder, self.compiler)
        command = [level if word == "-O3" else word for word in compile.call(self.compiler, _arch(unit), include, name)]
        # an edit may leave a variable unused
        done = subprocess.run([*command, "-Wno-error"], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        variants = variants_of({"project": {"version": __version__}, "variants": records})
        return Built(variants, (folder / f"{name}.hsaco").read_bytes())

    def merge_for(self, unit: str, arch: str) -> Built | None:
        """The unit that takes a unit's partials: reduce behind decode, the chunk's behind the prefix's; None for
        others."""
        if unit.startswith("decode"):
            merge = f"{REDUCE}_{arch}"
        elif unit.startswith("prefill_prefix"):
            merge = f"prefill_chunk_h128_{unit.rsplit('_', 1)[1]}_{arch}"
        else:
            return None
        if merge not in self._merges:
            self._merges[merge] = self.build(merge)
        return self._merges[merge]

    def _fresh(self, kind: str) -> Path:
        return self.folder / f"{kind}{sum(1 for _ in self.folder.glob(f'{kind}*'))}"


def _arch(unit: Unit) -> str:
    return unit.first.arch.name


class Judge(Interpreter):
    """The interpreter, which must be able to execute what it is given: a kernel that it cannot is not a wrong one."""

    def run(
        self, code_object: isa.CodeObject, launch: Launch, tensors: Mapping[str, Tensor], outputs: Collection[str]
    ) -> isa.Counters:
        try:
            return super().run(code_object, launch, tensors, outputs)
        except OctaveError as error:
            kind = error.where.kind if isinstance(error.where, Place) else "no fault"
            if kind in ("internal", "unsupported", "no fault"):
                raise AssertionError(str(error)) from error
            raise


def findings(subject: Subject, executor: Interpreted, sets: Sequence[str]) -> Iterator[Finding]:
    """What the checks of ``sets`` find wrong with a variant, case by case."""
    for chosen in sets:
        for case in {"quick": QUICK, "full": FULL}[chosen][subject.kind]:
            problems = checks.run(subject, case, SEED, executor).problems
            if problems:
                yield Finding(chosen, case, problems[0].splitlines()[0])


def check_all(built: Built, merge: Built | None, sets: Sequence[str]) -> Iterator[Finding]:
    """What the checks find wrong with each variant of a unit; ``merge``: see `Workbench.merge_for`."""
    together = [built, *([merge] if merge is not None else [])]
    code_objects = {
        kernel.symbol: unit.code_object for unit in together for variant in unit.variants for kernel in variant.kernels
    }
    executor = Interpreted(code_objects, Judge())
    everything = [variant for unit in together for variant in unit.variants]
    own = {variant.symbol for variant in built.variants}
    for subject in subjects(everything):
        if subject.variant.symbol in own:
            yield from findings(subject, executor, sets)
