"""``octave-gen show``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from octave_gen import paths
from octave_gen.cli.options import build_line, choose, complete_variant, json_option, out_option, spec_option
from octave_gen.cli.standing import BUILT, STALE, Held, held
from octave_gen.errors import WRONG_REQUEST

if TYPE_CHECKING:
    from octave_gen.explain import Miss
    from octave_gen.manifest import Manifest, Record
    from octave_gen.plan import Variant
    from octave_gen.verify.record import Entries


@click.command()
@click.argument("name", metavar="VARIANT", shell_complete=complete_variant)
@spec_option
@out_option
@json_option
@click.pass_context
def command(ctx: click.Context, name: str, spec_files: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Show everything that is known of a variant.

    For a name that no variant has: why not, and which variants are nearest; exit code 2.
    """
    from octave_gen import manifest
    from octave_gen.explain import explain

    planned = choose(spec_files, (), None, on_request=True).planned
    variant = next((variant for variant in planned if variant.name == name), None)
    if variant is None:
        miss = explain(name, planned)
        if as_json:
            click.echo(manifest.dump(asdict(miss)), nl=False)
        else:
            click.echo("\n".join(_miss_lines(miss)), err=True)
        ctx.exit(WRONG_REQUEST)
    record, built, library = _known(variant, planned, out or paths.default_out())
    if as_json:
        extra = {key: built[key] for key in ("bundle", "compiler", "host", "library", "torch")} if built else {}
        click.echo(manifest.dump({**record, **extra}), nl=False)
    else:
        build = build_line(variant.arch.name, spec_files, out)
        click.echo("\n".join(_lines(variant, record, built, library, build)))


def _known(variant: Variant, planned: list[Variant], out: Path) -> tuple[Record, Manifest | None, Held]:
    """The variant's record, with what was built of it if its library holds it as it is now."""
    from octave_gen import plan
    from octave_gen.build.records import records

    unit = plan.units(plan.with_siblings([variant], planned))
    record = next(record for record in records(unit) if record["name"] == variant.name)
    library = held(out, variant.arch.name)
    found = library.record(variant.name)
    if found is None or library.standing(record) != BUILT:
        return record, None, library
    extra: Record = {key: found[key] for key in ("code_object", "resources", "wide_resources")}
    entries = library.entries(variant.name)
    return {**record, **extra, **({"verification": entries} if entries else {})}, library.made, library


def _miss_lines(miss: Miss) -> Iterator[str]:
    yield f"error: there is no variant {miss.name}"
    yield from (f"  because {reason}" for reason in miss.reasons)
    yield "  nearest:"
    yield from (f"    {name}" for name in miss.nearest)
    if miss.hint:
        yield f"  hint: {miss.hint}"


def _lines(variant: Variant, record: Record, built: Manifest | None, library: Held, build: str) -> Iterator[str]:
    yield record["name"]
    for word, text in _facts(variant, record, built, library, build):
        yield f"  {word:12} {text}"
    yield "  kernarg"
    for entry in record["kernarg"]:
        yield f"    {entry['offset']:4} {entry['size']:2}  {entry['c_type']:16} {entry['name']} ({entry['value_kind']})"
    few = "".join(f"{'wide':>8}" for _ in record["geometry"]["wide"])
    yield f"  {'resources':27}{'budget':>8}{'built':>8}{few}"
    taken = [record.get("resources", {}), *record.get("wide_resources", [])]
    for key, bound in record["budget"].items():
        sign = ">=" if key == "occupancy" else "<="
        yield f"    {key:20} {sign:>4} {bound:7}" + "".join(f"{one.get(key, '-'):>8}" for one in taken)


def _facts(
    variant: Variant, record: Record, built: Manifest | None, library: Held, build: str
) -> Iterator[tuple[str, str]]:
    from octave_gen.evidence import evidence_words

    yield "kernel", f"{variant.kind.name}, launched by torch.ops.octave.{record['op']}: {variant.kind.purpose}"
    shape = ("cache_dtype", "slot_bytes", "head_size", "rotary_dims", "encoder", "gqa_group", "query_group")
    for key in ("family", *shape):
        if record[key] is not None:
            yield key, str(record[key])
    yield "query_dtype", record["query_dtype"]
    yield "tier", record["tier"]
    yield "arch", f"{variant.arch.name} ({variant.arch.family}, {variant.arch.product})"
    yield "evidence", evidence_words(variant.arch)
    yield "specs", ", ".join(record["specs"])
    yield "source", f"{record['source']['path']} sha256 {record['source']['sha256']}"
    for file in record["templates"]:
        yield "template", f"{file['path']} sha256 {file['sha256']}"
    yield "flags", " ".join(record["flags"])
    geometry = record["geometry"]
    yield "workgroup", f"{geometry['threads']} threads, waves of {geometry['wave_size']}"
    for wide in geometry["wide"]:
        yield "wide", f"{wide['threads']} threads in launches of up to {wide['workgroups']} workgroups"
    yield "grid", " x ".join(_extent(extent) for extent in geometry["grid"])
    if built is None:
        yield "built", f"{_why_not(library, record)}; to build it: {build}"
        return
    yield "library", f"{library.folder / built['library']['file']} sha256 {built['library']['sha256']}"
    yield "compiler", f"{built['compiler']['name']}: {built['compiler']['version']}"
    yield "code object", f"{record['code_object']['size']} bytes sha256 {record['code_object']['sha256']}"
    yield "kernarg size", f"{record['resources']['kernarg_bytes']} bytes"
    yield from _verification(record.get("verification", {}))


def _why_not(library: Held, record: Record) -> str:
    if library.problem:
        return f"not usable: {library.problem}"
    if library.standing(record) == STALE:
        return f"stale: {library.folder} holds another kernel of that name, from other specs or templates"
    return f"no: no library in {library.folder} holds it"


def _verification(entries: Entries) -> Iterator[tuple[str, str]]:
    from octave_gen.verify.record import words

    yield "verified", words(entries)
    for entry in entries.values():
        executor = entry["executor"]
        yield "", f"{len(entry['cases'])} cases, seed {entry['seed']}, {executor['name']} {executor['version']}"
        yield from (("", f"{name}: {value:g}") for name, value in {**entry["errors"], **entry["counts"]}.items())
        yield from (("", line) for line in (entry["failure"] or {}).get("problems", ()))


def _extent(extent: dict[str, Any]) -> str:
    count, share = extent["count"], extent["per_workgroup"]
    return str(count) if share == 1 else f"ceil({count} / {share})"
