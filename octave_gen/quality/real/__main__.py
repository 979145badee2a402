"""``python -m octave_gen.quality.real``: measures, and prints the tables of docs/quality.md."""

from __future__ import annotations

from pathlib import Path

import click

from octave_gen.errors import OctaveError
from octave_gen.quality.real.recipe import Recipe
from octave_gen.quality.real.report import report


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--report", "report_only", is_flag=True, help="Print the tables of what has been measured.")
@click.option("--formats", multiple=True, metavar="GLOB", default=("*",), help="Only those formats; repeatable.")
def main(folder: Path, report_only: bool, formats: tuple[str, ...]) -> None:
    """Measure in FOLDER, whose package/ holds the unpacked text; what is there already is not measured again."""
    recipe = Recipe(folder, lambda line: click.echo(line, err=True))
    if not report_only:
        recipe.capture()
        recipe.measure(formats)
    click.echo(report(recipe), nl=False)


if __name__ == "__main__":
    try:
        main()
    except OctaveError as error:
        raise SystemExit(f"error: {error}") from error
