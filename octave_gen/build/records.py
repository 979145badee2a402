"""The records of planned units: rendered, hashed, not compiled."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from octave_gen import manifest
from octave_gen.build import render, toolchain
from octave_gen.build.flydsl import tool
from octave_gen.kernels.base import FLYDSL
from octave_gen.manifest import Record
from octave_gen.plan import Unit


@cache
def _file_sha256(path: Path) -> str:
    return manifest.sha256(path.read_bytes())


def unit_records(unit: Unit, source_text: str) -> list[Record]:
    """The records of the unit's variants; ``source_text`` is what :func:`render.render_unit` made of it."""
    templates = {render.relative_name(path): _file_sha256(path) for path in render.template_files(unit)}
    arch = unit.first.arch.name
    flags = tool.flags(arch) if unit.language == FLYDSL else toolchain.device_flags(arch)
    return [
        manifest.record(variant, source_text=source_text, templates=templates, flags=flags) for variant in unit.variants
    ]


def records(units: Iterable[Unit]) -> list[Record]:
    """The records of all variants of ``units``."""
    return [record for unit in units for record in unit_records(unit, render.render_unit(unit))]
