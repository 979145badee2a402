"""The measured table of docs/formats.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from octave_gen.formats.codecs import CODECS, make
from octave_gen.quality.measure import measure
from octave_gen.quality.synthetic import GENERATORS, Shape

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
HEAD, _, *ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE[PAGE.index("| format | bytes |") :].partition("\n\n")[0].splitlines()
]
ERRORS = {row[0]: dict(zip(HEAD, row, strict=True)) for row in ROWS}


def test_every_octave_dtype_and_encoder_is_in_it_by_its_bytes() -> None:
    assert {name for name in CODECS if name.startswith(("octave_", "turboquant_"))} | {"fp8"} == set(ERRORS)
    sizes = [make(name, 256, 64).slot_bytes for name in ERRORS]
    assert [row["bytes"] for row in ERRORS.values()] == list(map(str, sizes))
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    "data",
    [
        "isotropic",
        "constant_pairs",
        pytest.param("heavy_tailed", marks=pytest.mark.slow),
        pytest.param("rotary_dominated", marks=pytest.mark.slow),
    ],
)
def test_output_errors(data: str) -> None:
    samples = [GENERATORS[data].sample(seed, Shape()) for seed in range(4)]
    for result in measure(samples, [make(name, 256, 64) for name in ERRORS]):
        shown = float(ERRORS[result.format][f"`{data}`"])
        assert 100 * (result.mean("output_error") or 0) == pytest.approx(shown, abs=0.06)
