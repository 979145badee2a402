"""Profiles made by hand, of variants that a plan really has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from octave_gen import manifest, plan
from octave_gen.arch import IssueCosts
from octave_gen.kernels.base import SCALARS
from octave_gen.profile.built import Kernel
from octave_gen.profile.counts import Counted, Counts
from octave_gen.profile.measure import Profile
from octave_gen.profile.model import clocks
from octave_gen.profile.workload import METHODS
from octave_gen.runtime.library import LoadedVariant, VariantKey
from octave_gen.spec.model import UNCOUNTED, CountedBudget, Spec
from octave_gen.verify.subject import Subject

MakeProfile = Callable[..., Profile]

_DTYPES = {scalar: dtype for dtype, scalar in SCALARS.items()}


def _subject(variant: plan.Variant) -> Subject:
    shape = variant.shape
    key = VariantKey(
        arch=variant.arch.name,
        kind=variant.kind.name,
        tier=variant.tier.name,
        query_dtype=_DTYPES[shape.scalar],
        head_size=shape.head_size,
        cache_dtype=shape.cache_dtype,
        slot_bytes=manifest.slot_bytes(variant),
        gqa_group=shape.gqa_group,
        query_group=shape.query_group,
    )
    return Subject(LoadedVariant(variant.name, variant.name, key, variant.tier.arguments, variant.geometry))


@pytest.fixture(scope="session")
def variants(small_spec: Callable[..., Spec]) -> dict[str, plan.Variant]:
    """Head 256, group 6, block K and compact K, fp16, both archs; by name."""
    spec = small_spec(
        cache_dtypes=("octave_k3v4", "octave_k3v3", "octave_k3v3_compact"),
        encoders=("plain",),
        head_size=256,
        gqa_groups=(6,),
        query_dtypes=("fp16",),
    )
    return {variant.name: variant for variant in plan.variants([spec])}


@pytest.fixture(scope="session")
def subject(variants: Mapping[str, plan.Variant]) -> Callable[[str], Subject]:
    """The subject of a variant, as if it had been loaded."""
    return lambda name: _subject(variants[name])


@pytest.fixture(scope="session")
def make_profile(variants: Mapping[str, plan.Variant]) -> MakeProfile:
    """The profile of a variant for which ``each`` and ``prologue`` were counted; ``costs`` replaces its chip's."""

    def make(
        name: str,
        each: Counts,
        prologue: Counts | None = None,
        counted: CountedBudget = UNCOUNTED,
        costs: IssueCosts | None = None,
    ) -> Profile:
        variant = replace(variants[name], counted=counted)
        if costs is not None:
            variant = replace(variant, arch=replace(variant.arch, costs=costs))
        subject, method = _subject(variant), METHODS[variant.kind.name]
        resources = {"vgprs": 87, "agprs": 0, "sgprs": 60, "lds_bytes": 10240, "occupancy": 5}
        kernel = Kernel(variant, subject, resources, b"")
        model = clocks(each, method.least_bytes(subject), variant.arch.costs)
        return Profile(kernel, method.lengths, Counted(each, prologue or Counts()), model)

    return make
