"""``octave-gen list-variants``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from octave_gen import paths
from octave_gen.cli.options import (
    Chosen,
    arch_option,
    choose,
    filter_option,
    json_option,
    out_option,
    spec_option,
)

if TYPE_CHECKING:
    from octave_gen.verify.record import Entries


@click.command("list-variants")
@arch_option
@filter_option
@spec_option
@out_option
@json_option
def command(
    archs: tuple[str, ...], pattern: str | None, spec_files: tuple[Path, ...], out: Path | None, as_json: bool
) -> None:
    """List the kernels that the specs ask for, one a line.

    A line is the variant's name, the bytes of a slot of its cache, what is known of its kernels (compiled: not
    executed; interpreted: executed and checked on a CPU; hardware: run on the chip), whether a library that was built
    holds a kernel of that name, and what `octave-gen verify` found out about that library's code object.
    """
    chosen = choose(spec_files, archs, pattern)
    built = _built(out or paths.default_out(), {variant.arch.name for variant in chosen.selected})
    if as_json:
        _print_json(chosen, built)
        return
    from octave_gen.manifest import slot_bytes
    from octave_gen.verify.record import words

    width = max(len(variant.name) for variant in chosen.selected)
    for variant in chosen.selected:
        slot = f"slot={slot_bytes(variant) or '-'}"
        here = "no" if variant.name not in built else f"yes  {words(built[variant.name])}"
        click.echo(f"{variant.name:{width}}  {slot:8}  evidence={variant.arch.evidence.level}  built={here}")
    click.echo(f"{len(chosen.selected)} variants", err=True)


def _print_json(chosen: Chosen, built: Mapping[str, Entries]) -> None:
    from octave_gen import manifest, plan
    from octave_gen.build.records import records

    names = {variant.name for variant in chosen.selected}
    units = plan.units(plan.with_siblings(chosen.selected, chosen.planned))
    found = [record for record in records(units) if record["name"] in names]
    for record in found:
        if built.get(record["name"]):
            record["verification"] = built[record["name"]]
    click.echo(manifest.dump(found), nl=False)


def _built(out: Path, archs: set[str]) -> dict[str, Entries]:
    """The variants that libraries in ``out`` hold, and what was recorded of the verification of their code objects."""
    from octave_gen import manifest
    from octave_gen.verify import record

    found: dict[str, Entries] = {}
    for arch in archs:
        built, known = manifest.read_built(out, arch), record.read(out / arch)
        variants = built["variants"] if built else ()
        found |= {variant["name"]: record.entries_of(known, variant) for variant in variants}
    return found
