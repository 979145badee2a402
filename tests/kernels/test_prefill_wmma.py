"""prefill's wmma tier, executed and checked before a chip offers it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from octave_gen.arch import ARCHS
from octave_gen.build import pipeline
from octave_gen.formats import CACHE_DTYPES
from octave_gen.kernels import KINDS, prefill, prefill_wmma
from octave_gen.kernels.base import KernelKind, Shape
from octave_gen.plan import Variant
from octave_gen.spec.model import Budget
from octave_gen.verify import checks
from octave_gen.verify.built import read
from octave_gen.verify.cases import QUICK
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject

BUDGET = Budget(vgprs=256, agprs=0, sgprs=108, lds_bytes=65536, occupancy=4)

Built = tuple[list[Subject], Interpreted]


def _planned(kinds: list[KernelKind], head: int) -> Iterator[Variant]:
    chip = replace(ARCHS["gfx1100"], tiers=("portable", "wmma"))
    for kind, scalar in product(kinds, ("bf16", "f16")):
        for dtype in CACHE_DTYPES if kind.fields else (None,):
            shape = Shape("octave", head, scalar, cache_dtype=dtype, rotary_dims=64 if dtype else None)
            yield Variant(kind, shape, kind.tiers[0], chip, BUDGET, ("test",))


@pytest.fixture(scope="module", params=[128, 256])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The variants of a head size; the build holds them to the budget above."""
    folder = tmp_path_factory.mktemp("wmma")
    kinds = [
        replace(prefill.PREFIX, tiers=(prefill_wmma.prefix_tier(prefill.PREFIX_ARGUMENTS),)),
        replace(prefill.CHUNK, tiers=(prefill_wmma.chunk_tier(prefill.CHUNK_ARGUMENTS),)),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVE_CACHE_DIR", str(folder / "cache"))
        for kind in kinds:
            patch.setitem(KINDS, kind.name, kind)
        pipeline.build(list(_planned(kinds, request.param)), out=folder / "out", progress=lambda line: None)
        library = read(folder / "out", "gfx1100")
        yield list(library.subjects), Interpreted(library.code_objects)


def test_quick_cases(built: Built) -> None:
    own, executor = built
    assert len(own) == 8
    for subject in own:
        for case in QUICK[subject.kind]:
            assert checks.run(subject, case, 0, executor).problems == ()
