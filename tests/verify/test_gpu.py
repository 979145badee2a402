"""gpu: the cases go through runtime.gpu with the device's stream; here the device is the CPU and the ops are fakes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import prefill_stand_in
import pytest
import torch
from made_up import Right, SubjectMaker

from octave_gen.errors import OctaveError
from octave_gen.reference.attention import reduce_partials
from octave_gen.runtime import gpu as runtime_gpu
from octave_gen.runtime import launch
from octave_gen.runtime.dispatch import Registry
from octave_gen.runtime.gpu import Place
from octave_gen.runtime.library import Library, variants_of
from octave_gen.verify import built, checks, gpu, pool, record, report, session
from octave_gen.verify.built import Built
from octave_gen.verify.cases import FULL, QUICK, PrefixCase
from octave_gen.verify.gpu import Gpu
from octave_gen.verify.operators import Attention, Chunked, Prefill

DESCRIBED = {"name": "gpu", "version": "torch 2, HIP 7", "device": "AMD Instinct MI300X", "when": "2025-01-31"}
STREAM = 7


@pytest.fixture
def library(small_build: Path, tmp_path: Path) -> Built:
    shutil.copytree(small_build / "gfx942", tmp_path / "gfx942")
    return built.read(tmp_path, "gfx942")


@pytest.fixture
def device(library: Built) -> Gpu:
    made = Library("gfx942", Path("x.so"), library.manifest, "octave_host_0", variants_of(library.manifest))
    place = Place("gfx942", STREAM, Registry([made]))
    return Gpu(made, place, torch.device("cpu"), DESCRIBED)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, library: Built) -> list[str]:
    """The fakes compute what the reference states on the tensors that they are given, and note each call."""
    made: list[str] = []
    right, owned = Right(), library.subjects

    def find(kind: str, dtype: torch.dtype, tier: str = "portable") -> Any:
        (found,) = (s for s in owned if (s.kind, s.dtype, s.variant.key.tier) == (kind, dtype, tier))
        return found

    def cache_store(*arguments: Any, place: Place) -> None:
        key, value, cache, slots, ks, vs, fmt, encoder, *center = arguments
        made.append(f"cache_store {fmt} {encoder} {place.stream}")
        right.cache_store(find("store", key.dtype).variant, key, value, cache, slots, ks, vs, *center)

    def rotate(x: Any, *arguments: Any, place: Place) -> None:
        made.append(f"rotate {place.stream}")
        right.rotate(find("rotate", x.dtype).variant, x, *arguments)

    def decode(*, fmt: int, query_group: int, use_wmma: bool, tier: str, place: Place, **arguments: Any) -> None:
        made.append(f"decode {fmt} {query_group} {use_wmma} {tier} {place.stream}")
        subject = find("decode", arguments["query"].dtype, tier)
        right.decode(subject.variant, subject.merge, Attention(**arguments))

    for fake in (cache_store, rotate, decode):
        monkeypatch.setattr(runtime_gpu, fake.__name__, fake)
    return made


def test_every_op_goes_through_the_runtime(library: Built, device: Gpu, calls: list[str]) -> None:
    for kind, tier, said in (
        ("store", "portable", "cache_store 3 plain 7"),
        ("rotate", "portable", "rotate 7"),
        ("decode", "portable", "decode 3 4 False portable 7"),
        ("decode", "mfma", "decode 3 4 False mfma 7"),
    ):
        calls.clear()
        subject = next(s for s in library.subjects if (s.kind, s.variant.key.tier) == (kind, tier))
        cases = [case for case in FULL[kind] if "far" not in str(case)]
        checked = checks.check(subject, cases, 5, device)
        assert checked.failure is None
        assert calls == [said] * len(cases) * len(subject.variant.kernels)


def test_outputs_that_do_not_come_back_right_fail(
    library: Built, device: Gpu, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_gpu, "rotate", lambda *arguments, place: None)
    subject = next(subject for subject in library.subjects if subject.kind == "rotate")
    assert checks.run(subject, QUICK["rotate"][0], 5, device).problems


def test_reduce_alone_is_submitted_on_the_stream(library: Built, device: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    reduce_launch = launch.reduce_launch

    def note(variant: Any, mid_o: Any, out: Any, v_signs: Any, splits: int) -> Any:
        out.copy_(reduce_partials(mid_o, library.subjects[0].layout, torch.float32, v_signs))
        return reduce_launch(variant, mid_o, out, v_signs, splits)

    monkeypatch.setattr(launch, "reduce_launch", note)
    monkeypatch.setattr(launch, "submit", lambda library, made, stream: given.append((library, made.symbol, stream)))
    subject = next(subject for subject in library.subjects if subject.kind == "reduce")
    assert not checks.run(subject, QUICK["reduce"][0], 5, device).problems
    assert given == [(device.library, subject.variant.symbol, STREAM)]


@pytest.mark.parametrize("values", ["poison", "edges"])
def test_prefill_goes_through_the_runtime(
    values: str, device: Gpu, subject: SubjectMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill_stand_in.register(monkeypatch)
    one, made = subject("prefill_prefix"), []

    def prefill(*, fmt: int, place: Place, workspace: Any, tier: str, **arguments: Any) -> None:
        made.append((fmt, tier, place.stream))
        Right().prefill(one.variant, one.merge, Prefill(partials=workspace, **arguments))

    monkeypatch.setattr(runtime_gpu, "prefill", prefill)
    assert not checks.run(one, PrefixCase((20, 0), (3, 4), splits=2, values=values), 5, device).problems
    assert made == [(3, one.variant.key.tier, STREAM)]


def test_a_chunk_alone_is_submitted_on_the_stream(
    device: Gpu, subject: SubjectMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill_stand_in.register(monkeypatch)
    one, given = subject("prefill_chunk"), []
    chunk_launch = launch.prefill_chunk_launch

    def note(variant: Any, **arguments: Any) -> Any:
        Right().prefill_chunk(variant, Chunked(**arguments))
        return chunk_launch(variant, **arguments)

    monkeypatch.setattr(launch, "prefill_chunk_launch", note)
    monkeypatch.setattr(launch, "submit", lambda library, made, stream: given.append((library, made.symbol, stream)))
    assert not checks.run(one, QUICK["prefill_chunk"][0], 5, device).problems
    assert given == [(device.library, one.variant.symbol, STREAM)]


def test_the_record_names_the_device(
    library: Built, device: Gpu, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu.Gpu, "of", classmethod(lambda cls, library: device))
    monkeypatch.setattr(pool, "ProcessPoolExecutor", None)  # one GPU, one process
    names = [subject.variant.name for subject in library.subjects if subject.kind in ("rotate", "store")]
    request = session.Request(level="quick", seed=3, executor="gpu")
    verdicts = session.verify([library], names, request, jobs=4, progress=lambda line: None)
    assert all(verdict.passed for verdict in verdicts)
    assert report.summary(verdicts) == (
        "4 of 4 variants passed: run and checked on a GPU (AMD Instinct MI300X, torch 2, HIP 7, 2025-01-31)"
    )
    known = record.read(library.folder)
    assert record.words(known[library.hashes[names[0]]][names[0]]) == (
        "hardware: passed (quick, AMD Instinct MI300X, 2025-01-31)"
    )


def test_without_a_gpu_it_says_so(library: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OctaveError, match="there is no GPU here") as error:
        Gpu.of(library)
    assert error.value.exit_code == 2
    assert "--executor interpreter" in str(error.value.hint)


def test_a_gpu_of_another_arch(library: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(runtime_gpu, "place_of", lambda device: Place("gfx1100", STREAM))
    with pytest.raises(OctaveError, match="the GPU is a gfx1100, the library is for gfx942") as error:
        Gpu.of(library)
    assert "--arch gfx1100" in str(error.value.hint)
