"""prefill's kernels in FlyDSL: both phases, compiled as a build does, run by the interpreter, and counted beside mfma's.

The cases of `octave-gen verify --quick`, and the edges that those of one variant leave to another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from octave_gen import isa, plan
from octave_gen.arch import ARCHS
from octave_gen.build import pipeline
from octave_gen.build.flydsl import tool
from octave_gen.profile import measure
from octave_gen.profile.built import Kernel, kernels
from octave_gen.profile.counts import Counts
from octave_gen.spec.model import Spec
from octave_gen.verify import checks
from octave_gen.verify.built import read
from octave_gen.verify.cases import QUICK, ChunkCase, PrefixCase
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject

pytestmark = pytest.mark.skipif(tool.problem("gfx942") is not None, reason=str(tool.problem("gfx942")))

TIERS = ("mfma", "flydsl")
KINDS = ("prefill_prefix", "prefill_chunk")


@dataclass(frozen=True)
class Made:
    """The variants of one cache dtype and head size, of both tiers."""

    kernels: dict[str, Kernel]
    subjects: dict[str, Subject]
    executor: Interpreted

    def of(self, tier: str, kind: str) -> list[str]:
        """Names of the tier's variants of a kind, of both query dtypes."""
        keys = {name: subject.variant.key for name, subject in self.subjects.items()}
        return [name for name, key in keys.items() if (key.tier, key.kind) == (tier, kind)]


@pytest.fixture(scope="module", params=[("octave_k3v4", 256), ("octave_k3v3_compact", 128)], ids=str)
def made(
    request: pytest.FixtureRequest, small_spec: Callable[..., Spec], tmp_path_factory: pytest.TempPathFactory
) -> Made:
    dtype, head_size = request.param
    out = tmp_path_factory.mktemp("prefill") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVE_CACHE_DIR", str(tmp_path_factory.getbasetemp().parent / "octave_cache"))
        patch.setitem(ARCHS, "gfx942", replace(ARCHS["gfx942"], tiers=("portable", *TIERS)))
        planned = plan.variants([small_spec(cache_dtypes=(dtype,), head_size=head_size, archs=("gfx942",))])
        chosen = [variant for variant in planned if variant.kind.name in KINDS]
        pipeline.build(chosen, out=out, progress=lambda line: None)
        built = kernels(chosen, chosen, out)
        library = read(out, "gfx942")
    return Made(
        {one.variant.name: one for one in built},
        {subject.variant.name: subject for subject in library.subjects},
        Interpreted(library.code_objects),
    )


def test_quick_cases(made: Made) -> None:
    for kind in KINDS:
        names = made.of("flydsl", kind)
        assert len(names) == 2
        for name in names:
            for case in QUICK[kind]:
                assert checks.run(made.subjects[name], case, 0, made.executor).problems == ()


@pytest.mark.parametrize(
    "case",
    [
        ChunkCase((0, 17), (1, 34), group=4, memory="far", values="edges"),
        ChunkCase((150,), (5,), splits=7, kv_heads=2, group=16, scale=3),
        PrefixCase((1, 33), (4, 2), group=4, kv_heads=2, memory="far", values="edges"),
        PrefixCase((70,), (9,), splits=20, group=2, scale=3, block_size=1568),
    ],
    ids=str,
)
def test_edges(made: Made, case: ChunkCase) -> None:
    """Offsets beyond 2^31 and 4 GiB; zeros, denormals, 65504, Inf and NaN; many splits and heads; large scores."""
    kind = "prefill_prefix" if isinstance(case, PrefixCase) else "prefill_chunk"
    for name in made.of("flydsl", kind):
        assert checks.run(made.subjects[name], case, 1, made.executor).problems == ()


@pytest.mark.parametrize("kind", KINDS)
def test_cost_beside_mfma(made: Made, kind: str) -> None:
    """The same matrix instructions and LDS accesses, vector arithmetic within 15 %."""

    def counts(tier: str) -> Counts:
        kernel = made.kernels[made.of(tier, kind)[0]]
        return measure.profile(kernel, isa.load(kernel.code_object)).counted.each

    mfma, flydsl = (counts(tier) for tier in TIERS)
    assert flydsl.matrix == mfma.matrix
    assert flydsl.lds <= 1.01 * mfma.lds
    assert flydsl.lds_clocks <= 1.01 * mfma.lds_clocks
    assert flydsl.valu <= 1.15 * mfma.valu


def test_nothing_leaves_the_registers(made: Made) -> None:
    for kind in KINDS:
        for name in made.of("flydsl", kind):
            resources = made.kernels[name].resources
            assert {key: resources[key] for key in resources if "spill" in key or "scratch" in key} != {}
            assert not any(resources[key] for key in resources if "spill" in key or "scratch" in key)


def test_modules_are_found() -> None:
    folder = Path(tool.__file__).parents[2] / "kernels" / "flydsl"
    assert all((folder / f"{kind}.py").is_file() for kind in KINDS)
