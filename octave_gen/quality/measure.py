"""What codecs do to samples: relative errors of K, V and the attention output, KL of the weights, SNR and bound."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Final

import torch
from torch import Tensor

from octave_gen.errors import wrong_request
from octave_gen.formats.codec import Codec
from octave_gen.quality.attention import Losses, compare
from octave_gen.quality.sample import Sample

DECIBEL_PER_BIT: Final = 20 * math.log10(2)
"""Rate and distortion of white Gaussian values: 2**(-2 * bits) is 6.0206 dB for every bit per value."""


@dataclass(frozen=True)
class Measures:
    """One codec on one sample; infinite where decoded values are not finite.

    k_error, v_error: sqrt(sum |x - x_hat|**2 / sum |x|**2) over tokens and kv heads.
    output_error: the same of the outputs of attention, over tokens and query heads.
    kl: mean over query rows of KL(p || p_hat) of the attention weights, in nats.
    snr: signal to noise of K and V together in dB: the mean of both, -20 log10(error) each.
    recall: share of the query rows with a target whose largest weight is at it; None without targets.
    """

    k_error: float
    v_error: float
    output_error: float
    kl: float
    snr: float
    recall: float | None = None


NAMES: Final = tuple(field.name for field in fields(Measures))


@dataclass(frozen=True)
class Result:
    """One codec on samples of one kind. centred: K without its centre was encoded. samples: what was measured, by the
    sample's name, in order; not empty."""

    format: str
    slot_bytes: int
    head_size: int
    centred: bool
    samples: Mapping[str, Measures]

    @property
    def label(self) -> str:
        return f"{self.format} centred" if self.centred else self.format

    @property
    def bits_per_value(self) -> float:
        """Of K and V, with all scales and padding."""
        return 8 * self.slot_bytes / (2 * self.head_size)

    @property
    def bound(self) -> float:
        """The SNR in dB that no code of these bytes exceeds on white Gaussian K and V."""
        return DECIBEL_PER_BIT * self.bits_per_value

    @property
    def distance(self) -> float:
        """dB from the mean SNR to the bound; negative where data are easier than white noise and the codec uses it."""
        return self.bound - _mean(self._values("snr"))

    def mean(self, measure: str) -> float | None:
        """Mean over the samples of one of ``NAMES``; None where the samples have no such measure."""
        values = self._values(measure)
        return _mean(values) if values else None

    def standard_error(self, measure: str) -> float | None:
        """Standard error of that mean; None for one sample, and where a value is not finite."""
        values = self._values(measure)
        if len(values) < 2 or not all(map(math.isfinite, values)):
            return None
        mean = _mean(values)
        variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return math.sqrt(variance / len(values))

    def _values(self, measure: str) -> list[float]:
        values = (getattr(measures, measure) for measures in self.samples.values())
        return [value for value in values if value is not None]


def measure(
    samples: Sequence[Sample],
    codecs: Sequence[Codec],
    centers: Mapping[int, Tensor] | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Result]:
    """Each codec on all samples, in the order of ``codecs``; with ``centers``, then each again on centred K.

    samples: of one head size, names all different; codecs: for that head size. centers: by layer, fp32 [kv_heads,
    head]; what is measured is subtracted before encoding and added after decoding. OctaveError where a sample's layer
    has no centre that fits. Samples are measured side by side, one thread for each, so that no result depends on how
    many threads torch has.
    """
    found: list[dict[str, Measures]] = [{} for _ in range(len(codecs) * (1 if centers is None else 2))]
    chosen = [None if centers is None else center_of(sample, centers) for sample in samples]

    def work(sample: Sample, center: Tensor | None) -> tuple[list[Measures], float]:
        begin = time.perf_counter()
        measured = measure_sample(sample, codecs)
        if center is not None:
            measured += measure_sample(sample, codecs, center)
        return measured, time.perf_counter() - begin

    with _single_threads() as pool:
        for sample, (measured, seconds) in zip(samples, pool.map(work, samples, chosen), strict=True):
            for one, measures in zip(found, measured, strict=True):
                one[sample.name] = measures
            progress(f"{sample.name} {seconds:.1f} s")
    head_size = samples[0].head_size
    return [
        Result(codec.name, codec.slot_bytes, head_size, number >= len(codecs), measures)
        for number, (codec, measures) in enumerate(zip([*codecs, *codecs], found, strict=False))
    ]


@contextmanager
def _single_threads() -> Iterator[ThreadPoolExecutor]:
    """As many threads as torch has, in each of which torch has one: operators that share theirs wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def center_of(sample: Sample, centers: Mapping[int, Tensor]) -> Tensor:
    """The centre of the sample's layer: fp32 [kv_heads, head]; OctaveError where there is none that fits."""
    wanted = [sample.kv_heads, sample.head_size]
    center = None if sample.layer is None else centers.get(sample.layer)
    if center is None or list(center.shape) != wanted:
        held = "there is no centre" if center is None else f"the centre is {list(center.shape)}"
        hint = f"centres of this model hold {wanted} for each of its layers"
        raise wrong_request(f"{held} for this layer, whose K has {wanted}", where=sample.name, hint=hint)
    return center.float()


def measure_sample(sample: Sample, codecs: Sequence[Codec], center: Tensor | None = None) -> list[Measures]:
    """Each codec on one sample; center: fp32 [kv_heads, head], subtracted from K before it is encoded."""
    group = sample.query.shape[1] // sample.kv_heads
    sums = [_Sums() for _ in codecs]
    losses: list[Losses] = []
    k_energy, v_energy = _energy(sample.key.float()), _energy(sample.value.float())
    # one kv head at a time: the decoded K and V of all codecs are held at once
    for head in range(sample.kv_heads):
        key, value = sample.key[:, head], sample.value[:, head]
        exact_key, exact_value = key.float(), value.float()
        decoded = []
        for codec, total in zip(codecs, sums, strict=True):
            k_hat, v_hat = _through(codec, key, value, None if center is None else center[head])
            total.k += _energy(k_hat - exact_key)
            total.v += _energy(v_hat - exact_value)
            decoded.append((k_hat, v_hat))
        query = sample.query[:, head * group : (head + 1) * group].float()
        losses.append(compare(query, exact_key, exact_value, decoded, sample.sm_scale, sample.window, sample.target))
    return [_measures(index, total, losses, k_energy, v_energy) for index, total in enumerate(sums)]


@dataclass
class _Sums:
    """Energy of the errors of K and of V."""

    k: float = 0.0
    v: float = 0.0


def _through(codec: Codec, key: Tensor, value: Tensor, center: Tensor | None) -> tuple[Tensor, Tensor]:
    if center is None:
        return codec.decode(codec.encode(key, value))
    key = key.float() - center
    k_hat, v_hat = codec.decode(codec.encode(key, value.float()))
    return k_hat + center, v_hat


def _measures(index: int, total: _Sums, losses: Sequence[Losses], k_energy: float, v_energy: float) -> Measures:
    mine = [head.each[index] for head in losses]
    k_error, v_error = math.sqrt(_share(total.k, k_energy)), math.sqrt(_share(total.v, v_energy))
    sought = sum(head.sought for head in losses)
    return Measures(
        k_error=k_error,
        v_error=v_error,
        output_error=math.sqrt(_share(sum(loss.error for loss in mine), sum(head.energy for head in losses))),
        kl=_share(sum(loss.kl for loss in mine), sum(head.rows for head in losses)),
        snr=_decibel(k_error, v_error),
        recall=sum(loss.found for loss in mine) / sought if sought else None,
    )


def _decibel(*errors: float) -> float:
    """Mean signal to noise of relative errors."""
    if math.inf in errors:
        return -math.inf
    return _mean([-20 * math.log10(error) if error else math.inf for error in errors])


def _energy(x: Tensor) -> float:
    return float(x.double().square().sum())


def _share(part: float, whole: float) -> float:
    """part / whole; infinite where that is no number, but 0 of nothing is 0."""
    if not part:
        return 0.0
    return part / whole if whole and math.isfinite(part) else math.inf


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
