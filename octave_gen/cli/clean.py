"""``octave-gen clean``."""

from __future__ import annotations

from pathlib import Path

import click

from octave_gen import paths
from octave_gen.cli.options import built_arch_option, dry_run_option, out_option


@click.command(short_help="Remove what builds wrote.")
@built_arch_option
@out_option
@click.option("--cache", "with_cache", is_flag=True, help="Empty the compile cache too.")
@dry_run_option("Say what would be removed, and leave it.")
def command(archs: tuple[str, ...], out: Path | None, with_cache: bool, dry_run: bool) -> None:
    """Remove built libraries, their manifests and what failed builds kept.

    Files that no build wrote stay.
    """
    from octave_gen.build import clean

    def progress(line: str) -> None:
        click.echo(line, err=True)

    removed = clean.outputs(out or paths.default_out(), arch_names=archs, dry_run=dry_run, progress=progress)
    if with_cache:
        removed += clean.compile_cache(dry_run=dry_run, progress=progress)
    for item in removed:
        click.echo(f"remove {item.path}")
    megabytes = sum(item.size for item in removed) / 1e6
    click.echo(f"{megabytes:.1f} MB {'would be freed' if dry_run else 'freed'}", err=True)
