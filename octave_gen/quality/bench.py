"""The whole bench: every format that can hold a data set's heads, on every data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor

from octave_gen.errors import OctaveError, did_you_mean, wrong_request
from octave_gen.formats.codec import Codec
from octave_gen.formats.codecs import CODECS, make
from octave_gen.quality.measure import Result, measure
from octave_gen.quality.sample import DataSet


@dataclass(frozen=True)
class Section:
    """A data set and its results, by slot bytes. left_out: formats that cannot hold its heads, and why."""

    data: DataSet
    results: list[Result]
    left_out: dict[str, str]


class Counter:
    """Lines of progress, numbered over all data sets."""

    def __init__(self, total: int, progress: Callable[[str], None]) -> None:
        self._total, self._done, self._progress = total, 0, progress

    def of(self, name: str) -> Callable[[str], None]:
        """The progress of a data set."""

        def say(line: str) -> None:
            self._done += 1
            self._progress(f"[{self._done}/{self._total}] {name} {line}")

        return say


def formats(patterns: Sequence[str]) -> list[str]:
    """The names of ``CODECS`` that are or match one of these; all for none. OctaveError for a pattern without any."""
    known = tuple(CODECS)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            near = did_you_mean(pattern, known)
            raise wrong_request(f"no format matches {pattern!r}{near}", hint=f"known: {', '.join(known)}")
    return [name for name in known if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]


def codecs(names: Sequence[str], head_size: int, rotary_dims: int) -> tuple[list[Codec], dict[str, str]]:
    """The codecs of a shape, by slot bytes, and why the others cannot hold it; OctaveError where none can."""
    made: list[Codec] = []
    left_out: dict[str, str] = {}
    for name in names:
        try:
            made.append(make(name, head_size, rotary_dims))
        except OctaveError as error:
            left_out[name] = error.what
    if not made:
        shape = f"head size {head_size} with {rotary_dims} rotary dims"
        reasons = "\n".join(f"  {name}: {reason}" for name, reason in left_out.items())
        raise wrong_request(f"no chosen format holds {shape}\n{reasons}", hint="choose others, or another shape")
    return sorted(made, key=lambda codec: codec.slot_bytes), left_out


def run(
    data_sets: Sequence[DataSet],
    names: Sequence[str],
    rotary_dims: int,
    centers: Mapping[int, Tensor] | None,
    progress: Callable[[str], None],
) -> list[Section]:
    """A section for each data set. names: of ``CODECS``; centers: as `measure` takes them."""
    chosen = [codecs(names, data.head_size, rotary_dims) for data in data_sets]
    for data, (_, left_out) in zip(data_sets, chosen, strict=True):
        for name, reason in left_out.items():
            progress(f"{data.name}: {name} is left out: {reason}")
    count = Counter(sum(len(data.samples) for data in data_sets), progress)
    sections = []
    for data, (made, left_out) in zip(data_sets, chosen, strict=True):
        results = measure(data.samples, made, centers, count.of(data.name))
        results.sort(key=lambda result: result.slot_bytes)
        sections.append(Section(data, results, left_out))
    return sections
