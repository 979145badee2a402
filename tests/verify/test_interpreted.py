"""A real kernel of every kind, tier and arch, executed by the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from octave_gen import arch as archs
from octave_gen import isa, plan
from octave_gen.build import pipeline
from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS
from octave_gen.runtime.launch import rotate_launch
from octave_gen.spec.model import Spec
from octave_gen.verify import built, checks
from octave_gen.verify.cases import FULL, QUICK, RotateCase
from octave_gen.verify.executor import Interpreter, written
from octave_gen.verify.inputs import gaussian, place, signs
from octave_gen.verify.operators import Interpreted
from octave_gen.verify.subject import Subject

ARCHS = ("gfx942", "gfx1100")
_made: dict[str, tuple[built.Built, Interpreted]] = {}


def library(out: Path, arch: str) -> tuple[built.Built, Interpreted]:
    if arch not in _made:
        found = built.read(out, arch)
        _made[arch] = (found, Interpreted(found.code_objects))
    return _made[arch]


def of_kind(found: built.Built, kind: str, dtype: torch.dtype) -> dict[str, Subject]:
    """By tier."""
    return {s.variant.key.tier: s for s in found.subjects if (s.kind, s.dtype) == (kind, dtype)}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_kernel_of_each_kind_passes(arch: str, kind: str, dtype: torch.dtype, small_build: Path) -> None:
    found, executor = library(small_build, arch)
    cases = QUICK[kind] if kind in ("decode", "prefill_prefix", "prefill_chunk") else FULL[kind]
    subjects = of_kind(found, kind, dtype)
    assert sorted(subjects) == sorted(tier.name for tier in KINDS[kind].tiers_on(archs.get(arch)))
    for subject in subjects.values():
        checked = checks.check(subject, cases, 20, executor)
        assert checked.failure is None
        if kind == "store":
            assert set(checked.measured.counts.values()) == {0}


def test_the_kernels_of_a_chip_on_request_pass(
    small_spec: Callable[..., Spec], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One code object of each kind and tier of gfx950, built and executed."""
    monkeypatch.setenv("OCTAVE_CACHE_DIR", str(tmp_path_factory.getbasetemp().parent / "octave_cache"))
    out = tmp_path_factory.mktemp("on_request")
    spec = small_spec(archs=("gfx950",), query_groups=(4,), query_dtypes=("fp16",))
    pipeline.build(plan.variants([spec], ["gfx950"]), out=out, progress=lambda line: None)
    found = built.read(out, "gfx950")
    assert {subject.kind for subject in found.subjects} == set(KINDS)
    executor = Interpreted(found.code_objects)
    for subject in found.subjects:
        assert isa.uncovered(isa.load(found.code_objects[subject.variant.symbol])) == []
        assert checks.check(subject, QUICK[subject.kind], 21, executor).failure is None


def test_a_code_object_that_is_none_or_lacks_the_kernel_fails(small_build: Path) -> None:
    found, _ = library(small_build, "gfx942")
    subject = of_kind(found, "rotate", torch.float16)["portable"]
    symbol = subject.variant.symbol
    other = next(data for name, data in found.code_objects.items() if name.startswith("reduce"))
    for data, problem in ((found.code_objects[symbol][:200], "ELF"), (b"no ELF file", "ELF"), (other, symbol)):
        assert problem in checks.run(subject, RotateCase(), 1, Interpreted({symbol: data})).problems[0]


def test_the_kernel_works_on_the_tensor_itself_and_may_touch_nothing_else(small_build: Path) -> None:
    found, _ = library(small_build, "gfx942")
    variant = of_kind(found, "rotate", torch.float16)["portable"].variant
    code = isa.load(found.code_objects[variant.symbol])
    x = place(gaussian(1, "x", (4, 2, 128), torch.float16), "dense")
    words = signs(1, "signs", 128, "own")
    before = x.clone()
    launch = rotate_launch(variant, x, words, False, False)
    counters = Interpreter().run(code, launch, {"x": x, "signs": words}, written(variant.arguments))
    assert isinstance(counters, isa.Counters)
    assert not torch.equal(x, before)
    x.copy_(before)
    with pytest.raises(OctaveError, match=variant.symbol):  # a launch of four tokens on a tensor of three
        Interpreter().run(code, launch, {"x": x[:3], "signs": words}, written(variant.arguments))
    with pytest.raises(OctaveError, match="read-only buffer"):
        Interpreter().run(code, launch, {"x": x, "signs": words}, ())


def test_the_interpreter_is_given_its_options(small_build: Path) -> None:
    found, _ = library(small_build, "gfx942")
    subject = of_kind(found, "rotate", torch.float16)["portable"]
    executor = Interpreted(found.code_objects, Interpreter(isa.Options(step_limit=5)))
    (problem,) = checks.run(subject, RotateCase(), 1, executor).problems
    assert subject.variant.symbol in problem
