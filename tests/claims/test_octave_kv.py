"""What the design document of the Octave cache states in numbers; docs/claims.md lists it."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch import Tensor

from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.codecs import make
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codebook import LUT
from octave_gen.formats.octave.codec import encode_block
from octave_gen.formats.octave.rotation import rotate_forward, rotate_inverse
from octave_gen.quality.attention import compare
from octave_gen.quality.synthetic import GENERATORS, Shape
from octave_gen.spec import shipped

HEAD, ROTARY = 256, 64
SLOTS = {"octave_k3v3_compact": (196, 3.06), "octave_k3v3": (216, 3.38), "octave_k3v4": (248, 3.88)}


def layout(name: str) -> SlotLayout:
    return SlotLayout.of(HEAD, ROTARY, CACHE_DTYPES[name].fmt)


def bits_per_value(slot_bytes: int) -> float:
    return 8 * slot_bytes / (2 * HEAD)


@pytest.mark.parametrize("name", SLOTS)
def test_slot_bytes_and_bits_per_value(name: str) -> None:
    slot_bytes, bits = SLOTS[name]
    assert layout(name).slot_bytes == slot_bytes
    assert bits_per_value(slot_bytes) == pytest.approx(bits, abs=0.0051)


@pytest.mark.parametrize("name", ["octave_k3v3", "octave_k3v4"])
def test_bytes_of_block_k(name: str) -> None:
    slot = layout(name)
    assert (slot.k_blocks, slot.k_block_size, slot.v_block_size, slot.slot_align) == (4, 64, 256, 8)
    assert (slot.k_nibbles.offset, slot.k_nibbles.end, slot.k_nibbles.bits) == (0, 32, 4)
    assert (slot.k_planes.offset, slot.k_planes.end, slot.k_planes.bits) == (32, 104, 3)
    assert slot.v.size == 256 * slot.v_bits // 8
    assert slot.v_scale.end - slot.k_scales.offset == 10


def test_bytes_of_compact_k() -> None:
    slot = layout("octave_k3v3_compact")
    assert (slot.k_blocks, slot.k_block_size, slot.slot_align) == (1, 256, 4)
    assert [(r.offset, r.end) for r in (slot.k_planes, slot.v)] == [(0, 96), (96, 192)]
    assert (slot.k_scales.offset, slot.v_scale.end, slot.slot_bytes) == (192, 196, 196)


@pytest.mark.parametrize(
    ("name", "slot_bytes", "bits"),
    [
        ("fp16", 1024, 16),
        ("fp8", 512, 8),
        ("int8", 520, 8.125),
        ("turboquant_3bit_nc", 198, 3.09375),
        ("turboquant_k3v4_nc", 230, 3.59375),
        ("turboquant_4bit_nc", 262, 4.09375),
        ("turboquant_k8v4", 388, 6.0625),
    ],
)
def test_bytes_of_the_alternatives(name: str, slot_bytes: int, bits: float) -> None:
    assert make(name, HEAD, ROTARY).slot_bytes == slot_bytes
    assert bits_per_value(slot_bytes) == bits


MEMORY = 1_790_625 * 230
"""The bytes of a layer and kv head that the one measured row of the capacity table fills, turboquant_k3v4_nc."""


@pytest.mark.parametrize(
    ("name", "thousands"), [("octave_k3v3_compact", 2101), ("octave_k3v3", 1907), ("octave_k3v4", 1661)]
)
def test_tokens_in_the_memory_of_the_capacity_table(name: str, thousands: int) -> None:
    assert round(MEMORY / layout(name).slot_bytes / 1000) == thousands


@pytest.mark.parametrize("thousands", [1402, 1679])
def test_the_other_capacities_belong_to_no_dtype(thousands: int) -> None:
    assert "octave_k4v4" not in CACHE_DTYPES
    sizes = {SlotLayout.of(HEAD, ROTARY, dtype.fmt).slot_bytes for dtype in CACHE_DTYPES.values()}
    k4v4 = 2 * 128 + 10  # what block K with 4 bits everywhere would take, padded to 8 bytes
    assert all(abs(MEMORY / size / 1000 - thousands) > 15 for size in {*sizes, k4v4 + -k4v4 % 8})


@pytest.mark.parametrize(("gpus", "group"), [(1, 16), (2, 16), (4, 8), (8, 4)])
def test_groups_of_32_query_heads_and_2_kv_heads(gpus: int, group: int) -> None:
    query_heads, kv_heads = 32 // gpus, max(1, 2 // gpus)
    assert query_heads // kv_heads == group
    (spec,) = [s for s in shipped() if (s.head_size, s.rotary_dims) == (HEAD, ROTARY)]
    assert group in spec.gqa_groups


def gaussian(n: int, count: int = 8000) -> Tensor:
    return torch.randn(count, n, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("n", "bits", "least_squares", "same_norm", "octave_error"),
    [
        (64, 4, (0.9911, 0.00889), (0.9955, 0.00891), 0.00897),
        (64, 3, (0.9674, 0.03264), (0.9835, 0.03293), 0.03381),
        (256, 4, (0.9907, 0.00933), (0.9953, 0.00935), 0.00942),
        (256, 3, (0.9659, 0.03408), (0.9828, 0.03438), 0.03531),
    ],
)
def test_slope_and_error_of_three_scale_rules(
    n: int, bits: int, least_squares: tuple[float, float], same_norm: tuple[float, float], octave_error: float
) -> None:
    x = gaussian(n)
    codes, scale = encode_block(x, bits)
    u = torch.tensor(LUT[bits], dtype=torch.float32)[codes.long()] / 64
    energy, dot, size = x.square().sum(-1), (x * u).sum(-1), u.square().sum(-1)

    def slope_and_error(s: Tensor) -> tuple[float, float]:
        x_hat = u * s.unsqueeze(-1)
        return float(((x * x_hat).sum(-1) / energy).mean()), float((x - x_hat).square().sum() / energy.sum())

    assert slope_and_error(dot / size) == pytest.approx(least_squares, rel=0.01)
    assert slope_and_error((energy / size).sqrt()) == pytest.approx(same_norm, rel=0.01)
    slope, error = slope_and_error(scale.float())
    assert slope == pytest.approx(1, abs=1e-5)
    assert error == pytest.approx(octave_error, rel=0.01)
    # the angle decides all of them: cos**2 and sin**2, cos and 2 - 2 cos, 1 and tan**2
    cosine = dot / (energy * size).sqrt()
    assert slope_and_error(dot / size)[0] == pytest.approx(float(cosine.square().mean()), rel=1e-5)
    assert slope_and_error(energy / dot)[1] == pytest.approx(
        float(((1 / cosine.square() - 1) * energy).sum() / energy.sum()), rel=1e-3
    )


def losses_of_a_needle(tokens: int) -> dict[str, tuple[float, float]]:
    """Of 128 queries, each with one key of logit log(tokens) + 1 beside ``tokens`` random ones, so that it has 0.62 of
    the weight: KL of the weights in nats, and the share of its weight that the key keeps, by scale rule at 3 bits."""
    g = torch.Generator().manual_seed(0)
    query, other = torch.randn(2, 128, HEAD, generator=g)
    energy = query.square().sum(-1, keepdim=True)
    needle = other + ((math.log(tokens) + 1) * HEAD**0.5 - (other * query).sum(-1, keepdim=True)) * query / energy
    key = torch.cat((torch.randn(tokens, HEAD, generator=g), needle))
    rotated = rotate_forward(key, HEAD)
    codes, _ = encode_block(rotated, 3)
    u = torch.tensor(LUT[3], dtype=torch.float32)[codes.long()]
    square, dot, size = ((a * b).sum(-1, keepdim=True) for a, b in ((rotated, rotated), (rotated, u), (u, u)))

    def log_weights(keys: Tensor) -> Tensor:
        scores = (query @ keys.T).double() / HEAD**0.5
        return torch.cat((scores[:, :tokens], scores[:, tokens:].diagonal().unsqueeze(-1)), dim=-1).log_softmax(-1)

    exact = log_weights(key)
    found = {}
    for rule, scale in (("least squares", dot / size), ("same norm", (square / size).sqrt()), ("octave", square / dot)):
        stored = log_weights(rotate_inverse(u * scale, HEAD))
        kl = (exact.exp() * (exact - stored)).sum(-1).mean()
        found[rule] = (float(kl), float((stored[:, -1] - exact[:, -1]).exp().mean()))
    return found


@pytest.mark.parametrize(
    ("tokens", "kl", "kept"),
    [
        (512, (0.0163, 0.0121, 0.0106), (0.91, 0.95, 0.99)),
        (4096, (0.0195, 0.0127, 0.0106), (0.89, 0.95, 1.00)),
        (16384, (0.0261, 0.0152, 0.0107), (0.86, 0.92, 0.98)),
        pytest.param(131072, (0.0369, 0.0197, 0.0120), (0.82, 0.90, 0.97), marks=pytest.mark.slow),
    ],
)
def test_least_squares_loses_more_with_every_token(
    tokens: int, kl: tuple[float, float, float], kept: tuple[float, float, float]
) -> None:
    found = losses_of_a_needle(tokens)
    assert list(found) == ["least squares", "same norm", "octave"]
    assert [loss for loss, _ in found.values()] == pytest.approx(kl, rel=0.01)
    assert [share for _, share in found.values()] == pytest.approx(kept, abs=0.006)


@pytest.mark.parametrize("generator", GENERATORS)
def test_least_squares_has_the_smaller_output_error_at_384_tokens(generator: str) -> None:
    found = output_errors(generator)
    assert 0.93 < found["least squares"] / found["octave_k3v3_compact"] < 0.995


def through(x: Tensor, widths: tuple[int, ...], least_squares: bool = False) -> Tensor:
    """x [tokens, 256] as blocks of these widths in bits leave it, each rotated on its own."""
    block = x.shape[-1] // len(widths)
    blocks = rotate_forward(x, block).reshape(-1, len(widths), block)
    parts = []
    for index, bits in enumerate(widths):
        codes, scale = encode_block(blocks[:, index], bits)
        x_hat = torch.tensor(LUT[bits], dtype=torch.float32)[codes.long()] * scale.float().unsqueeze(-1) / 64
        if least_squares:
            x_hat *= (x_hat * blocks[:, index]).sum(-1, keepdim=True) / x_hat.square().sum(-1, keepdim=True)
        parts.append(x_hat)
    return rotate_inverse(torch.cat(parts, dim=-1), block)


CANDIDATES: dict[str, tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = {
    "K in 3-bit blocks": ((3, 3, 3, 3), None),
    "K with a 4-bit rotary block": ((4, 3, 3, 3), None),
    "K whole": ((3,), None),
    "V has more": ((3,), (4,)),
    "K has more": ((4,), (3,)),
}
"""The widths of the blocks of K and of V; None: left as they are."""


@cache
def output_errors(generator: str) -> dict[str, float]:
    """Relative errors of the attention output, of `CANDIDATES` and of codecs, as means over four samples."""
    names = ("octave_k3v3_compact", "turboquant_3bit_nc")
    totals = dict.fromkeys((*CANDIDATES, "least squares", *names), 0.0)
    for seed in range(4):
        sample = GENERATORS[generator].sample(seed, Shape(HEAD, ROTARY, group=2, tokens=384))
        query, key, value = sample.query.float(), sample.key[:, 0].float(), sample.value[:, 0].float()
        decoded = [
            (key if k is None else through(key, k), value if v is None else through(value, v))
            for k, v in CANDIDATES.values()
        ]
        decoded.append((through(key, (3,), least_squares=True), through(value, (3,), least_squares=True)))
        decoded += [codec.decode(codec.encode(key, value)) for codec in (make(name, HEAD, ROTARY) for name in names)]
        losses = compare(query, key, value, decoded, sample.sm_scale)
        for name, loss in zip(totals, losses.each, strict=True):
            totals[name] += math.sqrt(loss.error / losses.energy) / 4
    return totals


@pytest.mark.parametrize(
    ("generator", "blocks", "mixed", "whole"),
    [
        ("rotary_dominated", 0.149, 0.0756, 0.0891),
        ("isotropic", 0.152, 0.137, 0.159),
        ("constant_pairs", 0.214, 0.159, 0.226),
    ],
)
def test_three_bits_for_a_rotary_block_of_its_own(generator: str, blocks: float, mixed: float, whole: float) -> None:
    found = output_errors(generator)
    errors = [found[name] for name in ("K in 3-bit blocks", "K with a 4-bit rotary block", "K whole")]
    assert errors == pytest.approx([blocks, mixed, whole], abs=0.002)


@pytest.mark.parametrize(
    ("generator", "v_has_more", "k_has_more"), [("isotropic", 0.188, 0.206), ("constant_pairs", 0.247, 0.223)]
)
def test_a_bit_moved_from_v_to_k_at_228_bytes(generator: str, v_has_more: float, k_has_more: float) -> None:
    found = output_errors(generator)
    assert [found["V has more"], found["K has more"]] == pytest.approx([v_has_more, k_has_more], abs=0.002)


@pytest.mark.parametrize(
    ("generator", "saved"),
    [
        ("isotropic", 0.10),
        ("needle", 0.13),
        ("rotary_dominated", 0.16),
        ("constant_pairs", 0.06),
        ("heavy_tailed", 0.59),
    ],
)
def test_output_error_below_turboquant_at_equal_size(generator: str, saved: float) -> None:
    assert [make(name, HEAD, ROTARY).slot_bytes for name in ("octave_k3v3_compact", "turboquant_3bit_nc")] == [196, 198]
    found = output_errors(generator)
    assert 1 - found["octave_k3v3_compact"] / found["turboquant_3bit_nc"] == pytest.approx(saved, abs=0.01)


@pytest.mark.parametrize(
    ("name", "snr", "to_bound"),
    [("octave_k3v3_compact", 14.52, 3.91), ("octave_k3v3", 15.07, 5.25), ("octave_k3v4", 17.94, 5.39)],
)
def test_distance_to_the_bound_on_gaussian_data(name: str, snr: float, to_bound: float) -> None:
    # the mean of K's and V's decibels: with it no split of bits between the two is better than another at the bound
    codec = make(name, HEAD, ROTARY)
    key, value = gaussian(HEAD).split(4000)
    k, v = codec.decode(codec.encode(key, value))
    noise = [float((hat - x).square().sum() / x.square().sum()) for hat, x in ((k, key), (v, value))]
    found = -10 * math.log10(math.sqrt(noise[0] * noise[1]))
    assert found == pytest.approx(snr, abs=0.03)
    assert 20 * math.log10(2) * bits_per_value(codec.slot_bytes) - found == pytest.approx(to_bound, abs=0.03)
