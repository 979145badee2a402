"""Calibration, file and operators together, on the CPU: attention over centred slots is attention, with less error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from rotary_keys import Model
from torch import Tensor

from octave_gen.centring import Calibration, Center, Rotary, as_key, load, save
from octave_gen.formats.octave.codec import dequantize, quantize
from octave_gen.formats.octave.encoders import DEFAULT_ENCODER
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.formats.octave.rotation import rotate_inverse
from octave_gen.ops import sign_tensor, workspace_shape

HEAD, ROTARY_DIMS, KV_HEADS, GROUP = 256, 64, 2, 3
Q_HEADS = KV_HEADS * GROUP
FIRST, PREFIX, CHUNK = 200_000, 90, 22
LAST = 262_143
BLOCK = 16
SCALE = HEAD**-0.5
SIGNS = sign_tensor(HEAD)
FMTS = {"octave_k3v3_compact": 19, "octave_k3v3": 3, "octave_k3v4": 4}
DTYPES = [torch.float16, torch.bfloat16]


def heads(constants: float) -> list[Model]:
    """A model for each kv head, whose constants differ: in the slow pairs and in the dims without RoPE."""
    rotary = Rotary.of_base(ROTARY_DIMS, 5e6)
    slow = (torch.tensor(rotary.inv_freq, dtype=torch.float64) * LAST < 1).to(torch.complex128)
    random = torch.randn(KV_HEADS, HEAD, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return [Model(rotary, rotary.turn(constants * c, slow)) for c in random]


def keys(models: list[Model], positions: Tensor, seed: int) -> Tensor:
    return torch.cat([model.keys(positions, seed + i) for i, model in enumerate(models)], dim=1)


def calibrated(models: list[Model], path: Path) -> Tensor:
    """k_center, fp32 [kv_heads, head], by way of a file."""
    calibration = Calibration(KV_HEADS, HEAD, models[0].rotary)
    positions = torch.arange(1024)
    calibration.add(keys(models, positions, seed=10).half(), positions)
    center: Center = calibration.center(LAST)
    save(path, {7: center})
    return load(path)[7]


@dataclass
class Attention:
    """A prefix, whose last query token decodes, then a chunk that is prefilled; all at positions from FIRST on."""

    key: Tensor  # [PREFIX + CHUNK, kv_heads, head]
    value: Tensor
    query: Tensor  # [1 + CHUNK, q_heads, head]

    @classmethod
    def over(cls, models: list[Model], dtype: torch.dtype) -> Attention:
        positions = FIRST + torch.arange(PREFIX + CHUNK)
        generator = torch.Generator().manual_seed(3)
        value = torch.randn(len(positions), KV_HEADS, HEAD, generator=generator)
        query = [models[i // GROUP].queries(positions[PREFIX - 1 :], 40 + i) for i in range(Q_HEADS)]
        return cls(keys(models, positions, 20).to(dtype), value.to(dtype), torch.stack(query, 1).to(dtype))

    def exact(self) -> Tensor:
        """fp64 [1 + CHUNK, q_heads, head]: row i sees the first PREFIX + i tokens."""
        key, value = (x.double().repeat_interleave(GROUP, 1) for x in (self.key, self.value))
        scores = torch.einsum("qhd,thd->hqt", self.query.double(), key) * SCALE
        ahead = torch.arange(PREFIX + CHUNK) >= PREFIX + torch.arange(1 + CHUNK).unsqueeze(1)
        weights = torch.softmax(scores.masked_fill(ahead, -torch.inf), -1)
        return torch.einsum("hqt,thd->qhd", weights, value)

    def by_operators(self, fmt: int, k_center: Tensor | None, chunk_center: Tensor | None) -> Tensor:
        """The same through cache_store, decode, rotate and prefill."""
        layout = SlotLayout.of(HEAD, ROTARY_DIMS, fmt)
        blocks = -(-PREFIX // BLOCK)
        cache = torch.zeros(blocks, KV_HEADS, BLOCK, layout.slot_bytes, dtype=torch.uint8)
        table = torch.arange(blocks, dtype=torch.int32).unsqueeze(0)
        stored = (self.key[:PREFIX], self.value[:PREFIX], cache, torch.arange(PREFIX), SIGNS, SIGNS, fmt)
        torch.ops.octave.cache_store(*stored, k_center=k_center)

        out = torch.empty_like(self.query)
        mid_o = torch.empty(workspace_shape(1, Q_HEADS, 4, HEAD))
        request, length = torch.zeros(1, dtype=torch.int32), torch.tensor([PREFIX], dtype=torch.int32)
        maps = (table, request, length)
        torch.ops.octave.decode(out[:1], self.query[:1], cache, *maps, mid_o, SIGNS, SIGNS, SCALE, 4, fmt, 1, False)

        q, k, v = self.query[1:].clone(), self.key[PREFIX:].clone(), self.value[PREFIX:].clone()
        torch.ops.octave.rotate(q, SIGNS, not layout.compact, False)
        torch.ops.octave.rotate(k, SIGNS, not layout.compact, False, center=chunk_center)
        torch.ops.octave.rotate(v, SIGNS, False, False)
        starts, lengths = (torch.tensor(x, dtype=torch.int32) for x in ([0, CHUNK], [PREFIX + CHUNK]))
        torch.ops.octave.prefill(out[1:], q, k, v, cache, table, starts, lengths, CHUNK, SCALE, fmt)
        torch.ops.octave.rotate(out[1:], SIGNS, False, True)
        return out

    def as_stored(self, fmt: int, k_center: Tensor) -> Attention:
        """With the prefix as its slots hold it, and its centre added again: keys as the model sees them."""
        layout = SlotLayout.of(HEAD, ROTARY_DIMS, fmt)
        slots = quantize(self.key[:PREFIX], self.value[:PREFIX], layout, encoder=DEFAULT_ENCODER, k_center=k_center)
        k, v = dequantize(slots, layout, torch.float64)
        key, value = self.key.double(), self.value.double()
        key[:PREFIX] = rotate_inverse(k, layout.k_block_size) + k_center.double()
        value[:PREFIX] = rotate_inverse(v, layout.v_block_size)
        return Attention(key, value, self.query)


def error(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp16", "bf16"])
@pytest.mark.parametrize("fmt", FMTS.values(), ids=FMTS)
def test_attention_has_less_error_with_a_centre(tmp_path: Path, fmt: int, dtype: torch.dtype) -> None:
    models = heads(constants=3.0)
    attention = Attention.over(models, dtype)
    k_center = as_key(calibrated(models, tmp_path / "centers"), dtype)
    exact = attention.exact()
    plain = attention.by_operators(fmt, None, None)
    centred = attention.by_operators(fmt, k_center, k_center)
    for rows in (slice(0, 1), slice(1, None)):  # decode, prefill
        assert error(centred[rows], exact[rows]) < 0.75 * error(plain[rows], exact[rows])


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp16", "bf16"])
@pytest.mark.parametrize("fmt", FMTS.values(), ids=FMTS)
def test_a_centre_cancels(tmp_path: Path, fmt: int, dtype: torch.dtype) -> None:
    """Attention with the centre taken from every key is attention with it put back: to decode's int8 queries, and to
    the rounding of what prefill is given."""
    models = heads(constants=3.0)
    attention = Attention.over(models, dtype)
    k_center = as_key(calibrated(models, tmp_path / "centers"), dtype)
    assert k_center.float().norm(dim=-1).min() > 30
    wanted = attention.as_stored(fmt, k_center).exact()
    found = attention.by_operators(fmt, k_center, k_center)
    assert error(found[:1], wanted[:1]) < 0.015
    assert error(found[1:], wanted[1:]) < (0.001 if dtype == torch.float16 else 0.008)


@pytest.mark.parametrize("fmt", FMTS.values(), ids=FMTS)
def test_without_a_constant_it_changes_little(tmp_path: Path, fmt: int) -> None:
    models = heads(constants=0.0)
    attention = Attention.over(models, torch.float16)
    k_center = as_key(calibrated(models, tmp_path / "centers"), torch.float16)
    exact = attention.exact()
    plain, centred = attention.by_operators(fmt, None, None), attention.by_operators(fmt, k_center, k_center)
    assert error(centred, exact) == pytest.approx(error(plain, exact), rel=0.05)


@pytest.mark.parametrize("fmt", FMTS.values(), ids=FMTS)
def test_a_chunk_without_the_prefixs_centre_is_wrong(tmp_path: Path, fmt: int) -> None:
    models = heads(constants=3.0)
    attention = Attention.over(models, torch.float16)
    k_center = as_key(calibrated(models, tmp_path / "centers"), torch.float16)
    exact = attention.exact()[1:]
    right, wrong = (attention.by_operators(fmt, k_center, of_chunk)[1:] for of_chunk in (k_center, None))
    assert error(wrong, exact) > 2 * error(right, exact)
