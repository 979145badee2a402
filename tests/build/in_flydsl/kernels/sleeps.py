"""Never ends."""

from __future__ import annotations

import time
from pathlib import Path

from octave_gen.kernels.flydsl.request import Request


def make(request: Request) -> None:
    Path(f"{request.symbol}.begin").touch()
    time.sleep(600)
