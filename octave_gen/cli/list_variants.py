"""``octave-gen list-variants``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from octave_gen import paths
from octave_gen.cli.options import (
    Chosen,
    arch_option,
    choose,
    counted,
    filter_option,
    json_option,
    out_option,
    spec_option,
)
from octave_gen.cli.standing import BUILT, NOT_BUILT, Held, held

if TYPE_CHECKING:
    from octave_gen.manifest import Record
    from octave_gen.plan import Variant


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
    executed; interpreted: executed and checked on a CPU; hardware: run on the chip), whether a library that was built
    holds the kernel (yes; stale: another one of that name, from other specs or templates; no), and what `octave-gen
    verify` found out about that library's code object.
    """
    chosen = choose(spec_files, archs, pattern)
    libraries = _libraries(chosen, out or paths.default_out())
    if as_json:
        _print_json(chosen, libraries)
        return
    from octave_gen.manifest import slot_bytes
    from octave_gen.verify.record import words

    known = [variant for variant in chosen.selected if libraries[variant.arch.name].record(variant.name)]
    wanted = {record["name"]: record for record in _records(chosen, known)}
    width = max(len(variant.name) for variant in chosen.selected)
    for variant in chosen.selected:
        slot = f"slot={slot_bytes(variant) or '-'}"
        here = NOT_BUILT
        if variant.name in wanted:
            library = libraries[variant.arch.name]
            here = library.standing(wanted[variant.name])
            if here == BUILT:
                here += f"  {words(library.entries(variant.name))}"
        click.echo(f"{variant.name:{width}}  {slot:8}  evidence={variant.arch.evidence.level}  built={here}")
    click.echo(counted(len(chosen.selected), "variant"), err=True)


def _print_json(chosen: Chosen, libraries: Mapping[str, Held]) -> None:
    from octave_gen import manifest

    found = _records(chosen, chosen.selected)
    for record in found:
        library = libraries[record["arch"]]
        standing = library.standing(record)
        if standing == BUILT and library.entries(record["name"]):
            record["verification"] = library.entries(record["name"])
        record["built"] = standing
    click.echo(manifest.dump(found), nl=False)


def _records(chosen: Chosen, variants: Sequence[Variant]) -> list[Record]:
    """The records of ``variants`` as the specs and templates are now, in the order of the plan."""
    from octave_gen import plan
    from octave_gen.build.records import records

    units = plan.units(plan.with_siblings(variants, chosen.planned))
    by_name = {record["name"]: record for record in records(units)}
    return [by_name[variant.name] for variant in variants]


def _libraries(chosen: Chosen, out: Path) -> dict[str, Held]:
    """What ``out`` holds, by arch; says on stderr which library cannot be loaded."""
    found = {arch: held(out, arch) for arch in dict.fromkeys(variant.arch.name for variant in chosen.selected)}
    for library in found.values():
        if library.problem:
            click.echo(f"not usable: {library.problem}", err=True)
    return found
