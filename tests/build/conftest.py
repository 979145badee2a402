from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from octave_gen.build import bundle
from octave_gen.plan import Unit

sys.path.insert(0, str(Path(__file__).resolve().parent))  # tiny_units
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # mock_hip

from tiny_units import BUDGET, Built, Workshop, make_workshop, source, tiny_unit


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return make_workshop(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    units = {
        "gfx942": [tiny_unit(64), tiny_unit(128)],
        "gfx1100": [tiny_unit(64, "gfx1100", replace(BUDGET, occupancy=16))],
    }
    sources = {arch: [source(unit) for unit in group] for arch, group in units.items()}
    with pytest.MonkeyPatch.context() as monkeypatch:
        workshop = make_workshop(tmp_path_factory.mktemp("built") / "deep" / "folder", monkeypatch)
        libraries = workshop.build([s for group in sources.values() for s in group])
    return Built(workshop, sources, {library.arch: library for library in libraries})


@pytest.fixture(scope="session")
def code_object(built: Built) -> Callable[[Unit], bytes]:
    """The code object of one of the units of `built`."""

    def find(unit: Unit) -> bytes:
        return bundle.code_objects(built.libraries[unit.first.arch.name].library)[unit.first.name]

    return find
