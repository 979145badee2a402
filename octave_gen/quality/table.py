"""Results as aligned tables of plain text, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from octave_gen.quality.bench import Section
from octave_gen.quality.measure import NAMES, Result


@dataclass(frozen=True)
class Column:
    """How a measure is shown. unit: of its axis; log: its axis is logarithmic; rising: more is better."""

    heading: str
    title: str
    unit: str = ""
    log: bool = True
    rising: bool = False


COLUMNS: Final = {
    "k_error": Column("k-error", "Relative error of K"),
    "v_error": Column("v-error", "Relative error of V"),
    "output_error": Column("out-error", "Relative error of the attention output"),
    "kl": Column("kl", "KL divergence of the attention weights", "nats"),
    "snr": Column("snr", "Signal to noise of K and V", "dB", log=False, rising=True),
    "recall": Column("recall", "Needles found", log=False, rising=True),
}
"""By the name of the measure, in the order of the table."""
LEGEND: Final = (
    "bytes: of a slot, which is one token and kv head; bits: per value, all scales and padding counted",
    "errors: relative, sqrt(sum |x - x'|^2 / sum |x|^2), of K, of V and of the output of causal attention",
    "kl: KL(p || p') of the attention weights, nats, mean over query rows",
    "snr: of K and V in dB, the mean of both; to-bound: dB to rate and distortion of white noise, 6.02 dB a bit",
)
RECALL_LEGEND: Final = "recall: share of the queries with a needle whose largest weight is at it"
ERROR_LEGEND: Final = "±: standard error of the mean over samples; exact: no error at all"
EXACT: Final = "exact"


def number(value: float) -> str:
    """Four significant digits, two below 0.001."""
    size = abs(value)
    return f"{value:.1e}" if size < 1e-3 else f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}"


def value_text(measure: str, value: float | None) -> str:
    """``exact`` for what no error distinguishes from the original; ``-`` for a measure that these samples lack."""
    if value is None:
        return "-"
    if value == (math.inf if measure == "snr" else 0.0) and measure != "recall":
        return EXACT
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.2f}" if measure == "snr" else f"{value:.3f}" if measure == "recall" else number(value)


def cell(result: Result, measure: str) -> str:
    """The mean with its standard error, ``0.188±0.001``, where there is one that is not 0."""
    mean, error = result.mean(measure), result.standard_error(measure)
    text = value_text(measure, mean)
    if not error or text in (EXACT, "-"):
        return text
    if "e" in text:
        return f"{text}±{error:.1e}"
    return f"{text}±{error:.{len(text.partition('.')[2])}f}"


def measures(section: Section) -> list[str]:
    """The measures that its samples have, as ``COLUMNS`` orders them."""
    return [name for name in COLUMNS if any(result.mean(name) is not None for result in section.results)]


def headings(section: Section) -> tuple[str, ...]:
    names = measures(section)
    shown = [COLUMNS[name].heading for name in names]
    shown.insert(names.index("snr") + 1, "to-bound")
    return ("format", "bytes", "bits", *shown)


def row(section: Section, result: Result) -> tuple[str, ...]:
    """The cells of a result, under `headings`."""
    names = measures(section)
    cells = [cell(result, name) for name in names]
    distance = f"{result.distance:.2f}" if math.isfinite(result.distance) else "-"
    cells.insert(names.index("snr") + 1, distance)
    return (result.label, str(result.slot_bytes), f"{result.bits_per_value:.2f}", *cells)


def legends(sections: Sequence[Section]) -> list[str]:
    """What columns and ± mean, as far as these sections have them."""
    several = any(len(section.data.samples) > 1 for section in sections)
    recall = any("recall" in measures(section) for section in sections)
    return [*LEGEND, *([RECALL_LEGEND] if recall else []), *([ERROR_LEGEND] if several else [])]


def samples_text(section: Section) -> str:
    """How many samples of how many tokens and heads."""
    samples = section.data.samples
    first = samples[0]
    tokens = sorted({sample.tokens for sample in samples})
    length = str(tokens[0]) if len(tokens) == 1 else f"{tokens[0]} to {tokens[-1]}"
    count = "1 sample" if len(samples) == 1 else f"{len(samples)} samples"
    heads = f"{first.query.shape[1]} query heads on {first.kv_heads} kv"
    return f"{count} of {length} tokens, {heads}, head size {first.head_size}"


def table(sections: Sequence[Section]) -> str:
    """For each section a line for each result under a line of headings; lines of explanation begin with ``#``."""
    lines = [f"# {line}" for line in legends(sections)]
    for section in sections:
        rows = [headings(section), *(row(section, result) for result in section.results)]
        widths = [max(len(line[column]) for line in rows) for column in range(len(rows[0]))]
        notes = (*section.data.notes, samples_text(section))
        lines += ["", f"# {section.data.name}", *(f"#   {note}" for note in notes)]
        for first, *rest in rows:
            cells = (text.rjust(width) for text, width in zip(rest, widths[1:], strict=True))
            lines.append("  ".join((first.ljust(widths[0]), *cells)))
    return "\n".join(lines) + "\n"


def data(sections: Sequence[Section]) -> dict[str, Any]:
    """Everything that was measured, for JSON; null for what is infinite."""
    return {"data": [_section(section) for section in sections]}


def _section(section: Section) -> dict[str, Any]:
    samples = section.data.samples
    return {
        "name": section.data.name,
        "notes": list(section.data.notes),
        "head_size": section.data.head_size,
        "samples": [{"name": one.name, "tokens": one.tokens, "window": one.window} for one in samples],
        "formats": [_result(result) for result in section.results],
        "left_out": section.left_out,
    }


def _result(result: Result) -> dict[str, Any]:
    return {
        "format": result.format,
        "centred": result.centred,
        "slot_bytes": result.slot_bytes,
        "bits_per_value": result.bits_per_value,
        "bound": result.bound,
        "distance": _finite(result.distance),
        "mean": {name: _finite(result.mean(name)) for name in NAMES},
        "standard_error": {name: result.standard_error(name) for name in NAMES},
        "samples": {
            sample: {name: _finite(getattr(found, name)) for name in NAMES} for sample, found in result.samples.items()
        },
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
