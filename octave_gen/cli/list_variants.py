"""``octave-gen list-variants``."""

from __future__ import annotations

from pathlib import Path

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
    executed; interpreted: executed and checked on a CPU; hardware: run on the chip), and whether a library that was
    built holds a kernel of that name.
    """
    chosen = choose(spec_files, archs, pattern)
    if as_json:
        _print_json(chosen)
        return
    from octave_gen.manifest import slot_bytes

    built = _built(out or paths.default_out(), {variant.arch.name for variant in chosen.selected})
    width = max(len(variant.name) for variant in chosen.selected)
    for variant in chosen.selected:
        slot = f"slot={slot_bytes(variant) or '-'}"
        here = "yes" if variant.name in built else "no"
        click.echo(f"{variant.name:{width}}  {slot:8}  evidence={variant.arch.evidence.level}  built={here}")
    click.echo(f"{len(chosen.selected)} variants", err=True)


def _print_json(chosen: Chosen) -> None:
    from octave_gen import manifest, plan
    from octave_gen.build.records import records

    names = {variant.name for variant in chosen.selected}
    units = plan.units(plan.with_siblings(chosen.selected, chosen.planned))
    click.echo(manifest.dump([record for record in records(units) if record["name"] in names]), nl=False)


def _built(out: Path, archs: set[str]) -> set[str]:
    """Names of the variants that libraries in ``out`` hold."""
    from octave_gen import manifest

    found = (manifest.read_built(out, arch) for arch in archs)
    return {record["name"] for built in found if built for record in built["variants"]}
