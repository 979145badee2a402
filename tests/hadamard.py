"""The Sylvester-Hadamard matrix from its definition, for tests of transforms."""

from __future__ import annotations

import numpy as np


def hadamard(n: int) -> np.ndarray:
    """Orthonormal, natural order: entry (i, j) is (-1)**(number of set bits of i & j) / sqrt(n), float64."""
    signs = [[-1.0 if (i & j).bit_count() % 2 else 1.0 for j in range(n)] for i in range(n)]
    return np.array(signs) / np.sqrt(n)
