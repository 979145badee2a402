"""The order of a measurement and what is kept of it, with a model that is a table of losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from octave_gen.errors import OctaveError
from octave_gen.quality.real import recipe
from octave_gen.quality.real.cache import Quantized, Setting
from octave_gen.quality.real.model import exact
from octave_gen.quality.real.recipe import (
    EXACT,
    MAX_POSITION,
    MODEL_POSITION,
    STUDIED,
    Context,
    Recipe,
    codecs,
    settings,
)
from octave_gen.quality.real.report import report

CONTEXTS = (Context(300, 3, ("*",)), Context(500, 1, ("octave_*",)))
NAMES = ("fp16", STUDIED)
CALLS = 3 * (1 + 1 + 5) + 1 * (1 + 5)
"""Of the model: windows times settings, which are the one without a codec, one of fp16 and five of `STUDIED`."""


class Table:
    """Losses of 1 nat for the tokens of the first window, 2 for the second and so on, more behind a codec."""

    def __init__(self, interrupted_after: int | None = None) -> None:
        self.calls = 0
        self.interrupted_after = interrupted_after

    def losses(self, ids: Tensor, cache: Any) -> Tensor:
        if self.calls == self.interrupted_after:
            raise KeyboardInterrupt
        self.calls += 1
        difficulty = 1.0 + float(ids[1] // 1000)
        return torch.full((len(ids) - 1,), difficulty if cache is exact else difficulty * 1.5 + self._extra(cache))

    @staticmethod
    def _extra(cache: Quantized) -> float:
        return 0.25 if cache.centres is None else 0.0


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(recipe, "CONTEXTS", CONTEXTS)
    monkeypatch.setattr("octave_gen.quality.real.report.CONTEXTS", CONTEXTS)
    monkeypatch.setattr(recipe, "CODECS", dict.fromkeys(NAMES))
    monkeypatch.setattr(Recipe, "basis", lambda self: {"weights": "a model"})

    def run(table: Table) -> Recipe:
        run_of = Recipe(tmp_path, lambda line: None)
        run_of.__dict__.update(
            model=table,
            tokens=torch.arange(3000),
            centres={position: {} for position in (MAX_POSITION, MODEL_POSITION)},
        )
        run_of.measure()
        return run_of

    return run


def test_every_setting_of_a_context_once() -> None:
    chosen = codecs(("fp16", "turbo3", STUDIED))
    labels = [setting.label for setting in settings(Context(300, 1, ("octave_*", "fp16")), chosen)]
    studied = [f"{STUDIED}.centre{MAX_POSITION}", f"{STUDIED}.centre{MODEL_POSITION}", f"{STUDIED}.k", f"{STUDIED}.v"]
    assert labels == ["fp16", STUDIED, *studied]
    wanted = settings(CONTEXTS[0], chosen, ("turbo*", "fp8"))
    assert wanted == [Setting("turbo3"), Setting("turbo3", MAX_POSITION)]


def test_block_k_is_also_measured_with_all_dims_rotary() -> None:
    found = codecs(("fp16", STUDIED, "octave_k3v4", "octave_k3v4+search"))
    sizes = {name: codec.slot_bytes for name, codec in found.items()}
    assert sizes == {
        "fp16": 1024,
        STUDIED: 196,
        "octave_k3v4": 248,
        "octave_k3v4@256": 272,
        "octave_k3v4+search": 248,
        "octave_k3v4@256+search": 272,
    }


def test_windows_are_measured_in_order_and_only_once(measured: Any) -> None:
    table = Table()
    found = measured(table)
    assert table.calls == CALLS
    assert found.losses(CONTEXTS[0], EXACT) == {0: [1.0, 1.0], 1000: [2.0, 2.0], 2000: [3.0, 3.0]}
    assert found.losses(CONTEXTS[0], Setting("fp16")) == {0: [1.75, 1.75], 1000: [3.25, 3.25], 2000: [4.75, 4.75]}
    assert found.losses(CONTEXTS[1], Setting("fp16")) == {}
    again = Table()
    measured(again)
    assert again.calls == 0


def test_an_interrupted_measurement_goes_on(measured: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(Table(interrupted_after=5))
    rest = Table()
    found = measured(rest)
    assert found.losses(CONTEXTS[0], Setting("fp16"))[2000] == [4.75, 4.75]
    assert 5 + rest.calls == CALLS


def test_with_other_centres_what_is_centred_is_measured_again(measured: Any, tmp_path: Path) -> None:
    measured(Table())
    (tmp_path / f"centres-{MAX_POSITION}.safetensors").write_bytes(b"others")
    again = Table()
    measured(again)
    assert again.calls == 3 + 1  # `STUDIED`, on the windows of both contexts


def test_the_report_has_paired_differences(measured: Any) -> None:
    lines = report(measured(Table())).splitlines()
    assert "* weights: a model" in lines
    # windows of 1, 2 and 3 nats; behind a codec 0.5, 1 and 1.5 more, and 0.25 without a centre
    assert "| 300 | 3 | 897 | 2.000 | 0.577 | 7.39 |" in lines
    assert "| `fp16` | 1024 | 16 | +1.250 ± 0.289 | - | - | - |" in lines
    assert f"| `{STUDIED}` | 196 | 3.06 | +1.250 ± 0.289 | +1.000 ± 0.289 | +0.750 | +0.500 |" in lines
    assert "| V alone | +1.250 ± 0.289 | +0.750 |" in lines


def test_an_encoder_is_compared_with_the_plain_one(measured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(Table())
    found.codecs = {STUDIED: found.codecs[STUDIED], f"{STUDIED}+other": found.codecs[STUDIED]}
    found.digests[f"{STUDIED}+other"] = found.digests[STUDIED]
    plain = found.losses
    monkeypatch.setattr(
        found,
        "losses",
        lambda context, setting: {
            start: [loss - 0.125 * setting.codec.endswith("+other") for loss in losses]
            for start, losses in plain(
                context, Setting(setting.codec.split("+")[0], setting.centre, setting.part)
            ).items()
        },
    )
    lines = report(found).splitlines()
    assert f"| `{STUDIED}+other` | -0.125 ± 0.000 | -0.125 |" in lines
    assert f"| `{STUDIED}+other`, centred K | -0.125 ± 0.000 | -0.125 |" in lines


def test_before_anything_is_measured_the_tables_are_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "basis", lambda self: {"weights": "a model"})
    text = report(Recipe(tmp_path, print))
    assert "| V alone | - | - |" in text
    assert "+" not in text.replace("+search", "")


def test_results_of_another_basis_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "basis", lambda self: {"weights": "a model"})
    Recipe(tmp_path, print)
    Recipe(tmp_path, print)
    monkeypatch.setattr(Recipe, "basis", lambda self: {"weights": "another"})
    with pytest.raises(OctaveError, match="another basis") as caught:
        Recipe(tmp_path, print)
    assert caught.value.where == str(tmp_path / "basis.json")
