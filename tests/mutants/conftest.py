from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # mutants, workbench

from workbench import Workbench


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    return Workbench.at(tmp_path_factory.mktemp("mutants"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After a sweep over all mutants: how each was caught."""
    rows = [
        (*dict(report.user_properties)["caught"], report.duration)
        for report in terminalreporter.getreports("passed")
        if "caught" in dict(report.user_properties)
    ]
    if not rows:
        return
    terminalreporter.section(f"{len(rows)} mutants caught")
    for name, unit, how, seconds in rows:
        terminalreporter.line(f"{name:<{max(len(row[0]) for row in rows)}}  {unit}  {seconds:.1f} s")
        terminalreporter.line(f"    {how}")
