"""``octave-gen check``."""

from __future__ import annotations

from dataclasses import asdict

import click

from octave_gen.cli.options import counted, json_option, say
from octave_gen.errors import WORK_FAILED


@click.command(short_help="Say whether generated/ and the documents are up to date.")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say whether generated/ and the generated blocks of README.md and docs/ are what specs and templates say.

    Works on the checkout of the current folder. Prints one line for every file that is missing, changed or an orphan,
    then what changed and the command that puts it right, and exits 1. What flydsl traces of its kernels is compared
    where it is installed: the first time, that takes a compile of each.
    """
    from octave_gen import manifest
    from octave_gen.build import drift

    found = drift.compare(drift.own_checkout(), say)
    if as_json:
        click.echo(manifest.dump([asdict(difference) for difference in found]), nl=False)
    else:
        for difference in found:
            click.echo(f"{difference.word} {difference.path}")
        if any(difference.diff for difference in found):
            click.echo("\n" + drift.excerpt(found))
    skipped = drift.skipped()
    if skipped:
        say(skipped)
    if found:
        click.echo(f"not what specs and templates say: {counted(len(found), 'file')}; fix: {drift.FIX}", err=True)
        ctx.exit(WORK_FAILED)
    places = "generated/, README.md and docs/"
    say(f"all else in {places} is up to date" if skipped else f"{places} are up to date")
