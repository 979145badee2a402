"""prefill's mfma tiers, executed and checked before a chip offers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from octave_gen import plan, spec
from octave_gen.arch import ARCHS
from octave_gen.build import pipeline
from octave_gen.kernels import KINDS, prefill, prefill_mfma
from octave_gen.verify import checks
from octave_gen.verify.built import read
from octave_gen.verify.cases import QUICK
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject

SPEC = """\
edition = 1
family = "octave"
cache_dtypes = ["octave_k3v3_compact", "octave_k3v3", "octave_k3v4"]
head_size = {head}
rotary_dims = 64
gqa_groups = [6]
query_groups = [1]
query_dtypes = ["fp16", "bf16"]
archs = ["gfx942"]
"""

BUDGET = """
[[budget]]
arch = "gfx942"
kernel = "{kernel}"
vgprs = {vgprs}
agprs = {agprs}
sgprs = 108
lds_bytes = 65536
occupancy = {occupancy}
"""

BUDGETS = {
    128: (("prefill_prefix", 256, 0, 2), ("prefill_chunk", 208, 0, 1)),
    256: (("prefill_prefix", 320, 64, 1), ("prefill_chunk", 304, 64, 1)),
}


def _spec(head: int) -> str:
    rows = [(kernel, 64, 0, 1) for kernel in ("store", "rotate", "reduce")]
    rows += [("decode", 320, 64, 1), *BUDGETS[head]]
    return SPEC.format(head=head) + "".join(
        BUDGET.format(kernel=kernel, vgprs=vgprs, agprs=agprs, occupancy=occupancy)
        for kernel, vgprs, agprs, occupancy in rows
    )


Built = tuple[list[Subject], Interpreted]


@pytest.fixture(scope="module", params=[128, 256])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The mfma variants of a head size, on a chip that offers the tier; the build holds them to the budgets above."""
    folder = tmp_path_factory.mktemp("mfma")
    file = folder / "mfma.toml"
    file.write_text(_spec(request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVE_CACHE_DIR", str(folder / "cache"))
        patch.setitem(ARCHS, "gfx942", replace(ARCHS["gfx942"], tiers=("portable", "mfma")))
        for kind, tier in (
            (prefill.PREFIX, prefill_mfma.prefix_tier(prefill.PREFIX_ARGUMENTS)),
            (prefill.CHUNK, prefill_mfma.chunk_tier(prefill.CHUNK_ARGUMENTS)),
        ):
            patch.setitem(KINDS, kind.name, replace(kind, tiers=(tier,)))
        planned = plan.variants([spec.load(file)])
        chosen = [variant for variant in planned if variant.kind.op == "prefill"]
        pipeline.build(chosen, out=folder / "out", progress=lambda line: None)
        library = read(folder / "out", "gfx942")
        yield library.subjects, Interpreted(library.code_objects)


def test_quick_cases(built: Built) -> None:
    subjects, executor = built
    assert len(subjects) == 8
    for subject in subjects:
        for case in QUICK[subject.kind]:
            assert checks.run(subject, case, 0, executor).problems == ()
