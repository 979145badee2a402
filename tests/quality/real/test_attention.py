from __future__ import annotations

import pytest
import torch
from torch import Tensor

from octave_gen.quality.real.attention import QUERIES, attend

HEAD = 8


def stated(query: Tensor, key: Tensor, value: Tensor, sm_scale: float, window: int | None) -> Tensor:
    """Row by row, in fp64."""
    group = len(query) // len(key)
    out = torch.empty(query.shape, dtype=torch.float64)
    for head in range(len(query)):
        for token in range(query.shape[1]):
            first = 0 if window is None else max(0, token - window + 1)
            keys, values = (x[head // group, first : token + 1].double() for x in (key, value))
            out[head, token] = (keys @ query[head, token].double() * sm_scale).softmax(0) @ values
    return out


@pytest.mark.parametrize("window", [None, 1, 5, QUERIES, QUERIES + 60, 2 * QUERIES])
@pytest.mark.parametrize("tokens", [1, 2, QUERIES + 70])
def test_agrees_with_the_statement_row_by_row(tokens: int, window: int | None) -> None:
    generator = torch.Generator().manual_seed(tokens)
    query = torch.randn(4, tokens, HEAD, generator=generator) * 3
    key, value = torch.randn(2, 2, tokens, HEAD, generator=generator)
    found = attend(query, key, value, 0.7, window)
    assert found.shape == query.shape
    torch.testing.assert_close(found.double(), stated(query, key, value, 0.7, window), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [None, 3])
def test_no_query_sees_what_comes_later_or_is_out_of_its_window(window: int | None) -> None:
    tokens, seen = 12, 6
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 1, tokens, HEAD, generator=generator)
    before = attend(query, key, value, 1.0, window)
    hidden = [token for token in range(tokens) if token > seen or (window is not None and token <= seen - window)]
    key[:, hidden], value[:, hidden] = 50.0, -50.0
    after = attend(query, key, value, 1.0, window)
    assert torch.equal(before[:, seen], after[:, seen])
    assert not torch.equal(before[:, -1], after[:, -1])
