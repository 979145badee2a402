"""Attention over decoded K and V, against a computation of one row at a time in fp64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from octave_gen.quality import attention

TOKENS, GROUP, HEAD = 33, 2, 16
SCALE = 0.3


def values(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


QUERY, KEY, VALUE = values(0, TOKENS, GROUP, HEAD), values(1, TOKENS, HEAD), values(2, TOKENS, HEAD)
NOISY = (KEY + 0.2 * values(3, TOKENS, HEAD), VALUE + 0.1 * values(4, TOKENS, HEAD))


def row_by_row(k_hat: Tensor, v_hat: Tensor, window: int | None, query: Tensor = QUERY) -> tuple[float, float, float]:
    """Energy of the exact output, energy of its error, sum of KL."""
    energy = error = kl = 0.0
    for token in range(TOKENS):
        seen = slice(0 if window is None else max(0, token + 1 - window), token + 1)
        for row in query[token].double() * SCALE:
            p = torch.softmax(KEY[seen].double() @ row, dim=-1)
            p_hat = torch.softmax(k_hat[seen].double() @ row, dim=-1)
            out, out_hat = p @ VALUE[seen].double(), p_hat @ v_hat[seen].double()
            energy += float(out.square().sum())
            error += float((out - out_hat).square().sum())
            log_p_hat = torch.log_softmax(k_hat[seen].double() @ row, dim=-1)
            kl += float(torch.nn.functional.kl_div(log_p_hat, p, reduction="sum"))
    return energy, error, kl


@pytest.mark.parametrize("window", [None, 1, 5, 32, 100, 10**19])
@pytest.mark.parametrize("chunk", [1, 400, 1 << 17])
def test_errors_and_kl_of_every_row(monkeypatch: pytest.MonkeyPatch, window: int | None, chunk: int) -> None:
    monkeypatch.setattr(attention, "_CHUNK", chunk)
    found = attention.compare(QUERY, KEY, VALUE, [NOISY], SCALE, window)
    energy, error, kl = row_by_row(*NOISY, window)
    assert found.rows == TOKENS * GROUP
    assert found.energy == pytest.approx(energy, rel=1e-5)
    assert found.each[0].error == pytest.approx(error, rel=1e-5)
    assert found.each[0].kl == pytest.approx(kl, rel=1e-4, abs=1e-12)
    assert (kl == 0) == (window == 1)


def test_what_is_exact_has_no_loss_at_all() -> None:
    found = attention.compare(QUERY, KEY, VALUE, [(KEY.clone(), VALUE.clone()), NOISY], SCALE)
    assert (found.each[0].error, found.each[0].kl) == (0.0, 0.0)
    assert found.each[1].error > 0


@pytest.mark.parametrize("factor", [0.3, 0.5, 1.3, 3.0])
def test_logits_that_move_by_hundreds(factor: float) -> None:
    query, k_hat = QUERY * 120, KEY * factor
    assert float(((query.flatten(0, 1) * SCALE) @ (k_hat - KEY).T).abs().max()) > 100
    found = attention.compare(query, KEY, VALUE, [(k_hat, VALUE)], SCALE)
    energy, error, kl = row_by_row(k_hat, VALUE, None, query)
    assert found.energy == pytest.approx(energy, rel=1e-4)
    assert found.each[0].error == pytest.approx(error, rel=1e-3)
    assert found.each[0].kl == pytest.approx(kl, rel=1e-3)


def test_kl_of_a_tiny_error_beside_large_logits() -> None:
    """Where the difference of two logarithms in fp32 would be noise alone: logits up to 200, a KL of about 1e-9."""
    query = QUERY * 30
    k_hat = KEY + 1e-6 * values(5, TOKENS, HEAD)
    found = attention.compare(query, KEY, VALUE, [(k_hat, VALUE)], SCALE)
    rows = (query.double() * SCALE).transpose(0, 1)
    hidden = torch.ones(TOKENS, TOKENS).triu(1).bool()
    logits, moved = ((rows @ k.double().T).masked_fill(hidden, -torch.inf) for k in (KEY, k_hat))
    p, log_p, log_p_hat = logits.softmax(-1), logits.log_softmax(-1), moved.log_softmax(-1)
    wanted = float((p * (log_p - log_p_hat).masked_fill(hidden, 0)).sum())
    assert 1e-10 < wanted < 1e-6
    assert found.each[0].kl == pytest.approx(wanted, rel=0.02)


def test_what_no_query_sees_is_not_measured() -> None:
    """The last key and value are seen by the last query alone."""
    spoilt = KEY.clone(), VALUE.clone()
    spoilt[0][-1], spoilt[1][-1] = 100.0, 100.0
    found = attention.compare(QUERY[:-1], KEY[:-1], VALUE[:-1], [(spoilt[0][:-1], spoilt[1][:-1])], SCALE)
    assert (found.each[0].error, found.each[0].kl) == (0.0, 0.0)
    assert attention.compare(QUERY, KEY, VALUE, [spoilt], SCALE).each[0].error > 0


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("chunk", [1, 1 << 17])
def test_targets_are_found_where_the_largest_weight_is(
    monkeypatch: pytest.MonkeyPatch, window: int | None, chunk: int
) -> None:
    monkeypatch.setattr(attention, "_CHUNK", chunk)
    target = torch.full((TOKENS,), -1)
    target[10], target[30] = 9, 28
    query = QUERY.clone()
    query[10], query[30] = 20 * KEY[9], 20 * KEY[28]
    swapped = KEY.clone()
    swapped[28], swapped[27] = KEY[27], KEY[28]
    found = attention.compare(query, KEY, VALUE, [(KEY, VALUE), (swapped, VALUE)], SCALE, window, target)
    assert (found.sought, found.exact.found) == (2 * GROUP, 2 * GROUP)
    assert [loss.found for loss in found.each] == [2 * GROUP, GROUP]


def test_values_that_are_not_finite_are_not_hidden() -> None:
    k_hat = KEY.clone()
    k_hat[3, 0] = torch.inf
    found = attention.compare(QUERY, KEY, VALUE, [(k_hat, VALUE)], SCALE)
    assert not torch.isfinite(torch.tensor([found.each[0].error, found.each[0].kl])).any()
