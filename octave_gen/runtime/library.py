"""A loaded library: its manifest as launch-ready variants, checked against what this package would pack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from octave_gen import arch as archs
from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import SCALARS, Argument, Geometry, Shape, kernarg_table


@dataclass(frozen=True)
class VariantKey:
    """What a call needs of a kernel; a field is None where the kind does not depend on it.

    slot_bytes stands for the rotary dims: with cache_dtype and head_size it decides every byte a kernel touches, and
    the slots of compact K are the same for all rotary dims.
    """

    arch: str
    kind: str
    tier: str
    query_dtype: str
    head_size: int
    cache_dtype: str | None = None
    slot_bytes: int | None = None
    gqa_group: int | None = None
    query_group: int | None = None
    encoder: str | None = None


@dataclass(frozen=True)
class LoadedVariant:
    """One kernel of a loaded library: what it is for, and how to launch it."""

    name: str
    symbol: str
    key: VariantKey
    arguments: tuple[Argument, ...]
    geometry: Geometry

    @property
    def kernels(self) -> tuple[LoadedVariant, ...]:
        """As each of its kernels alone, whatever the size of a launch."""
        return tuple(
            replace(self, symbol=self.symbol + behind, geometry=geometry)
            for behind, geometry in self.geometry.kernels.items()
        )


@dataclass(frozen=True)
class Library:
    """A shared object that this process has loaded.

    path: the file it was loaded from; manifest: the whole built manifest; namespace: of the torch op that launches its
    kernels.
    """

    arch: str
    path: Path
    manifest: Mapping[str, Any] = field(repr=False, compare=False)
    namespace: str
    variants: tuple[LoadedVariant, ...] = field(repr=False)


def variants_of(manifest: Mapping[str, Any]) -> tuple[LoadedVariant, ...]:
    """The variants of a built manifest.

    Raises OctaveError when a kernel's arguments or launch geometry are not the ones this package launches with: the
    library was then built by another version, and its kernels would read the wrong bytes.
    """
    return tuple(_variant(record, manifest["project"]["version"]) for record in manifest["variants"])


def _variant(record: Mapping[str, Any], built_by: str) -> LoadedVariant:
    def other_version(what: str) -> OctaveError:
        return OctaveError(
            f"{what}: the library was built by octave-gen {built_by}",
            where=record["name"],
            hint=f"build it again with this version: {archs.build_command(record['arch'])}",
        )

    kind = KINDS.get(record["kind"])
    tier = next((t for t in kind.tiers if t.name == record["tier"]), None) if kind else None
    if tier is None or record["query_dtype"] not in SCALARS or record["arch"] not in archs.ARCHS:
        raise other_version("a kernel that this version does not know")
    chip = archs.get(record["arch"])
    shape = Shape(
        family=record["family"],
        head_size=record["head_size"],
        scalar=SCALARS[record["query_dtype"]],
        cache_dtype=record["cache_dtype"],
        rotary_dims=record["rotary_dims"],
        gqa_group=record["gqa_group"],
        query_group=record["query_group"],
        encoder=record.get("encoder"),
    )
    geometry = tier.geometry(shape, chip)
    entries = zip(tier.arguments, kernarg_table(tier.arguments), strict=True)
    kernarg = [{"c_type": argument.type.c_type, **asdict(entry)} for argument, entry in entries]
    built_kernarg = [{key: entry[key] for key in kernarg[0]} for entry in record["kernarg"]]
    if built_kernarg != kernarg:
        raise other_version("its arguments are not the ones this version passes")
    built_grid = [(extent["count"], extent["per_workgroup"]) for extent in record["geometry"]["grid"]]
    built_wide = [(wide["threads"], wide["workgroups"]) for wide in record["geometry"]["wide"]]
    wide = geometry.wide
    if (record["geometry"]["threads"], built_grid, built_wide) != (
        geometry.threads,
        [(extent.count, extent.per_workgroup) for extent in geometry.grid],
        [] if wide is None else [(wide.threads, wide.workgroups)],
    ):
        raise other_version("its launch geometry is not the one this version launches with")
    key = VariantKey(
        arch=record["arch"],
        kind=record["kind"],
        tier=record["tier"],
        query_dtype=record["query_dtype"],
        head_size=record["head_size"],
        cache_dtype=record["cache_dtype"],
        slot_bytes=record["slot_bytes"],
        gqa_group=record["gqa_group"],
        query_group=record["query_group"],
        encoder=record.get("encoder"),
    )
    return LoadedVariant(record["name"], record["symbol"], key, tier.arguments, geometry)
