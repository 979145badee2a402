"""``octave-gen quality``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from octave_gen.cli.options import json_option, say
from octave_gen.errors import OctaveError, wrong_request

if TYPE_CHECKING:
    from torch import Tensor

    from octave_gen.quality.sample import DataSet

LEAST_TOKENS = 64
DEFAULT_SEEDS = 4


@click.command(short_help="Measure what cache formats do to K, V and attention.")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--synthetic",
    "names",
    multiple=True,
    metavar="NAME",
    help="Synthetic data of this name or glob; repeatable. Default without files: all.",
)
@click.option(
    "--formats",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only formats whose name matches, such as 'octave_*'; repeatable.",
)
@click.option(
    "--rotary-dims",
    type=click.IntRange(min=2),
    default=64,
    show_default=True,
    metavar="N",
    help="Rotary dims of a head, for the Octave layouts and the synthetic data.",
)
@click.option(
    "--head-size",
    type=click.IntRange(min=2, max=4096),
    metavar="N",
    help="Of synthetic data. Default: 256.",
)
@click.option(
    "--group",
    type=click.IntRange(min=1, max=256),
    metavar="N",
    help="Query heads of synthetic data, which share one kv head. Default: 6.",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=LEAST_TOKENS),
    metavar="N",
    help="Tokens of each synthetic sample. Default: 256.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Synthetic samples of each name. Default: {DEFAULT_SEEDS}.",
)
@click.option(
    "--center",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also measure with K less its centre: safetensors with layers.<n>.k_center.",
)
@json_option
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with plots there too."
)
def command(
    files: tuple[Path, ...],
    names: tuple[str, ...],
    patterns: tuple[str, ...],
    rotary_dims: int,
    head_size: int | None,
    group: int | None,
    tokens: int | None,
    seeds: int | None,
    center: Path | None,
    as_json: bool,
    html: Path | None,
) -> None:
    """Measure what each cache format does to K, to V and to attention: bytes against errors.

    Each FILE is npz or safetensors with layers.<n>.q, .k and .v of a model: q [tokens, q heads, head], k and v [tokens,
    kv heads, head], as its attention sees them, after RoPE. Without files, synthetic data are measured. Errors are
    means over layers or seeds.
    """
    from octave_gen import manifest
    from octave_gen.build.files import explained, write_atomically
    from octave_gen.quality import bench, table

    formats = bench.formats(patterns)
    sizes = {"head_size": head_size, "group": group, "tokens": tokens}
    centers = None if center is None else _centers(center, bool(names) or not files)
    if html is not None and not html.parent.is_dir():
        raise wrong_request("there is no such folder", where=str(html.parent), hint="name another file with --html")
    data_sets = _chosen(files, names, {**sizes, "rotary_dims": rotary_dims}, seeds)
    sections = bench.run(data_sets, formats, rotary_dims, centers, say)
    click.echo(manifest.dump(table.data(sections)) if as_json else table.table(sections), nl=False)
    if html is not None:
        from octave_gen.quality.html import page

        with explained("the page cannot be written", html, "name a file that can be written with --html"):
            write_atomically(html, page(sections).encode())


def _chosen(
    files: Sequence[Path], names: Sequence[str], sizes: Mapping[str, int | None], seeds: int | None
) -> list[DataSet]:
    """What the files hold, then the synthetic data. sizes: of synthetic data, by the fields of their `Shape`."""
    from octave_gen.quality import synthetic
    from octave_gen.quality.files import read

    given = {name: size for name, size in sizes.items() if size is not None}
    if files and not names:
        words = [f"--{name.replace('_', '-')}" for name in given if name != "rotary_dims"] + ["--seeds"] * bool(seeds)
        if words:
            raise click.UsageError(f"{words[0]} is of synthetic data: add --synthetic, or leave it out")
        return [read(file) for file in files]
    shape = synthetic.Shape(**given)
    made = [generator.data_set(seeds or DEFAULT_SEEDS, shape) for generator in synthetic.chosen(names)]
    return [read(file) for file in files] + made


def _centers(file: Path, synthetic: bool) -> dict[int, Tensor]:
    from octave_gen import centring

    if synthetic:
        raise click.UsageError("--center is of a model's layers: it goes with files alone, without --synthetic")
    try:
        return centring.load(file)
    except OctaveError as error:
        raise wrong_request(error.what, where=error.where, hint=error.hint) from error
