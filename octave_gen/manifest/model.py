"""The manifest: one record per variant, what was generated and what was built; canonical JSON.

Compatibility: ``schema_version`` is ``major.minor``. A minor version only adds keys, so a reader ignores keys that it
does not know; a major version changes or removes some, so a reader refuses a newer major. ``schema.json`` beside this
module describes both stages; nothing in a manifest depends on the machine or on the time of the build.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from octave_gen import __version__
from octave_gen.arch import build_command
from octave_gen.errors import OctaveError
from octave_gen.formats import CACHE_DTYPES, FAMILIES
from octave_gen.kernels.base import SCALARS, WIDE, kernarg_table
from octave_gen.manifest import schema
from octave_gen.plan import Variant

SCHEMA_VERSION: Final = "1.2"
FILE_NAME: Final = "manifest.json"
VERIFICATION_FILE_NAME: Final = "verification.json"
"""Beside a built manifest: what was run of its code objects."""
GENERATED: Final = "generated"
BUILT: Final = "built"

Record = dict[str, Any]
Manifest = dict[str, Any]

_AGAIN: Final = "build it again with `octave-gen build`"
_QUERY_DTYPES = {scalar: dtype for dtype, scalar in SCALARS.items()}


def sha256(data: str | bytes) -> str:
    """The sha256 of ``data`` (text as UTF-8) in hex."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def record(variant: Variant, *, source_text: str, templates: Mapping[str, str], flags: Sequence[str]) -> Record:
    """The record of a variant as far as it is known without a compiler.

    source_text: the text of the variant's unit (of a unit in FlyDSL without its trace); templates: sha256 by name,
    relative to ``templates/`` (kernel modules: to the checkout), of every file that decides that text or its code;
    flags: the device compiler's flags, free of paths.
    """
    shape, geometry, arguments = variant.shape, variant.geometry, variant.tier.arguments
    return {
        "name": variant.name,
        "symbol": variant.name,
        "unit": variant.unit,
        "kind": variant.kind.name,
        "op": variant.kind.op,
        "family": shape.family,
        "cache_dtype": shape.cache_dtype,
        "head_size": shape.head_size,
        "rotary_dims": shape.rotary_dims,
        "gqa_group": shape.gqa_group,
        "query_group": shape.query_group,
        "encoder": shape.encoder,
        "query_dtype": _QUERY_DTYPES[shape.scalar],
        "tier": variant.tier.name,
        "language": variant.tier.language,
        "arch": variant.arch.name,
        "slot_bytes": slot_bytes(variant),
        "source": {"path": variant.source, "sha256": sha256(source_text)},
        "templates": [{"path": path, "sha256": templates[path]} for path in sorted(templates)],
        "flags": list(flags),
        "geometry": {
            "threads": geometry.threads,
            "wave_size": variant.arch.wave_size,
            "grid": [asdict(extent) for extent in geometry.grid],
            "wide": [] if geometry.wide is None else [asdict(geometry.wide)],
        },
        "kernarg": [
            {"c_type": argument.type.c_type, **asdict(entry)}
            for argument, entry in zip(arguments, kernarg_table(arguments), strict=True)
        ],
        "budget": asdict(variant.budget),
        "evidence": asdict(variant.arch.evidence),
        "specs": list(variant.specs),
    }


def slot_bytes(variant: Variant) -> int | None:
    """Bytes of one token and kv head in the cache that the variant works on; None for kinds that touch no cache."""
    shape = variant.shape
    if shape.cache_dtype is None or shape.rotary_dims is None:
        return None
    layout = FAMILIES[shape.family].layout(CACHE_DTYPES[shape.cache_dtype], shape.head_size, shape.rotary_dims)
    return layout.slot_bytes


def symbols(record: Record) -> list[str]:
    """The kernels of a record: its symbol, and that of the kernel for launches of few workgroups where there is one."""
    return [record["symbol"], *(record["symbol"] + WIDE for _ in record["geometry"]["wide"])]


def resources(built: Record) -> dict[str, dict[str, int]]:
    """Of a built record: what each of its kernels takes, by symbol."""
    return dict(zip(symbols(built), (built["resources"], *built["wide_resources"]), strict=True))


def built_record(generated: Record, *, code_object: bytes, resources: Mapping[str, Mapping[str, int]]) -> Record:
    """``generated`` with the code object that holds its symbols and what the code object's notes say of each.

    resources: by symbol: vgprs, agprs, sgprs, lds_bytes, vgpr_spills, sgpr_spills, scratch_bytes, kernarg_bytes,
    occupancy.
    """
    found = {"sha256": sha256(code_object), "size": len(code_object)}
    own, *wide = (dict(resources[symbol]) for symbol in symbols(generated))
    return {**generated, "code_object": found, "resources": own, "wide_resources": wide}


def generated_manifest(records: Iterable[Record]) -> Manifest:
    """The manifest of what can be reproduced without a compiler; records in the order of the plan."""
    return _checked({**_head(GENERATED), "variants": list(records)})


def built_manifest(
    records: Iterable[Record],
    *,
    arch: str,
    torch_target: str,
    compiler: Mapping[str, Any],
    host: Mapping[str, Any],
    bundle: Mapping[str, Any],
    library: Mapping[str, Any],
) -> Manifest:
    """The manifest of one shared object; ``records`` come from :func:`built_record`, in the order of the plan.

    compiler: name, version, identity, and flydsl (version, identity) where kernels are written in it; host: compiler,
    flags; bundle: size, sha256; library: file (its name in the manifest's folder), size, sha256, namespace (of its op).
    Raises OctaveError when a part does not fit the schema.
    """
    return _checked(
        {
            **_head(BUILT),
            "arch": arch,
            "torch": {"target": torch_target},
            "compiler": dict(compiler),
            "host": dict(host),
            "bundle": dict(bundle),
            "library": dict(library),
            "variants": list(records),
        }
    )


def _head(stage: str) -> Manifest:
    return {
        "schema_version": SCHEMA_VERSION,
        "stage": stage,
        "project": {"name": "octave-gen", "version": __version__},
    }


def _checked(made: Manifest) -> Manifest:
    problems = schema.problems(made, made["stage"])
    if problems:
        raise OctaveError("the manifest would not fit its schema:\n  " + "\n  ".join(problems), where="manifest")
    return made


def dump(value: object) -> str:
    """Canonical JSON of a manifest or other plain data: sorted keys, ASCII, a line feed at the end.

    An array or object of scalars is one line, so that a table is a line per entry; others are indented by two spaces.
    """
    return _lines(value, "") + "\n"


def _lines(value: object, indent: str) -> str:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(child, (dict, list)) for child in children):
        return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
    deeper = indent + "  "
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {_lines(value[key], deeper)}" for key in sorted(value)]
        return "{\n" + ",\n".join(deeper + line for line in inner) + f"\n{indent}}}"
    assert isinstance(value, list)
    return "[\n" + ",\n".join(deeper + _lines(child, deeper) for child in value) + f"\n{indent}]"


def read(path: Path) -> Manifest:
    """The manifest in ``path``, checked against the schema of its stage; unknown keys are kept.

    Raises OctaveError when the file is missing or damaged, or comes from a newer major version of the schema.
    """
    where = str(path)
    try:
        return _understood(json.loads(path.read_bytes()), where)
    except FileNotFoundError:
        raise OctaveError("there is no manifest", where=where, hint="`octave-gen build` writes it") from None
    except OSError as error:
        raise OctaveError(f"the manifest cannot be read: {error.strerror}", where=where) from error
    except ValueError as error:
        raise OctaveError(f"the manifest is no JSON: {error}", where=where, hint=_AGAIN) from error
    except RecursionError:
        raise OctaveError("the manifest is damaged: it is nested too deeply", where=where, hint=_AGAIN) from None


def _understood(loaded: Any, where: str) -> Manifest:
    _check_version(loaded, where)
    stage = loaded.get("stage")
    if stage not in (GENERATED, BUILT):
        raise OctaveError(f"stage is {stage!r}, not {GENERATED!r} or {BUILT!r}", where=where, hint=_AGAIN)
    problems = schema.problems(loaded, stage)
    if problems:
        raise OctaveError("the manifest is damaged:\n  " + "\n  ".join(problems), where=where, hint=_AGAIN)
    manifest: Manifest = loaded
    return manifest


def read_built(out: Path, arch: str) -> Manifest | None:
    """The manifest of the library for ``arch`` that a build wrote into ``out``; None when there is none.

    Raises OctaveError as :func:`read`, and for a manifest of sources or of another chip.
    """
    path = out / arch / FILE_NAME
    if not path.exists():
        return None
    made = read(path)
    archs = {made["arch"], *(record["arch"] for record in made["variants"])} if made["stage"] == BUILT else set()
    if archs != {arch}:
        found = f"it is of {', '.join(sorted(archs - {arch}))}" if archs else "it describes sources"
        raise OctaveError(
            f"this manifest describes no library for {arch}: {found}",
            where=str(path),
            hint=f"build it: {build_command(arch)} --out {out}",
        )
    return made


def _check_version(loaded: Any, where: str) -> None:
    version = loaded.get("schema_version") if isinstance(loaded, dict) else None
    major, _, minor = version.partition(".") if isinstance(version, str) else ("", "", "")
    if not (major.isdecimal() and minor.isdecimal()):
        raise OctaveError("this is no manifest: it has no schema_version", where=where, hint="build it again")
    known = SCHEMA_VERSION.partition(".")[0]
    if major != known:
        raise OctaveError(
            f"the manifest's schema version is {version}; this octave-gen reads {known}.x",
            where=where,
            hint="upgrade octave-gen, or build again with this one",
        )
