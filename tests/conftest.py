"""A small spec, and libraries built from it once for all tests that need real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octave_gen import plan
from octave_gen.kernels import KINDS
from octave_gen.spec.model import Budget, BudgetRule, Spec


def _small_spec(**changes: Any) -> Spec:
    values: dict[str, Any] = {
        "source": "small.toml",
        "family": "octave",
        "cache_dtypes": ("octave_k3v3",),
        "encoders": ("plain",),
        "head_size": 128,
        "rotary_dims": 64,
        "gqa_groups": (4,),
        "query_groups": (1, 4),
        "query_dtypes": ("fp16", "bf16"),
        "archs": ("gfx942", "gfx1100"),
        **changes,
    }
    budget = Budget(vgprs=512, agprs=512, sgprs=128, lds_bytes=65536, occupancy=1)
    rules = tuple(BudgetRule(kernel, arch, budget) for kernel in KINDS for arch in values["archs"])
    return Spec(**values, budgets=rules)


@pytest.fixture(scope="session")
def small_spec() -> Callable[..., Spec]:
    """octave_k3v3, head 128, rotary 64, group 4 on both archs with generous budgets; arguments change its fields."""
    return _small_spec


@pytest.fixture(scope="session")
def small_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``--out`` folder of a real build: `small_spec` with query group 4, as the default compiler makes it."""
    from octave_gen.build import pipeline

    out = tmp_path_factory.mktemp("small_build")
    with pytest.MonkeyPatch.context() as patch:
        # the parent of all workers' folders: the second worker of a parallel run finds everything in the cache
        patch.setenv("OCTAVE_CACHE_DIR", str(tmp_path_factory.getbasetemp().parent / "octave_cache"))
        pipeline.build(plan.variants([_small_spec(query_groups=(4,))]), out=out, progress=lambda line: None)
    return out
