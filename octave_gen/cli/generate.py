"""``octave-gen generate``."""

from __future__ import annotations

import click

from octave_gen.cli.options import counted, dry_run_option, say


@click.command(short_help="Write generated/ and the blocks of documents anew.")
@dry_run_option("Say what would be written or removed, and leave it.")
def command(dry_run: bool) -> None:
    """Make generated/ and the generated blocks of README.md and docs/ what specs and templates say.

    Works on the checkout of the current folder. Files of generated/ that no spec asks for are removed. For kernels in
    FlyDSL that have changed it needs flydsl.
    """
    from octave_gen.build import drift

    found = drift.generate(drift.own_checkout(), dry_run=dry_run, progress=say)
    for difference in found:
        verb = "remove" if difference.word == drift.ORPHAN else "write"
        click.echo(f"{verb} {difference.path}")
    skipped = drift.skipped()
    if skipped:
        say(skipped)
    click.echo(f"{counted(len(found), 'file')} {'would change' if dry_run else 'changed'}", err=True)
