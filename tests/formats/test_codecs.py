"""What holds for every codec of the registry."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from octave_gen.errors import WRONG_REQUEST, OctaveError
from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.codec import Codec
from octave_gen.formats.codecs import CODECS, make
from octave_gen.formats.octave.encoders import ENCODERS

HEADS = (64, 128, 256)
# bytes of a slot at head 64, 128 and 256, rotary 64
SLOT_BYTES = {
    "fp16": (256, 512, 1024),
    "fp8": (128, 256, 512),
    "int8": (136, 264, 520),
    "octave_k3v3_compact": (52, 100, 196),
    "octave_k3v3": (64, 112, 216),
    "octave_k3v4_compact": (60, 116, 228),
    "octave_k4v3_compact": (60, 116, 228),
    "octave_k3v4": (72, 128, 248),
    "turboquant_3bit_nc": (54, 102, 198),
    "turboquant_k3v4_nc": (62, 118, 230),
    "turboquant_4bit_nc": (70, 134, 262),
    "turboquant_k8v4": (100, 196, 388),
    "turbo3": (None, 112, 224),
    "turbo4": (None, 144, 288),
    "octopus_2": (2 * (20 + 4), 2 * (38 + 4), 2 * (76 + 4)),
    "octopus_3": (2 * (28 + 4), 2 * (54 + 4), 2 * (108 + 4)),
    "octopus_4": (2 * (36 + 4), 2 * (70 + 4), 2 * (140 + 4)),
    "octopus_2_qjl": (2 * (20 + 4) + 10, 2 * (38 + 4) + 18, 2 * (76 + 4) + 34),
    "octopus_3_qjl": (2 * (28 + 4) + 10, 2 * (54 + 4) + 18, 2 * (108 + 4) + 34),
    "octopus_4_qjl": (2 * (36 + 4) + 10, 2 * (70 + 4) + 18, 2 * (140 + 4) + 34),
}
NORM_IN_FP16 = {"turboquant_3bit_nc", "turboquant_k3v4_nc", "turboquant_4bit_nc", "turbo3", "turbo4"}


def plain(name: str) -> str:
    return name.partition("+")[0]


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> Codec:
    return make(request.param, 128, 64)


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_registry_and_table_name_the_same_formats() -> None:
    assert {plain(name) for name in CODECS} == set(SLOT_BYTES)
    assert {name for name in CODECS if name.startswith("octave")} == {
        dtype if encoder == "plain" else f"{dtype}+{encoder}" for dtype in CACHE_DTYPES for encoder in ENCODERS
    }


@pytest.mark.parametrize("name", CODECS)
def test_slot_bytes(name: str) -> None:
    for head, expected in zip(HEADS, SLOT_BYTES[plain(name)], strict=True):
        if expected is not None:
            codec = make(name, head, 64)
            assert (codec.name, codec.head_size, codec.slot_bytes) == (name, head, expected)


def test_names_cost_no_torch() -> None:
    code = "import sys; from octave_gen.formats.codecs import CODECS; sys.exit(not CODECS or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(OctaveError) as caught:
        make("octopus_5", 128, 64)
    assert "did you mean octopus_" in str(caught.value)
    assert "turboquant_k3v4_nc" in (caught.value.hint or "")
    assert caught.value.exit_code == WRONG_REQUEST


@pytest.mark.parametrize(
    ("name", "head", "rotary", "word"),
    [
        ("fp16", 0, 0, "one dim"),
        ("int8", -8, 0, "one dim"),
        ("octave_k3v3", 100, 64, "head_size 100"),
        ("octave_k3v4", 256, 320, "rotary_dims 320"),
        ("octave_k3v3_compact", 192, 64, "power of two"),
        ("turboquant_3bit_nc", 192, 64, "turboquant_3bit_nc cannot hold head_size 192: .* power of two"),
        ("turboquant_4bit_nc", 4, 4, "8 or more"),
        ("turboquant_k8v4", 100, 64, "multiple of 8"),
        ("turbo3", 64, 64, "chunks of 128"),
        ("turbo4", 192, 64, "chunks of 128"),
        ("turbo4", 0, 0, "chunks of 128"),
        ("octopus_2", 96, 64, "power of two"),
        ("octopus_4_qjl", 4, 4, "8 or more"),
    ],
)
def test_heads_that_are_refused(name: str, head: int, rotary: int, word: str) -> None:
    with pytest.raises(OctaveError, match=word):
        make(name, head, rotary)


def test_rotary_dims_matter_for_block_k_alone() -> None:
    for name in CODECS:
        sizes = {make(name, 256, rotary).slot_bytes for rotary in (64, 128, 256)}
        assert len(sizes) == (3 if plain(name) in ("octave_k3v3", "octave_k3v4") else 1), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_shapes_and_dtypes(codec: Codec, dtype: torch.dtype) -> None:
    for leading in ((), (5,), (2, 3), (0, 2)):
        key, value = gaussian(*leading, 128, seed=1).to(dtype), gaussian(*leading, 128, seed=2).to(dtype)
        slots = codec.encode(key, value)
        assert (slots.dtype, slots.shape) == (torch.uint8, (*leading, codec.slot_bytes))
        for decoded, original in zip(codec.decode(slots), (key, value), strict=True):
            assert (decoded.dtype, decoded.shape) == (torch.float32, original.shape)
            error = (decoded - original.float()).square().sum()
            assert bool(error <= 0.12 * original.float().square().sum())


def test_a_vector_is_coded_alone_and_always_alike(codec: Codec) -> None:
    key, value = gaussian(6, 128, seed=1), gaussian(6, 128, seed=2)
    slots = codec.encode(key, value)
    again = make(codec.name, 128, 64)
    assert torch.equal(again.encode(key, value), slots)
    assert all(torch.equal(again.encode(key[i], value[i]), slots[i]) for i in range(6))
    columns = (x.T.contiguous().T for x in (key, value))  # other strides, the same numbers
    assert torch.equal(codec.encode(*columns), slots)
    wide = torch.zeros(6, codec.slot_bytes + 3, dtype=torch.uint8)
    wide[:, 1 : 1 + codec.slot_bytes] = slots
    for one, other in zip(codec.decode(wide[:, 1 : 1 + codec.slot_bytes]), codec.decode(slots), strict=True):
        assert torch.equal(one, other)


def test_k_and_v_do_not_mix(codec: Codec) -> None:
    key, value, other = (gaussian(4, 128, seed=seed) for seed in (1, 2, 3))
    k, v = codec.decode(codec.encode(key, value))
    assert torch.equal(codec.decode(codec.encode(key, other))[0], k)
    assert torch.equal(codec.decode(codec.encode(other, value))[1], v)


def test_zero_vectors_stay_zero(codec: Codec) -> None:
    zero = torch.zeros(2, 128)
    for decoded in codec.decode(codec.encode(zero, zero)):
        assert torch.equal(decoded.abs(), zero)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_a_poisoned_token_leaves_its_neighbours_alone(codec: Codec, poison: float) -> None:
    key, value = gaussian(3, 2, 128, seed=1), gaussian(3, 2, 128, seed=2)
    clean = codec.encode(key, value)
    key[1, 0, 7] = value[1, 0, 100] = poison
    slots = codec.encode(key, value)
    others = torch.ones(3, 2, dtype=torch.bool)
    others[1, 0] = False
    assert torch.equal(slots[others], clean[others])
    assert torch.equal(codec.encode(key, value), slots)
    for decoded, before in zip(codec.decode(slots), codec.decode(clean), strict=True):
        assert torch.equal(decoded[others], before[others])


def test_largest_fp16_values(codec: Codec) -> None:
    sign = gaussian(128).sign()
    full = 65504 * sign
    decoded = codec.decode(codec.encode(full, full))
    if codec.name in NORM_IN_FP16:  # 65504 * sqrt(128) is beyond fp16
        assert not bool(decoded[0].isfinite().any())
    else:
        # a direct cast to fp8 saturates at 448; a uniform V holds its two values to fp16's precision
        reach = {"fp8": (448, 448), "turboquant_k8v4": (448, 65504)}.get(codec.name, (65504, 65504))
        for x, limit in zip(decoded, reach, strict=True):
            assert bool(x.isfinite().all())
            assert torch.nn.functional.cosine_similarity(x, full, dim=-1).item() > 0.9
            # an Octave scale stops at 65504, which holds an rms of 65504 * 46 / 64 with 4 bits
            assert (0.65 if codec.name.startswith("octave") else 0.9) < x.abs().mean().item() / limit < 1.05
    spike = torch.zeros(128)
    spike[5] = 65504
    for x in codec.decode(codec.encode(spike, spike)):
        assert bool(x.isfinite().all())


def test_denormal_values(codec: Codec) -> None:
    smallest = 2.0**-24  # of fp16
    for x in (smallest * gaussian(3, 128).sign(), torch.full((3, 128), 2.0**-149), 2.0**-130 * gaussian(3, 128)):
        for decoded in codec.decode(codec.encode(x, x)):
            assert bool(decoded.isfinite().all())
            assert decoded.abs().max().item() <= 4 * smallest


def test_other_dtypes_and_shapes_are_refused(codec: Codec) -> None:
    x = torch.zeros(3, 128)
    for key, value in ((x.double(), x), (x, x[:2]), (x[:, :64], x[:, :64]), (x, x.long()), (x[0, 0], x[0, 0])):
        with pytest.raises(OctaveError, match="fp16, bf16 or fp32"):
            codec.encode(key, value)
    slots = codec.encode(x, x)
    for wrong in (slots.float(), slots[:, 1:], slots[0, 0]):
        with pytest.raises(OctaveError, match="uint8"):
            codec.decode(wrong)
