"""Builds decode's units in FlyDSL, of the project's own kernels or of edited ones, for the verify room's checks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from workbench import Built, Workbench

from octave_gen import __version__, paths
from octave_gen.build import render
from octave_gen.build.flydsl import sources, tool
from octave_gen.build.records import unit_records
from octave_gen.kernels import KINDS
from octave_gen.plan import Unit
from octave_gen.runtime.library import variants_of

ROOM = "octave_gen/kernels/flydsl"


@dataclass(frozen=True)
class FlyBench:
    """Compiles into folders of its own under ``folder``; ``hip``: the bench of the templates."""

    folder: Path
    hip: Workbench

    def unit(self, name: str) -> Unit:
        """``decode_…_flydsl_<arch>``: the mfma tier's unit in FlyDSL, with its budget."""
        mfma = self.hip.units[name.replace("_flydsl_", "_mfma_")]
        tier = KINDS["decode"].tier("flydsl")
        variants = tuple(replace(variant, tier=tier) for variant in mfma.variants)
        return Unit(variants[0].unit, variants[0].source, variants)

    def edited(self, file: str, before: str, after: str) -> Path:
        """A copy of the package with the one ``before`` of a kernel's ``file`` replaced; the folder it is in."""
        copy = self._fresh("package")
        shutil.copytree(paths.PACKAGE, copy / paths.PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        place = copy / ROOM / file
        text = place.read_text()
        assert text.count(before) == 1, f"{file} has {text.count(before)} of {before!r}"
        place.write_text(text.replace(before, after))
        return copy

    def build(self, name: str, package: Path | None = None) -> Built:
        """Compiles a unit with the package in a folder (None: the project's own), in a process of its own."""
        unit = self.unit(name)
        text = render.render_unit(unit)
        records = unit_records(unit, text)
        folder = self._fresh("compile")
        folder.mkdir(parents=True)
        tool.write_linker(folder, tool.find())
        job = json.loads(sources.job(unit))
        environment = tool.environment(unit.first.arch.name, folder)
        if package is not None:
            job["file"] = str(package / ROOM / "decode.py")
            environment["PYTHONPATH"] = str(package)
        (folder / "job.json").write_text(json.dumps(job))
        command = [sys.executable, "-m", "octave_gen.build.flydsl.unit", "job.json"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stderr
        variants = variants_of({"project": {"version": __version__}, "variants": records})
        return Built(variants, (folder / f"{unit.name}.hsaco").read_bytes())

    def _fresh(self, kind: str) -> Path:
        return self.folder / f"{kind}{sum(1 for _ in self.folder.glob(f'{kind}*'))}"
