"""decode's query groups: shared out where a workgroup holds fewer rows, and starting where group_starts says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from octave_gen import plan
from octave_gen.arch import ARCHS
from octave_gen.build import pipeline
from octave_gen.runtime.library import LoadedVariant
from octave_gen.spec.model import Spec
from octave_gen.verify import checks
from octave_gen.verify.built import Built, read
from octave_gen.verify.cases import QUICK, DecodeCase
from octave_gen.verify.operators import Attention, Interpreted
from octave_gen.verify.subject import Subject

SHARED_OUT = [12, 16]
"""GQA groups of which four query tokens are more rows than a workgroup of the mfma tier holds."""


@pytest.fixture(scope="module")
def shared_out(small_spec: Callable[..., Spec], tmp_path_factory: pytest.TempPathFactory) -> Built:
    """decode of such groups, head 128, octave_k3v3, fp16, mfma; and the reduce behind it."""
    spec = small_spec(gqa_groups=tuple(SHARED_OUT), query_groups=(4,), query_dtypes=("fp16",), archs=("gfx942",))
    planned = plan.variants([spec])
    chosen = [v for v in planned if v.kind.name == "reduce" or (v.kind.name, v.tier.name) == ("decode", "mfma")]
    out = tmp_path_factory.mktemp("shared_out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OCTAVE_CACHE_DIR", str(out / "cache"))
        pipeline.build(chosen, out=out, progress=lambda line: None)
    return read(out, "gfx942")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: threads only wait for each other here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def decodes(built: Built) -> Iterator[Subject]:
    return (s for s in built.subjects if s.kind == "decode" and s.variant.key.query_dtype == "fp16")


@pytest.mark.parametrize("gqa_group", SHARED_OUT)
def test_a_group_of_many_rows_is_shared_out(gqa_group: int, shared_out: Built) -> None:
    (subject,) = (s for s in decodes(shared_out) if s.gqa_group == gqa_group)
    assert subject.variant.geometry.grid[0].per_workgroup == 2
    for case in QUICK["decode"]:
        assert checks.run(subject, case, 0, Interpreted(shared_out.code_objects)).problems == ()


@dataclass
class FromStarts(Interpreted):
    """Launches decode once for each of ``starts``; notes the rows of mid_o that are all NaN still after each."""

    starts: tuple[list[int], ...] = ()
    untouched: list[list[int]] = field(default_factory=list)

    def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
        given = dict(vars(arguments))
        out, v_signs, _ = (given.pop(name) for name in ("out", "v_signs", "group_starts"))
        for starts in self.starts:
            self._run(variant, **given, group_starts=torch.tensor(starts, dtype=torch.int32))
            untouched = arguments.mid_o.isnan().flatten(1).all(1)
            self.untouched.append(untouched.nonzero().flatten().tolist())
        assert merge is not None
        self.reduce(merge, arguments.mid_o, out, v_signs, arguments.num_kv_splits)


CASE = DecodeCase(lengths=(70, 17), splits=3, rows="mixed", values="poison")
"""Nine query tokens."""
STARTS = ([1, 2, 7], [0, 6])
"""Groups of query tokens 1, 2 to 5, 7 and 8: four are the most that a group has; then 0 to 3, 6 to 8."""


def check_starts(built: Built) -> None:
    for subject in decodes(built):
        executor = FromStarts(built.code_objects, starts=STARTS)
        assert checks.run(subject, CASE, 0, executor).problems == ()
        assert executor.untouched == [[0, 6], []] * len(subject.variant.kernels)


@pytest.mark.parametrize("arch", [name for name, chip in ARCHS.items() if not chip.on_request])
def test_groups_start_where_they_are_told(arch: str, small_build: Path) -> None:
    """Of every tier."""
    check_starts(read(small_build, arch))


def test_shared_out_groups_start_where_they_are_told(shared_out: Built) -> None:
    check_starts(shared_out)
