"""decode's wmma tier, executed and checked: group 6, and the smallest and the largest tile."""

from __future__ import annotations

import pytest

from octave_gen import plan, spec
from octave_gen.build import pipeline
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
gqa_groups = [1, 6, 12]
query_groups = [1, 4]
query_dtypes = ["fp16"]
archs = ["gfx1100"]
"""

BUDGET = """
[[budget]]
arch = "gfx1100"
{selector}
vgprs = {vgprs}
agprs = 0
sgprs = 108
lds_bytes = 65536
occupancy = {occupancy}
"""


def _spec(head: int) -> str:
    kinds = ("store", "rotate", "reduce", "prefill_prefix", "prefill_chunk")
    rows = [(f'kernel = "{kernel}"', 256, 1) for kernel in kinds]
    rows += [
        ('kernel = "decode"\ntiers = ["portable"]', 256, 1),
        ('kernel = "decode"\ntiers = ["wmma"]\nquery_groups = [1]', 192, 5),
        ('kernel = "decode"\ntiers = ["wmma"]\nquery_groups = [4]\ngqa_groups = [1]', 192, 5),
        ('kernel = "decode"\ntiers = ["wmma"]\nquery_groups = [4]\ngqa_groups = [6]', 240, 3),
        ('kernel = "decode"\ntiers = ["wmma"]\nquery_groups = [4]\ngqa_groups = [12]', 256, 2),
    ]
    budgets = [BUDGET.format(selector=selector, vgprs=vgprs, occupancy=waves) for selector, vgprs, waves in rows]
    return SPEC.format(head=head) + "".join(budgets)


def _tested(variant: plan.Variant) -> bool:
    """All of group 6, and of the smallest and the largest tile one each."""
    if variant.tier.name != "wmma":
        return variant.kind.name == "reduce"
    shape = variant.shape
    return shape.gqa_group == 6 or (
        shape.cache_dtype == "octave_k3v3" and (shape.gqa_group, shape.query_group) in ((1, 1), (12, 4))
    )


Built = tuple[list[Subject], Interpreted]


@pytest.fixture(scope="module", params=[128, 256])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wmma variants of a head size; the build holds them to the budget above."""
    folder = tmp_path_factory.mktemp("wmma")
    file = folder / "wmma.toml"
    file.write_text(_spec(request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVE_CACHE_DIR", str(folder / "cache"))
        planned = plan.variants([spec.load(file)])
        chosen = [variant for variant in planned if _tested(variant)]
        pipeline.build(chosen, out=folder / "out", progress=lambda line: None)
        library = read(folder / "out", "gfx1100")
    own = [subject for subject in library.subjects if subject.variant.key.tier == "wmma"]
    return own, Interpreted(library.code_objects)


def test_quick_cases(built: Built) -> None:
    own, executor = built
    assert len(own) == 8
    for subject in own:
        for case in QUICK["decode"]:
            assert checks.run(subject, case, 0, executor).problems == ()
