"""All formats on all data sets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.formats.codecs import CODECS
from octave_gen.quality import bench
from octave_gen.quality.sample import DataSet, Sample

MakeSample = Callable[..., Sample]


def data_set(make_sample: MakeSample, head: int = 128, name: str = "file.npz") -> DataSet:
    samples = [make_sample(f"layer {n}", n, head=head, kv_heads=1, layer=n) for n in range(2)]
    return DataSet(name, ("note",), samples)


def test_formats_by_name_and_glob() -> None:
    assert bench.formats([]) == list(CODECS)
    assert bench.formats(["fp8", "octave_k3v?"]) == ["fp8", "octave_k3v3", "octave_k3v4"]


@pytest.mark.parametrize(
    ("pattern", "near"), [("octave_k3v33", "octave_k3v3"), ("turboquant_3bit", "turboquant_3bit_nc")]
)
def test_an_unknown_format(pattern: str, near: str) -> None:
    with pytest.raises(OctaveError, match=f"no format matches '{pattern}' .did you mean [^?]*{near}") as error:
        bench.formats(["fp8", pattern])
    assert error.value.exit_code == WRONG_REQUEST


def test_results_are_by_bytes_and_progress_counts_all_samples(make_sample: MakeSample) -> None:
    lines: list[str] = []
    sets = [data_set(make_sample), data_set(make_sample, name="other.npz")]
    sections = bench.run(sets, ["int8", "octave_k3v4", "fp8", "octave_k3v3"], 64, None, lines.append)
    for section in sections:
        assert [result.format for result in section.results] == ["octave_k3v3", "octave_k3v4", "fp8", "int8"]
        assert all(list(result.samples) == ["layer 0", "layer 1"] for result in section.results)
    assert [line.rpartition(" s")[0].rpartition(" ")[0] for line in lines] == [
        f"[{n}/4] {name} layer {layer}"
        for n, (name, layer) in enumerate([(name, n) for name in ("file.npz", "other.npz") for n in (0, 1)], 1)
    ]


def test_every_format_holds_the_usual_heads() -> None:
    for head_size in (128, 256):
        made, left_out = bench.codecs(list(CODECS), head_size, 64)
        assert [codec.name for codec in made if codec.head_size != head_size] == []
        assert (len(made), left_out) == (len(CODECS), {})
        assert [codec.slot_bytes for codec in made] == sorted(codec.slot_bytes for codec in made)


def test_what_cannot_hold_a_head_is_left_out_with_the_reason(make_sample: MakeSample) -> None:
    lines: list[str] = []
    (section,) = bench.run([data_set(make_sample, head=192)], ["octave_k3v3_compact", "fp8"], 64, None, lines.append)
    assert [result.format for result in section.results] == ["fp8"]
    (reason,) = section.left_out.values()
    assert "192 is no power of two" in reason
    assert lines[0] == f"file.npz: octave_k3v3_compact is left out: {reason}"


def test_nothing_holds_a_head(make_sample: MakeSample) -> None:
    with pytest.raises(
        OctaveError, match="no chosen format holds head size 16 with 64 rotary dims\n  octave_k3v3: "
    ) as error:
        bench.run([data_set(make_sample, head=16)], ["octave_k3v3"], 64, None, print)
    assert error.value.exit_code == WRONG_REQUEST
