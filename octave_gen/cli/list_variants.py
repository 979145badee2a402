"""``octave-gen list-variants``."""

from __future__ import annotations

from pathlib import Path

import click

from octave_gen.cli.options import arch_option, choose, filter_option, json_option, spec_option


@click.command("list-variants")
@arch_option
@filter_option
@spec_option
@json_option
def command(archs: tuple[str, ...], pattern: str | None, spec_files: tuple[Path, ...], as_json: bool) -> None:
    """List the kernels that the specs ask for, one a line.

    A line is the variant's name, the bytes of a slot of its cache, and what is known of its kernels: compiled (not
    executed), interpreted (executed and checked on a CPU) or hardware (run on the chip).
    """
    chosen = choose(spec_files, archs, pattern)
    if as_json:
        from octave_gen import manifest, plan
        from octave_gen.build.records import records

        names = {variant.name for variant in chosen.selected}
        units = plan.units(plan.with_siblings(chosen.selected, chosen.planned))
        click.echo(manifest.dump([record for record in records(units) if record["name"] in names]), nl=False)
        return
    from octave_gen.manifest import slot_bytes

    width = max(len(variant.name) for variant in chosen.selected)
    for variant in chosen.selected:
        slot = f"slot={slot_bytes(variant) or '-'}"
        click.echo(f"{variant.name:{width}}  {slot:8}  evidence={variant.arch.evidence.level}")
    click.echo(f"{len(chosen.selected)} variants", err=True)
