from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

GOLDEN = Path(__file__).parents[1] / "data" / "octave_golden.npz"


@pytest.fixture(scope="session")
def golden() -> Iterator[np.lib.npyio.NpzFile]:
    with np.load(GOLDEN) as arrays:
        yield arrays


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: threads only wait for each other here, most of all when several test processes share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
