"""``octave-gen profile``."""

from __future__ import annotations

from pathlib import Path

import click

from octave_gen import paths
from octave_gen.cli.options import (
    Chosen,
    built_arch_option,
    choose,
    complete_variant,
    filter_option,
    json_option,
    out_option,
    spec_option,
)
from octave_gen.errors import wrong_request

LEAST_TOKENS = 16


def _lengths(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    words = [word.strip() for word in value.split(",")]
    if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 8 for word in words):
        raise click.BadParameter(f"{value!r} is not two numbers of tokens, such as 192,384")
    shorter, longer = int(words[0]), int(words[1])
    if not LEAST_TOKENS <= shorter < longer:
        raise click.BadParameter(f"the first must be at least {LEAST_TOKENS}, and the second more: not {value}")
    return shorter, longer


@click.command(short_help="Count what built kernels execute, and where clocks go.")
@click.argument("name", metavar="[VARIANT]", required=False, shell_complete=complete_variant)
@built_arch_option
@filter_option
@spec_option
@out_option
@click.option(
    "--tokens",
    metavar="N,M",
    callback=_lengths,
    help="The two context lengths that decode and prefill's prefix are counted at. Multiples of 192 hold whole tiles. "
    "Default: 192,384.",
)
@click.option(
    "--latency",
    type=click.IntRange(min=0),
    metavar="CLOCKS",
    help="Also estimate how long a wave alone on its SIMD takes for 16 tokens, when memory answers after CLOCKS.",
)
@click.option("--center", is_flag=True, help="Count store and rotate with a center to subtract.")
@json_option
@click.option(
    "--budget", is_flag=True, help="Compare with the counted budgets of the specs; exit 1 if one is exceeded."
)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with bars there too."
)
def command(
    name: str | None,
    archs: tuple[str, ...],
    pattern: str | None,
    spec_files: tuple[Path, ...],
    out: Path | None,
    tokens: tuple[int, int] | None,
    latency: int | None,
    center: bool,
    as_json: bool,
    budget: bool,
    html: Path | None,
) -> None:
    """Count what built kernels execute, and say where an issue model sees the clocks go.

    Each kernel is run on the CPU at two lengths; the difference is what one unit of work takes: a token of context and
    kv head for decode, a slot for store, a vector for rotate, a split of a row for reduce, a token of the prefix or of
    the chunk and 128 query vectors of its kv head for prefill. The clocks are those of one compute unit in a counted
    model. They are no timing: latency, caches and the efficiency of HBM are not in them.
    """
    from octave_gen import manifest
    from octave_gen.build import files
    from octave_gen.profile import budget as budgets
    from octave_gen.profile import table
    from octave_gen.profile.built import kernels
    from octave_gen.profile.html import page
    from octave_gen.profile.measure import profiles

    if center and budget:
        raise click.UsageError("the counted budgets are those of launches without a center: leave out --center")

    def progress(line: str) -> None:
        click.echo(line, err=True)

    folder = out or paths.default_out()
    chosen = _choose(name, archs, pattern, spec_files, folder)
    built = kernels(chosen.selected, chosen.planned, folder)
    found = profiles(built, tokens=tokens, latency=latency, center=center, progress=progress)
    click.echo(manifest.dump(table.data(found)) if as_json else table.table(found), nl=False)
    if html is not None:
        with files.explained("the page cannot be written", html, "name a file that can be written with --html"):
            files.write_atomically(html, page(found).encode())
    if budget:
        progress(f"{budgets.check(found)} of {len(found)} kernels have a counted budget, and none exceeds it")


def _choose(
    name: str | None, archs: tuple[str, ...], pattern: str | None, spec_files: tuple[Path, ...], out: Path
) -> Chosen:
    """What is asked for; without archs, of the chips that ``out`` holds a library for, if it is of any of them."""
    if name is None:
        from octave_gen.verify.built import built_archs

        chosen = choose(spec_files, archs, pattern)
        there = archs or built_archs(out)
        held = [variant for variant in chosen.selected if variant.arch.name in there]
        return Chosen(chosen.planned, held or chosen.selected)
    if archs or pattern:
        raise click.UsageError("VARIANT names one kernel: leave out --arch and --filter")
    planned = choose(spec_files, (), None, on_request=True).planned
    selected = [variant for variant in planned if variant.name == name]
    if not selected:
        from octave_gen.explain import explain

        miss = explain(name, planned)
        reasons = [f"  because {reason}" for reason in miss.reasons]
        near = [f"    {other}" for other in miss.nearest]
        what = "\n".join([f"there is no variant {name}", *reasons, "  nearest:", *near])
        raise wrong_request(what, hint=miss.hint)
    return Chosen(planned, selected)
