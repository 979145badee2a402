"""prefill's kernels in FlyDSL: both phases, compiled as a build does and run by the interpreter.

The cases of `octave-gen verify --quick`, and edges that they leave to the full ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from octave_gen import plan
from octave_gen.arch import ARCHS
from octave_gen.build import pipeline
from octave_gen.build.flydsl import tool
from octave_gen.profile.built import Kernel, kernels
from octave_gen.spec.model import Spec
from octave_gen.verify import checks
from octave_gen.verify.built import read
from octave_gen.verify.cases import QUICK, ChunkCase, PrefixCase
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject

pytestmark = pytest.mark.skipif(tool.problem("gfx942") is not None, reason=str(tool.problem("gfx942")))

KINDS = ("prefill_prefix", "prefill_chunk")


@dataclass(frozen=True)
class Made:
    """Both phases of one cache dtype, head size and query dtype."""

    kernels: list[Kernel]
    subjects: tuple[Subject, ...]
    executor: Interpreted

    def of(self, kind: str) -> Subject:
        """The variant of a kind."""
        (subject,) = (subject for subject in self.subjects if subject.kind == kind)
        return subject


@pytest.fixture(scope="module", params=[("octave_k3v4", 256, "fp16"), ("octave_k3v3_compact", 128, "bf16")], ids=str)
def made(
    request: pytest.FixtureRequest, small_spec: Callable[..., Spec], tmp_path_factory: pytest.TempPathFactory
) -> Made:
    dtype, head_size, scalar = request.param
    asked = small_spec(cache_dtypes=(dtype,), head_size=head_size, query_dtypes=(scalar,), archs=("gfx942",))
    out = tmp_path_factory.mktemp("prefill") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVE_CACHE_DIR", str(tmp_path_factory.getbasetemp().parent / "octave_cache"))
        patch.setitem(ARCHS, "gfx942", replace(ARCHS["gfx942"], tiers=("portable", "flydsl")))
        planned = plan.variants([asked])
        chosen = [variant for variant in planned if variant.kind.name in KINDS]
        pipeline.build(chosen, out=out, progress=lambda line: None)
        built = kernels(chosen, chosen, out)
        library = read(out, "gfx942")
    return Made(built, library.subjects, Interpreted(library.code_objects))


@pytest.mark.parametrize("kind", KINDS)
def test_quick_cases(made: Made, kind: str) -> None:
    for case in QUICK[kind]:
        assert checks.run(made.of(kind), case, 0, made.executor).problems == ()


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
    assert checks.run(made.of(kind), case, 1, made.executor).problems == ()


def test_nothing_leaves_the_registers(made: Made) -> None:
    assert len(made.kernels) == 2
    for kernel in made.kernels:
        kept = {name: kernel.resources[name] for name in ("scratch_bytes", "vgpr_spills", "sgpr_spills")}
        assert set(kept.values()) == {0}, kept
