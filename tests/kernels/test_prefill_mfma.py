"""prefill's mfma tiers, executed and checked before a chip offers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from octave_gen.arch import ARCHS
from octave_gen.build import pipeline
from octave_gen.formats.octave.family import OCTAVE
from octave_gen.kernels import KINDS, prefill, prefill_mfma
from octave_gen.kernels.base import SCALARS, Shape
from octave_gen.plan import Variant
from octave_gen.spec.model import Budget
from octave_gen.verify import checks
from octave_gen.verify.built import read
from octave_gen.verify.cases import QUICK
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject

PREFIX = replace(prefill.PREFIX, tiers=(prefill_mfma.prefix_tier(prefill.PREFIX_ARGUMENTS),))
CHUNK = replace(prefill.CHUNK, tiers=(prefill_mfma.chunk_tier(prefill.CHUNK_ARGUMENTS),))

BUDGETS = {
    (PREFIX.name, 128): Budget(256, 0, 108, 27 * 1024, 2),
    (PREFIX.name, 256): Budget(328, 72, 108, 27 * 1024, 1),
    (CHUNK.name, 128): Budget(208, 0, 108, 33 * 1024, 1),
    (CHUNK.name, 256): Budget(304, 64, 108, 33 * 1024, 1),
}


def _variants(head: int) -> list[Variant]:
    shapes = [(CHUNK, Shape(OCTAVE.name, head, scalar)) for scalar in SCALARS.values()]
    for dtype in OCTAVE.cache_dtypes:
        shapes += [
            (PREFIX, Shape(OCTAVE.name, head, scalar, cache_dtype=dtype.name, rotary_dims=64))
            for scalar in SCALARS.values()
        ]
    return [
        Variant(kind, shape, kind.tiers[0], ARCHS["gfx942"], BUDGETS[kind.name, head], ("test",))
        for kind, shape in shapes
    ]


Built = tuple[list[Subject], Interpreted]


@pytest.fixture(scope="module", params=[128, 256])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The variants of a head size, on a chip that offers the tier; the build holds them to the budgets above."""
    folder = tmp_path_factory.mktemp("mfma")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVE_CACHE_DIR", str(folder / "cache"))
        patch.setitem(ARCHS, "gfx942", replace(ARCHS["gfx942"], tiers=("portable", "mfma")))
        for kind in (PREFIX, CHUNK):
            patch.setitem(KINDS, kind.name, kind)
        pipeline.build(_variants(request.param), out=folder / "out", progress=lambda line: None)
        library = read(folder / "out", "gfx942")
        yield list(library.subjects), Interpreted(library.code_objects)


def test_quick_cases(built: Built) -> None:
    subjects, executor = built
    assert len(subjects) == 8
    for subject in subjects:
        for case in QUICK[subject.kind]:
            assert checks.run(subject, case, 0, executor).problems == ()
