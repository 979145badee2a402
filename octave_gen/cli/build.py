"""``octave-gen build``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from octave_gen import paths
from octave_gen.cli.options import (
    arch_option,
    choose,
    dry_run_option,
    filter_option,
    json_option,
    out_option,
    say,
    spec_option,
)

if TYPE_CHECKING:
    from octave_gen.build.preview import Step
    from octave_gen.build.target import BuiltLibrary

COMPILERS = ("ziglang", "clang-22", "rocm")


@click.command()
@arch_option
@filter_option
@spec_option
@out_option
@click.option(
    "--compiler", type=click.Choice(COMPILERS), default=COMPILERS[0], show_default=True, help="The device compiler."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Compiles at once. Default: as cores and memory allow."
)
@click.option("--keep-going", is_flag=True, help="After a failure build the rest all the same; exit 1 in the end.")
@dry_run_option("Say what would be compiled and what the cache holds, and build nothing.")
@json_option
def command(
    archs: tuple[str, ...],
    pattern: str | None,
    spec_files: tuple[Path, ...],
    out: Path | None,
    compiler: str,
    jobs: int | None,
    keep_going: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Build one shared object for torch, with its manifest, for every chip.

    Needs neither ROCm nor a GPU. Prints the paths of each library and manifest; progress goes to stderr. With --filter
    a library holds what matches and what shares a code object with it (the other query dtype); it takes the place of
    the library that is in its folder. Kernels in FlyDSL are left out where flydsl is not installed, which is said.
    """
    from octave_gen import plan
    from octave_gen.build import pipeline, preview

    chosen = choose(spec_files, archs, pattern)
    planned = plan.with_siblings(chosen.selected, chosen.planned)
    folder = out or paths.default_out()
    if dry_run:
        _print_steps(preview.preview(planned, out=folder, compiler=compiler, progress=say), as_json)
        return
    built = pipeline.build(planned, out=folder, compiler=compiler, jobs=jobs, keep_going=keep_going, progress=say)
    _print_built(built, as_json)


def _print_steps(steps: list[Step], as_json: bool) -> None:
    from octave_gen import manifest

    if as_json:
        click.echo(manifest.dump([asdict(step) for step in steps]), nl=False)
        return
    for step in steps:
        click.echo(f"{step.action:10} {step.unit}")
    counts = Counter(step.action for step in steps)
    click.echo(", ".join(f"{count} {action}" for action, count in sorted(counts.items())), err=True)


def _print_built(built: list[BuiltLibrary], as_json: bool) -> None:
    from octave_gen import manifest

    if as_json:
        summary = [
            {**asdict(item), "library": str(item.library), "manifest": str(item.manifest)}
            | {key: value for key, value in manifest.read(item.manifest)["library"].items() if key != "file"}
            for item in built
        ]
        click.echo(manifest.dump(summary), nl=False)
        return
    for item in built:
        click.echo(item.library)
        click.echo(item.manifest)
