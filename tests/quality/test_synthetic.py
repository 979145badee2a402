"""Synthetic data have the traits that they are made for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.quality.attention import compare
from octave_gen.quality.sample import Sample
from octave_gen.quality.synthetic import GENERATORS, Shape, chosen, rope

SHAPE = Shape(tokens=128, group=2)


def sample(name: str, shape: Shape = SHAPE, seed: int = 0) -> Sample:
    return GENERATORS[name].sample(seed, shape)


def key_of(name: str) -> Tensor:
    return sample(name).key[:, 0].double()


def mean_weights(one: Sample) -> Tensor:
    """Causal attention weights of the last quarter of the queries, averaged: [tokens]."""
    first = one.tokens * 3 // 4
    logits = one.query[first:].double() @ one.key[:, 0].double().T * one.sm_scale
    hidden = torch.arange(one.tokens) > torch.arange(first, one.tokens).reshape(-1, 1, 1)
    return logits.masked_fill(hidden, -torch.inf).softmax(-1).mean((0, 1))


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("shape", [SHAPE, Shape(head_size=128, rotary_dims=128, group=1, tokens=64), Shape(80, 32, 3)])
def test_shapes_seeds_and_fp16(name: str, shape: Shape) -> None:
    one, again, other = (sample(name, shape, seed) for seed in (3, 3, 4))
    assert one.query.shape == (shape.tokens, shape.group, shape.head_size)
    assert one.key.shape == one.value.shape == (shape.tokens, 1, shape.head_size)
    assert one.sm_scale == shape.head_size**-0.5
    for part in ("query", "key", "value"):
        made = getattr(one, part)
        assert made.dtype == torch.float16
        assert torch.equal(made, getattr(again, part))
        assert not torch.equal(made, getattr(other, part))


def test_data_sets_hold_a_sample_for_each_seed() -> None:
    data = GENERATORS["needle"].data_set(3, SHAPE)
    assert [one.name for one in data.samples] == ["seed 0", "seed 1", "seed 2"]
    assert data.notes == (GENERATORS["needle"].mimics, GENERATORS["needle"].formula)
    assert torch.equal(data.samples[2].key, sample("needle", seed=2).key)


def test_isotropic_values_are_white() -> None:
    key = key_of("isotropic")
    assert float(key.square().mean()) == pytest.approx(1, abs=0.03)
    assert float(key.square().mean(0).std()) < 0.2


def test_heavy_tailed_channels_differ_and_stay() -> None:
    key = key_of("heavy_tailed")
    channels = key.square().mean(0)
    assert float(channels.mean()) == pytest.approx(1, abs=0.15)
    assert float(channels.max() / channels.median()) > 50
    halves = key[:64].square().mean(0).log(), key[64:].square().mean(0).log()
    assert float(torch.corrcoef(torch.stack(halves))[0, 1]) > 0.95


@pytest.mark.parametrize("part", ["query", "key"])
def test_rotary_dims_hold_the_energy_of_rotary_dominated_heads(part: str) -> None:
    energy = getattr(sample("rotary_dominated"), part).double().square().mean((0, 1))
    assert float(energy[:64].sum() / energy.sum()) > 0.85


def test_constant_pairs_hold_half_of_the_energy_and_hardly_move() -> None:
    key = key_of("constant_pairs")
    mean = key.mean(0)
    slow = [*range(24, 32), *range(56, 64)]
    assert float(mean.square().sum() / key.square().sum(-1).mean()) == pytest.approx(0.5, abs=0.03)
    assert float(mean[slow].square().sum() / mean.square().sum()) > 0.95


def test_the_sink_takes_about_half_of_the_attention_and_says_nothing() -> None:
    one = sample("attention_sink", Shape())
    assert 0.35 < float(mean_weights(one)[0]) < 0.65
    assert float(one.value[0].double().norm() / one.value[1:].double().norm(dim=-1).mean()) < 0.05


def test_every_needle_is_found_in_exact_keys_and_none_in_noise() -> None:
    """Queries of half of the tokens look for a needle, in either direction of the metric."""
    one = sample("needle", Shape())
    assert one.target is not None
    query, key, value = one.query.float(), one.key[:, 0].float(), one.value[:, 0].float()
    noise = torch.randn(key.shape, generator=torch.Generator().manual_seed(1))
    exact = compare(query, key, value, [(noise, value)], one.sm_scale, None, one.target)
    assert exact.sought == 128 * 6
    assert exact.exact.found == exact.sought
    assert exact.each[0].found < 0.05 * exact.sought


def test_decoys_are_as_like_as_stated() -> None:
    one = sample("needle")
    assert one.target is not None
    needles = one.target[one.target >= 0].unique()
    likeness = torch.nn.functional.normalize(one.key[:, 0].double(), dim=-1)
    likeness = likeness[needles] @ likeness.T
    assert ((likeness > 0.97) & (likeness < 0.999)).sum(-1).tolist() == [3] * 8
    assert ((likeness > 0.5).sum(-1) == 4).all()


def test_rope_turns_by_position_alone() -> None:
    """Products of turned vectors depend on the distance of their tokens; dims behind the rotary ones stay."""
    x = torch.randn(1, 16, generator=torch.Generator().manual_seed(0)).expand(40, 16)
    turned = rope(x, 8)
    products = turned.double() @ turned.double().T
    for distance in (1, 7):
        along = products.diagonal(distance)
        assert torch.allclose(along, along[:1].expand_as(along), atol=1e-5)
    assert torch.equal(turned[:, 8:], x[:, 8:])
    assert torch.equal(turned[0], x[0])
    assert float((turned[1, 0] - (x[1, 0] * torch.tensor(1.0).cos() - x[1, 4] * torch.tensor(1.0).sin())).abs()) < 1e-6


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], list(GENERATORS)),
        (["needle", "isotropic"], ["isotropic", "needle"]),
        (["*_*", "needle"], ["heavy_tailed", "rotary_dominated", "constant_pairs", "attention_sink", "needle"]),
    ],
)
def test_names_and_globs(names: Sequence[str], found: list[str]) -> None:
    assert [generator.name for generator in chosen(names)] == found


def test_an_unknown_name() -> None:
    with pytest.raises(OctaveError, match=r"'isotropc' \(did you mean isotropic\?\)") as error:
        chosen(["needle", "isotropc"])
    assert error.value.exit_code == WRONG_REQUEST


@pytest.mark.parametrize("rotary_dims", [0, 3, 258])
def test_rotary_dims_that_no_head_has(rotary_dims: int) -> None:
    with pytest.raises(OctaveError, match=f"a head of 256 dims has no {rotary_dims} rotary dims"):
        Shape(rotary_dims=rotary_dims)
