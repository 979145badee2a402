"""From the code objects of one arch to a library and its manifest, past the resource gate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from octave_gen import manifest
from octave_gen.arch import TargetId
from octave_gen.build import bundle, failures, files, link, resources
from octave_gen.build.cache import Session
from octave_gen.build.resources import Resources
from octave_gen.build.target import Made, Target, file_name
from octave_gen.kernels.base import kernarg_table
from octave_gen.plan import Variant


@dataclass(frozen=True)
class Verdict:
    """What the gate says of an arch. ``resources``: by symbol; ``problems``: one line each."""

    resources: dict[str, Resources]
    problems: tuple[str, ...]


def gate(target: Target, code_objects: Mapping[str, bytes]) -> Verdict:
    """Gates the code object of every unit in ``code_objects``; source and code object of a refused one are kept."""
    found: dict[str, Resources] = {}
    problems: list[str] = []
    for source in target.sources:
        data = code_objects.get(source.unit.name)
        if data is None:
            continue
        verdict = resources.gate(source.unit, data)
        found |= verdict.resources
        problems += verdict.problems
        if verdict.problems:
            with files.explained("a refused kernel cannot be kept", target.failed, "name another folder with --out"):
                failures.keep_refused(target.failed, source.unit, source.text, data)
    return Verdict(found, tuple(problems))


def assemble(
    target: Target, code_objects: Mapping[str, bytes], found: Mapping[str, Resources], session: Session
) -> Made:
    """Bundles, links and describes the code objects of all units of an arch, which have passed the gate."""
    tools, identity = target.tools, TargetId(target.arch)
    blob, kernels = bundle.concatenate(
        (
            bundle.bundle(identity, code_objects[source.unit.name]),
            {variant.name: argument_bytes(variant) for variant in source.unit.variants},
        )
        for source in target.sources
    )
    library = link.link(blob, kernels, arch=target.arch, compiler=tools.host, torch=tools.torch, session=session)
    built = [
        manifest.built_record(
            record, code_object=code_objects[source.unit.name], resources=asdict(found[record["symbol"]])
        )
        for source in target.sources
        for record in source.records
    ]
    described = manifest.built_manifest(
        built,
        arch=target.arch,
        torch_target=".".join(map(str, link.TORCH_TARGET)),
        compiler={
            "name": tools.device.name,
            "version": tools.device.version,
            "identity": tools.device.identity,
        }
        | ({"flydsl": {"version": tools.flydsl.version, "identity": tools.flydsl.identity}} if tools.flydsl else {}),
        host={"compiler": tools.host.version, "flags": list(tools.host.flags)},
        bundle={"size": len(blob), "sha256": hashlib.sha256(blob).hexdigest()},
        library={
            "file": file_name(target.arch, library.data),
            "size": len(library.data),
            "sha256": hashlib.sha256(library.data).hexdigest(),
            "namespace": library.namespace,
        },
    )
    return Made(library.data, manifest.dump(described))


def argument_bytes(variant: Variant) -> int:
    """The size of a variant's packed arguments."""
    last = kernarg_table(variant.tier.arguments)[-1]
    return last.offset + last.size
