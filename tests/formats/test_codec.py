from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
import torch
from unrotated import dequantize_unrotated

from octave_gen.errors import OctaveError
from octave_gen.formats import cache_dtype
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codebook import LUT, LUT_MULT, thresholds
from octave_gen.formats.octave.codec import dequantize, encode_block, quantize
from octave_gen.formats.octave.packing import unpack
from octave_gen.formats.octave.rotation import rotate_forward, rotate_inverse, sign_tensor, sign_vector

K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4 = 3, 4, 19, 20, 51
DIGESTS = {
    "octave_k3v4": "d69fea64d45ac0f45dd51a41f2b44fd2a477558b774b58c1d5ea376ef5fd4983",
    "octave_k3v3": "666874c6f5be4f395434e6eb7a60033390086dbd5ea7f1f2e1779d4c19713b1e",
    "octave_k3v3_compact": "7e94c438540732c492b8d131ab0b80857f3ca6942a2837f7f8c993492d77a1e0",
}
SHAPES = [(256, 64), (128, 64)]
LAYOUTS = [
    SlotLayout.of(head, rotary, fmt)
    for head, rotary in ((64, 64), (128, 64), (192, 64), (256, 64), (256, 128), (320, 64), (512, 128))
    for fmt in (K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4)
    if not (fmt in (COMPACT, COMPACT_V4, COMPACT_K4) and head in (192, 320))
]


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def lattice(multiplier: int, add: int) -> torch.Tensor:
    i = torch.arange(4 * 2 * 256)
    return ((((i * multiplier + add) & 0xFFFFFFFF) >> 16) % 257 - 128).float().div(64).reshape(4, 2, 256)


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_slots_are_the_golden_bytes(golden: np.lib.npyio.NpzFile, name: str, shape: tuple[int, int]) -> None:
    head, rotary = shape
    key, value, slots = (torch.from_numpy(golden[f"{name}_{head}_{rotary}.{x}"]) for x in ("key", "value", "slots"))
    assert torch.equal(quantize(key, value, SlotLayout.of(head, rotary, cache_dtype(name).fmt)), slots)


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_digests(name: str, dtype: torch.dtype) -> None:
    # the lattice's values (at most 8 bits) are exact in all three dtypes
    key, value = lattice(2654435761, 12345).to(dtype), lattice(2246822519, 777).to(dtype)
    slots = quantize(key, value, SlotLayout.of(256, 64, cache_dtype(name).fmt))
    assert hashlib.sha256(slots.numpy().tobytes()).hexdigest() == DIGESTS[name]


@pytest.mark.parametrize("head", [64, 128, 256, 512])
def test_compact_k_with_4_bit_v_has_the_k_of_one_public_dtype_and_the_v_of_another(head: int) -> None:
    key, value = gaussian(7, head, seed=11).half(), gaussian(7, head, seed=12).half()
    mixed, compact, wide = (SlotLayout.of(head, 64, fmt) for fmt in (COMPACT_V4, COMPACT, K3V4))
    slots, of_k, of_v = (quantize(key, value, layout) for layout in (mixed, compact, wide))
    for name, source, layout in (("k_planes", of_k, compact), ("k_scales", of_k, compact), ("v", of_v, wide)):
        here, there = getattr(mixed, name), getattr(layout, name)
        assert torch.equal(slots[:, here.offset : here.end], source[:, there.offset : there.end])
    assert torch.equal(slots[:, mixed.v_scale.offset :], of_v[:, wide.v_scale.offset : wide.v_scale.end])
    assert [torch.equal(a, b) for a, b in zip(dequantize(slots, mixed), dequantize(of_k, compact), strict=True)] == [
        True,
        False,
    ]


@pytest.mark.parametrize("head", [64, 128, 256, 512])
def test_compact_k_of_4_bits_is_what_a_public_dtype_makes_of_v(head: int) -> None:
    key, value = gaussian(7, head, seed=11).half(), gaussian(7, head, seed=12).half()
    k4, compact, wide = (SlotLayout.of(head, 64, fmt) for fmt in (COMPACT_K4, COMPACT, K3V4))
    slots, of_v = quantize(key, value, k4), quantize(key, value, compact)
    of_k = quantize(key, key, wide)
    assert k4.k_planes.size == 0
    assert torch.equal(slots[:, : k4.v.offset], of_k[:, wide.v.offset : wide.v.end])
    assert torch.equal(slots[:, k4.k_scales.offset : k4.k_scales.end], of_k[:, wide.v_scale.offset : wide.v_scale.end])
    assert torch.equal(slots[:, k4.v.offset : k4.v.end], of_v[:, compact.v.offset : compact.v.end])
    assert torch.equal(slots[:, k4.v_scale.offset :], of_v[:, compact.v_scale.offset :])


def scalar_block(x: list[np.float32], bits: int) -> tuple[list[int], np.float16]:
    """The stated arithmetic for one block of rotated values, one rounded numpy float32 operation at a time."""

    def tree(values: list[np.float32]) -> np.float32:
        while len(values) > 1:
            values = [values[i] + values[i + 1] for i in range(0, len(values), 2)]
        return values[0]

    def total(values: list[np.float32]) -> np.float32:
        if len(values) & (len(values) - 1) == 0:
            return tree(values)
        result = tree(values[:64])
        for start in range(64, len(values), 64):
            result = result + tree(values[start : start + 64])
        return result

    ss = total([v * v for v in x])
    rms = max(np.sqrt(ss / np.float32(len(x))), np.float32(1e-12))
    y = [v / rms * np.float32(LUT_MULT[bits]) for v in x]
    codes = [sum(v > np.float32(limit) for limit in thresholds(bits)) for v in y]
    dot = total([v * np.float32(LUT[bits][code]) for v, code in zip(x, codes, strict=True)])
    scale = ss / dot * np.float32(64) if dot > 0 else np.float32(0)
    return codes, np.float16(min(scale, np.float32(65504)))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("size", [1.0, 5e4, 1e-13, 1e-21, 1e-40, 5e17])
def test_every_block_is_the_scalar_arithmetic(layout: SlotLayout, size: float) -> None:
    key, value = gaussian(1, layout.head_size, seed=1) * size, gaussian(1, layout.head_size, seed=2).bfloat16() * size
    slots = quantize(key, value, layout)
    rotated_k = rotate_forward(key.float(), layout.k_block_size).numpy()
    rotated_v = rotate_forward(value.float(), layout.v_block_size).numpy()
    k_codes = torch.cat(
        [unpack(slots[:, r.offset : r.end], r.bits) for r in (layout.k_nibbles, layout.k_planes)], dim=-1
    )
    v_codes = unpack(slots[:, layout.v.offset : layout.v.end], layout.v_bits)
    scales = slots[:, layout.k_scales.offset : layout.v_scale.end].contiguous().numpy().view("<f2")
    for t in range(len(slots)):
        for b in range(layout.k_blocks):
            dims = slice(b * layout.k_block_size, (b + 1) * layout.k_block_size)
            codes, scale = scalar_block(list(rotated_k[t, dims]), 4 if dims.start < layout.k_nibbles.dims else 3)
            assert k_codes[t, dims].tolist() == codes
            assert scales[t, b].tobytes() == scale.tobytes()
        codes, scale = scalar_block(list(rotated_v[t]), layout.v_bits)
        assert v_codes[t].tolist() == codes
        assert scales[t, -1].tobytes() == scale.tobytes()


def test_a_value_on_a_threshold_takes_the_lower_code() -> None:
    # rms is exactly 1: 5 * 0.25 + 3 * 2.25 + 56 = 64; then 0.5 lands on 29.5 exactly
    x = torch.tensor([0.5] * 5 + [1.5] * 3 + [1.0] * 28 + [-1.0] * 28)
    codes, _ = encode_block(x, 3)
    assert codes[:5].tolist() == [4] * 5
    codes, _ = encode_block(-x, 3)
    assert codes[:5].tolist() == [2] * 5
    # zero is a threshold of both codebooks
    x[:5] = 0
    assert encode_block(x, 3)[0][:5].tolist() == [3] * 5
    assert encode_block(x, 4)[0][:5].tolist() == [7] * 5


@pytest.mark.parametrize(("bits", "limit"), [(3, 29.5), (3, 62.0), (4, 12.0), (4, 36.5), (4, 84.5)])
def test_codes_and_scales_to_the_last_bit(bits: int, limit: float) -> None:
    # x[0] is placed so that y[0] is the threshold up to rounding: a root or quotient one bit off flips codes here, and
    # with so many blocks a sum in another order flips the last bit of some scales
    def tree(values: np.ndarray) -> np.ndarray:
        while values.shape[1] > 1:
            values = values[:, 0::2] + values[:, 1::2]
        return values

    x = gaussian(20_000, 64, seed=bits)
    ratio = (limit / LUT_MULT[bits]) ** 2
    rest = x[:, 1:].double().square().sum(-1)
    x[:, 0] = (rest * ratio / (64 - ratio)).sqrt().float()
    rows = x.numpy()
    ss = tree(rows * rows)
    y = rows / np.sqrt(ss / np.float32(64)) * np.float32(LUT_MULT[bits])
    expected = sum((y > np.float32(t)).astype(np.uint8) for t in thresholds(bits))
    assert len(np.unique(expected[:, 0])) == 2
    scale = ss / tree(rows * np.array(LUT[bits], dtype=np.float32)[expected]) * np.float32(64)
    codes, scales = encode_block(x, bits)
    assert np.array_equal(codes.numpy(), expected)
    assert np.array_equal(scales.numpy(), scale[:, 0].astype(np.float16))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_dequantize_reads_what_quantize_wrote(layout: SlotLayout) -> None:
    key, value = gaussian(5, 2, layout.head_size, seed=3), gaussian(5, 2, layout.head_size, seed=4)
    slots = quantize(key, value, layout)
    k, v = dequantize(slots, layout)
    assert k.shape == v.shape == key.shape
    rotated_k = rotate_forward(key, layout.k_block_size).reshape(5, 2, layout.k_blocks, -1)
    rotated_v = rotate_forward(value, layout.v_block_size)
    codes, scale = encode_block(rotated_v, layout.v_bits)
    table = torch.tensor(LUT[layout.v_bits], dtype=torch.float32)
    assert torch.equal(v, table[codes.long()] * scale.float()[..., None] / 64)
    # exactly representable, so both precisions agree
    k64, v64 = dequantize(slots, layout, torch.float64)
    assert torch.equal(k64, k.double())
    assert torch.equal(v64, v.double())
    # every block keeps x . x_hat = |x|^2 up to the fp16 rounding of its scale
    blocks = k.reshape(rotated_k.shape)
    assert torch.allclose((blocks * rotated_k).sum(-1), rotated_k.square().sum(-1), rtol=2**-10)
    plain_k, plain_v = dequantize_unrotated(slots, layout)
    assert torch.equal(plain_k, rotate_inverse(k, layout.k_block_size))
    assert torch.equal(plain_v, rotate_inverse(v, layout.v_block_size))


@pytest.mark.parametrize(
    ("fmt", "k_error", "v_error"),
    [
        (K3V3, 0.166, 0.188),
        (K3V4, 0.166, 0.097),
        (COMPACT, 0.188, 0.188),
        (COMPACT_V4, 0.188, 0.097),
        (COMPACT_K4, 0.097, 0.188),
    ],
)
def test_fidelity_on_gaussian_data(fmt: int, k_error: float, v_error: float) -> None:
    layout = SlotLayout.of(256, 64, fmt)
    key, value = gaussian(4000, 256, seed=5), gaussian(4000, 256, seed=6)
    for x, x_hat, expected in zip(
        (key, value), dequantize_unrotated(quantize(key, value, layout), layout), (k_error, v_error), strict=True
    ):
        error = ((x_hat - x).square().sum() / x.square().sum()).sqrt().item()
        slope = (x_hat * x).sum(-1) / x.square().sum(-1)
        assert error == pytest.approx(expected, abs=1e-3)
        assert slope.mean().item() == pytest.approx(1.0, abs=1e-5)
        assert (slope - 1).abs().max() < 1e-3


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_pad_bytes_are_zero(layout: SlotLayout) -> None:
    slots = quantize(gaussian(9, layout.head_size), gaussian(9, layout.head_size, seed=1), layout)
    assert slots.shape == (9, layout.slot_bytes)
    assert not slots[:, layout.pad.offset :].any()


def scales_of(slots: torch.Tensor, layout: SlotLayout) -> torch.Tensor:
    """fp16 [..., k_blocks + 1]: K blocks, then V."""
    return slots[..., layout.k_scales.offset : layout.v_scale.end].contiguous().view(torch.float16)


@pytest.mark.parametrize("bits", [3, 4])
def test_a_scale_beyond_fp16_saturates(bits: int) -> None:
    flat = torch.ones(64)
    _, unit = encode_block(flat, bits)
    # just below, the last value that rounds to 65504, just above, and far beyond
    for rms, expected in ((65500 / unit.item(), None), (65519 / unit.item(), 65504), (70000.0, 65504), (1e15, 65504)):
        _, scale = encode_block(flat * rms, bits)
        assert torch.isfinite(scale)
        assert scale.item() == (expected if expected else pytest.approx(65500, abs=32))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_largest_fp16_input_stays_finite(layout: SlotLayout) -> None:
    signs = sign_vector(sign_tensor(layout.head_size))
    key = torch.full((1, layout.head_size), 65504.0).half()
    for value in (key, (key.float() * signs).half()):  # the second one rotates into a single huge coordinate
        slots = quantize(key, value, layout)
        k, v = dequantize(slots, layout)
        assert torch.isfinite(k).all()
        assert torch.isfinite(v).all()
        assert (scales_of(slots, layout) > 0).all()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_zero_input_is_scale_zero_and_decodes_to_zero(layout: SlotLayout) -> None:
    zero = torch.zeros(2, layout.head_size).half()
    slots = quantize(zero, -zero, layout)
    assert torch.equal(slots[0], slots[1])
    assert not scales_of(slots, layout).any()
    # y = 0 lies on the middle threshold, so the codes are 3 and 7, not 0
    assert set(unpack(slots[:, layout.v.offset : layout.v.end], layout.v_bits).unique().tolist()) == {
        3 if layout.v_bits == 3 else 7
    }
    k, v = dequantize(slots, layout)
    assert not k.any()
    assert not v.any()


@pytest.mark.parametrize("fmt", [K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4])
def test_subnormal_and_tiny_input(fmt: int) -> None:
    layout = SlotLayout.of(256, 64, fmt)
    smallest = torch.full((1, 256), 2.0**-24).half()
    tiny = torch.full((1, 256), 1e-38).bfloat16()  # its squares are zero in fp32
    for x in (smallest, tiny):
        slots = quantize(x, x, layout)
        k, v = dequantize(slots, layout)
        assert torch.isfinite(k).all()
        assert torch.isfinite(v).all()
    assert not scales_of(quantize(tiny, tiny, layout), layout).any()
    # a subnormal rotated into few coordinates keeps them: the scale itself is a subnormal fp16
    x = (gaussian(4, 256) * 2.0**-20).half()
    k, v = dequantize_unrotated(quantize(x, x, layout), layout)
    assert ((v - x).norm() / x.norm()) < 0.3
    assert ((k - x).norm() / x.norm()) < 0.3


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_non_finite_value_costs_its_block_and_nothing_else(layout: SlotLayout, bad: float) -> None:
    head = layout.head_size
    key, value = gaussian(3, 2, head, seed=7).half(), gaussian(3, 2, head, seed=8).half()
    clean = quantize(key, value, layout)
    key[1, 0, head - 1] = bad  # in the last K block of one token and head
    dirty = quantize(key, value, layout)
    changed = (clean != dirty).any(-1)
    assert changed.nonzero().tolist() == [[1, 0]]
    slot, before = dirty[1, 0], clean[1, 0]
    scales = scales_of(slot, layout)
    assert torch.equal(scales[:-2], scales_of(before, layout)[:-2])
    assert scales[-2] == 0
    assert torch.equal(slot[layout.v.offset : layout.v.end], before[layout.v.offset : layout.v.end])
    assert scales[-1] == scales_of(before, layout)[-1]
    codes = torch.cat([unpack(slot[r.offset : r.end], r.bits) for r in (layout.k_nibbles, layout.k_planes)])
    old = torch.cat([unpack(before[r.offset : r.end], r.bits) for r in (layout.k_nibbles, layout.k_planes)])
    assert not codes[head - layout.k_block_size :].any()
    assert torch.equal(codes[: head - layout.k_block_size], old[: head - layout.k_block_size])
    value[2, 1, 0] = bad
    both = quantize(key, value, layout)
    assert torch.equal(both[:2], dirty[:2])
    assert not both[2, 1, layout.v.offset : layout.v.end].any()
    assert scales_of(both, layout)[2, 1, -1] == 0
    assert torch.equal(both[2, 1, : layout.v.offset], clean[2, 1, : layout.v.offset])


def test_squares_that_overflow_count_as_non_finite() -> None:
    layout = SlotLayout.of(256, 64, K3V3)
    below, above = torch.zeros(1, 256), torch.zeros(1, 256)
    below[0, 100], above[0, 100] = 1.8e19, 1.9e19
    quiet = torch.zeros(1, 256)
    assert scales_of(quantize(below.bfloat16(), quiet, layout), layout)[0].tolist() == [0, 65504, 0, 0, 0]
    slots = quantize(above.bfloat16(), quiet, layout)
    assert not scales_of(slots, layout).any()
    codes = unpack(slots[:, layout.k_planes.offset : layout.k_planes.end], 3)
    assert not codes[0, :64].any()
    assert (codes[0, 64:] == 3).all()


def test_leading_shapes_and_strides_do_not_matter() -> None:
    layout = SlotLayout.of(128, 64, K3V4)
    key, value = gaussian(4, 3, 128, seed=9), gaussian(4, 3, 128, seed=10)
    slots = quantize(key, value, layout)
    assert torch.equal(quantize(key[2, 1], value[2, 1], layout), slots[2, 1])
    wide = torch.stack((key, value), dim=-1)
    assert torch.equal(quantize(wide[..., 0], wide[..., 1], layout), slots)
    assert quantize(key[:0], value[:0], layout).shape == (0, 3, layout.slot_bytes)
    room = torch.zeros(4, 3, layout.slot_bytes + 5, dtype=torch.uint8)
    room[..., 3:-2] = slots
    assert torch.equal(dequantize(room[..., 3:-2], layout)[0], dequantize(slots, layout)[0])


def test_other_sign_words_are_used_for_k_and_v_alone() -> None:
    layout = SlotLayout.of(128, 64, K3V3)
    key, value = gaussian(4, 128, seed=9), gaussian(4, 128, seed=10)
    other = torch.tensor([1, 2, 3, -4], dtype=torch.int32)
    slots, only_k, only_v = (quantize(key, value, layout, *s) for s in ((), (other,), (None, other)))
    assert torch.equal(quantize(key, value, layout, sign_tensor(128), sign_tensor(128)), slots)
    v = slice(layout.v.offset, layout.v.end)
    assert torch.equal(only_k[:, v], slots[:, v])
    assert not torch.equal(only_k[:, : v.start], slots[:, : v.start])
    assert torch.equal(only_v[:, : v.start], slots[:, : v.start])
    assert not torch.equal(only_v[:, v], slots[:, v])
    k_hat, v_hat = dequantize_unrotated(quantize(key, value, layout, other, other), layout, torch.float32, other, other)
    assert (k_hat - key).norm() / key.norm() < 0.25
    assert (v_hat - value).norm() / value.norm() < 0.25


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (torch.zeros(2, 64), torch.zeros(2, 128)),
        (torch.zeros(2, 128), torch.zeros(3, 128)),
        (torch.zeros(2, 128, dtype=torch.float64), torch.zeros(2, 128)),
        (torch.zeros(2, 128), torch.zeros(2, 128, dtype=torch.int32)),
        (torch.tensor(1.0), torch.tensor(1.0)),
    ],
)
def test_wrong_shapes_and_dtypes_are_refused(key: torch.Tensor, value: torch.Tensor) -> None:
    with pytest.raises(OctaveError, match=r"key|value"):
        quantize(key, value, SlotLayout.of(128, 64, K3V3))


@pytest.mark.parametrize("read", [dequantize, dequantize_unrotated])
@pytest.mark.parametrize(
    "slots",
    [
        torch.zeros(2, 111, dtype=torch.uint8),
        torch.zeros(2, 113, dtype=torch.uint8),
        torch.zeros(2, 112, dtype=torch.int8),
        torch.zeros(2, 112),
        torch.tensor(0, dtype=torch.uint8),
    ],
    ids=lambda slots: f"{slots.dtype} {list(slots.shape)}",
)
def test_what_is_no_slot_is_refused(slots: torch.Tensor, read: Callable[..., object]) -> None:
    with pytest.raises(OctaveError, match=r"slots are torch.*\n  hint: they must be uint8 \[\.\.\., 112\]"):
        read(slots, SlotLayout.of(128, 64, K3V3))
