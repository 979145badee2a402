"""``octave-gen doctor``."""

from __future__ import annotations

from dataclasses import asdict

import click

from octave_gen.cli.options import json_option
from octave_gen.errors import WORK_FAILED


@click.command(short_help="Say which tools are found, and how to get others.")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say which tools are found, what each is for, and how to get it.

    Exits 1 when something is missing that a build with default options needs.
    """
    from octave_gen import manifest
    from octave_gen.build import doctor

    findings = doctor.examine()
    if as_json:
        click.echo(manifest.dump([{**asdict(f), "usable": f.usable} for f in findings]), nl=False)
    else:
        for finding in findings:
            word = "found" if finding.usable else "missing" if finding.needed else "absent"
            version = f"{finding.version}: " if finding.version else ""
            click.echo(f"{word:8} {finding.name:13} {version}{finding.purpose}")
            if not finding.usable:
                click.echo(f"{'':22} {finding.problem or 'to get it'}: {finding.remedy}")
    if not doctor.can_build(findings):
        click.echo("a build needs what is missing above", err=True)
        ctx.exit(WORK_FAILED)
