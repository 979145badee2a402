"""A small plan of its own, so that the tests of the manifest do not depend on the shipped specs."""

from __future__ import annotations

from typing import Any

import pytest

from octave_gen import manifest, plan
from octave_gen.kernels import KINDS
from octave_gen.plan import Variant
from octave_gen.spec.model import Budget, BudgetRule, Spec

HASH = "ab" * 32
RESOURCES = {
    "vgprs": 96,
    "agprs": 0,
    "sgprs": 40,
    "lds_bytes": 8192,
    "vgpr_spills": 0,
    "sgpr_spills": 0,
    "scratch_bytes": 0,
    "kernarg_bytes": 160,
    "occupancy": 4,
}


@pytest.fixture
def planned() -> list[Variant]:
    """Every kind on gfx942, for one shape and two query dtypes."""
    budget = Budget(vgprs=128, agprs=0, sgprs=102, lds_bytes=65536, occupancy=2)
    spec = Spec(
        source="small.toml",
        family="octave",
        cache_dtypes=("octave_k3v3",),
        encoders=("plain",),
        head_size=256,
        rotary_dims=64,
        gqa_groups=(6,),
        query_groups=(4,),
        query_dtypes=("fp16", "bf16"),
        archs=("gfx942",),
        budgets=tuple(BudgetRule(kernel, "gfx942", budget) for kernel in KINDS),
    )
    return plan.variants([spec])


@pytest.fixture
def records(planned: list[Variant]) -> list[manifest.Record]:
    return [
        manifest.record(variant, source_text="kernel\n", templates={"hip/b.j2": HASH, "hip/a.j2": HASH}, flags=("-O3",))
        for variant in planned
    ]


@pytest.fixture
def built(records: list[manifest.Record]) -> dict[str, Any]:
    return manifest.built_manifest(
        [
            manifest.built_record(
                record, code_object=b"\x7fELF", resources=dict.fromkeys(manifest.symbols(record), RESOURCES)
            )
            for record in records
        ],
        arch="gfx942",
        torch_target="2.13.0",
        compiler={"name": "ziglang", "version": "22.1.8", "identity": "ziglang 0.17.1"},
        host={"compiler": "g++ 12.2.0", "flags": ["-O2"]},
        bundle={"size": 4096, "sha256": HASH},
        library={
            "file": "liboctave_gfx942-0123456789abcdef.so",
            "size": 8192,
            "sha256": HASH,
            "namespace": "octave_host_0123456789abcdef",
        },
    )
