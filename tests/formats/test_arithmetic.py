"""The stated order of every rounding, against scalar numpy float32, which rounds each operation on its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from octave_gen.formats.octave.arithmetic import square_root, tree_sum, walsh_hadamard


def scalar_tree(values: list[np.float32]) -> np.float32:
    """Levels h = 1, 2, 4, ... of x[i] + x[i^h], as a butterfly over lanes; every lane ends with the same bits."""
    lanes = list(values)
    h = 1
    while h < len(lanes):
        lanes = [lanes[i] + lanes[i ^ h] for i in range(len(lanes))]
        h *= 2
    assert len({lane.tobytes() for lane in lanes}) == 1
    return lanes[0]


def scalar_transform(values: list[np.float32], stages: list[int]) -> list[np.float32]:
    x = list(values)
    for h in stages:
        x = [x[i - h] - x[i] if i & h else x[i] + x[i + h] for i in range(len(x))]
    factor = np.float32(1 / np.sqrt(len(x)))
    return [v * factor for v in x]


def floats(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("n", [1, 2, 64, 128, 256, 512])
def test_tree_sum_is_the_butterfly(n: int) -> None:
    x = floats(8, n, seed=n)
    expected = np.array([scalar_tree(list(row)) for row in x])
    assert tree_sum(torch.from_numpy(x)).numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [192, 320, 384, 448])
def test_other_heads_sum_blocks_from_left_to_right(n: int) -> None:
    x = floats(16, n, seed=n)
    expected = []
    for row in x:
        parts = [scalar_tree(list(row[i : i + 64])) for i in range(0, n, 64)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        expected.append(total)
    assert tree_sum(torch.from_numpy(x)).numpy().tobytes() == np.array(expected).tobytes()


def test_the_order_matters() -> None:
    x = torch.from_numpy(floats(256, 256, seed=1))
    assert not torch.equal(tree_sum(x), x.sum(-1))
    assert not torch.equal(tree_sum(x), tree_sum(x[:, torch.arange(256).reshape(2, 128).T.flatten()]))


@pytest.mark.parametrize("n", [2, 64, 128, 256, 512])
def test_transform_stages_and_final_factor(n: int) -> None:
    x = floats(4, n, seed=n)
    stages = [1 << i for i in range(n.bit_length() - 1)]
    expected = np.array([scalar_transform(list(row), stages) for row in x])
    assert walsh_hadamard(torch.from_numpy(x)).numpy().tobytes() == expected.tobytes()


def test_the_stage_order_matters() -> None:
    x = floats(4, 256, seed=3)
    down = np.array([scalar_transform(list(row), [1 << i for i in reversed(range(8))]) for row in x])
    assert not np.array_equal(walsh_hadamard(torch.from_numpy(x)).numpy(), down)


@pytest.mark.parametrize("n", [64, 256, 512])
def test_transform_is_the_sylvester_matrix_over_root_n(n: int) -> None:
    i = torch.arange(n)
    both = i[:, None] & i[None, :]
    ones = sum((both >> bit & 1) for bit in range(9))
    matrix = (1 - 2 * (ones % 2)).double() / n**0.5
    assert torch.allclose(walsh_hadamard(torch.eye(n, dtype=torch.float64)), matrix, rtol=0, atol=1e-15)


@pytest.mark.parametrize("count", [1, 3, 64, 1001, 100_000])
def test_division_and_root_are_correctly_rounded_and_subnormals_kept(count: int) -> None:
    # short and long runs take scalar and vector paths; float64 then one rounding is right for both operations
    a, b = np.abs(floats(2, count, seed=count)) + np.float32(1e-3)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    assert (x / y).numpy().tobytes() == (a.astype(np.float64) / b).astype(np.float32).tobytes()
    assert (x / y[:1]).numpy().tobytes() == (a.astype(np.float64) / b[0]).astype(np.float32).tobytes()
    assert square_root(x).numpy().tobytes() == np.sqrt(a).tobytes()
    n = torch.full_like(x, 192)
    assert (x / n).numpy().tobytes() == (a.astype(np.float64) / 192).astype(np.float32).tobytes()
    tiny = torch.full((count,), 2.0**-140)
    assert torch.all(tiny * 3 == 3 * 2.0**-140)
    assert torch.all(tiny + tiny == 2.0**-139)


def test_root_over_two_binades_against_integers() -> None:
    # r is the correctly rounded root of x iff (2r - ulp)^2 < 4x < (2r + ulp)^2; in integers, with x = m * 2^(2k)
    mantissa = torch.cat((torch.arange(2**23, 2**24, 1009), torch.arange(2**23, 2**24, 1009) * 2))
    root = square_root(mantissa.float() * 2.0**-24) * 2.0**24  # sqrt(m) * 2^12, a 24-bit number
    ulp = torch.where(root < 2.0**24, 1, 2)
    twice = 2 * root.long()
    assert torch.all((twice - ulp) ** 2 < mantissa << 26)
    assert torch.all((twice + ulp) ** 2 > mantissa << 26)
