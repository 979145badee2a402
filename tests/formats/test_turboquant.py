from __future__ import annotations

import numpy as np
import pytest
import torch
from hadamard import hadamard

from octave_gen.formats.codecs import make
from octave_gen.formats.lloyd_max import gaussian as lloyd_max
from octave_gen.formats.turboquant import RotatedKey, UniformValue

NAMES = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def fields(stream: list[int], width: int, count: int) -> list[int]:
    number = int.from_bytes(bytes(stream), "little")
    return [number >> width * j & (1 << width) - 1 for j in range(count)]


def fp16(stream: list[int]) -> float:
    return float(np.frombuffer(bytes(stream), dtype="<f2")[0])


@pytest.mark.parametrize(("head", "sizes"), [(128, (196, 134, 118, 102)), (256, (388, 262, 230, 198))])
def test_slot_bytes_of_the_public_engine(head: int, sizes: tuple[int, ...]) -> None:
    assert tuple(make(name, head, 64).slot_bytes for name in NAMES) == sizes
    assert all(size % 2 == 0 for size in sizes)


@pytest.mark.parametrize("name", [name for name, (k_bits, _) in NAMES.items() if k_bits < 8])
@pytest.mark.parametrize("head", [128, 256])
def test_slots_by_their_byte_map(name: str, head: int) -> None:
    """Every byte of random slots, read in plain Python, gives what the codec decodes and what it should encode."""
    k_bits, v_bits = NAMES[name]
    codec = make(name, head, 64)
    key, value = 3 * gaussian(12, head, seed=1), gaussian(12, head, seed=2) + 0.5
    slots = codec.encode(key, value)
    k, v = codec.decode(slots)
    centroids = np.array(lloyd_max(2**k_bits).centroids) / np.sqrt(head)
    matrix = hadamard(head)
    for row, x, values, x_hat, v_hat in zip(slots.tolist(), key.double(), value, k.double(), v.double(), strict=True):
        k_end = head * k_bits // 8
        v_end = k_end + 2 + head * v_bits // 8
        assert v_end + 4 == len(row)
        # K
        norm = float(x.norm())
        rotated = matrix @ (x.numpy() / norm)
        levels = centroids[fields(row[:k_end], k_bits, head)]
        nearest = np.abs(rotated[:, None] - centroids).min(axis=1)
        assert np.abs(rotated - levels) == pytest.approx(nearest, abs=1e-6)
        assert fp16(row[k_end : k_end + 2]) == float(np.float16(norm))
        unit = levels / np.sqrt((levels**2).sum())
        assert x_hat.numpy() == pytest.approx(matrix @ unit * float(np.float16(norm)), abs=1e-5)
        # V
        low, high = float(values.min()), float(values.max())
        scale = (high - low) / (2**v_bits - 1)
        codes = np.array(fields(row[k_end + 2 : v_end], v_bits, head))
        assert codes.min() == 0
        assert codes.max() == 2**v_bits - 1
        assert np.abs(codes * scale + low - values.double().numpy()).max() <= scale * 0.500001
        stored = fp16(row[v_end : v_end + 2]), fp16(row[v_end + 2 :])
        assert stored == (float(np.float16(scale)), float(np.float16(low)))
        assert v_hat.numpy() == pytest.approx(codes * stored[0] + stored[1], abs=1e-6)


def test_k8v4_keeps_k_as_fp8_without_rotation() -> None:
    key, value = gaussian(20, 128, seed=1), gaussian(20, 128, seed=2)
    slots = make("turboquant_k8v4", 128, 64).encode(key, value)
    assert torch.equal(slots[:, :128], make("fp8", 128, 64).encode(key, value)[:, :128])
    assert torch.equal(slots[:, 128:], make("turboquant_k3v4_nc", 128, 64).encode(key, value)[:, -68:])


@pytest.mark.parametrize("width", [3, 4])
def test_norm_correction_restores_the_norm(width: int) -> None:
    x = gaussian(1000, 256)
    norms = x.norm(dim=-1)
    corrected, without = (RotatedKey(256, width, nc).decode(RotatedKey(256, width).encode(x)) for nc in (True, False))
    assert torch.allclose(corrected.norm(dim=-1), norms, rtol=2**-11)
    assert (without.norm(dim=-1) / norms).mean().item() == pytest.approx({3: 0.983, 4: 0.9953}[width], abs=1e-3)


@pytest.mark.parametrize(("width", "fact"), [(2, 0.1159), (3, 0.0340), (4, 0.0093)])
def test_mse_of_unit_vectors_at_128(width: int, fact: float) -> None:
    # 16,384 vectors: standard errors 0.10, 0.14 and 0.18 %, and the fact's last digit
    x = torch.nn.functional.normalize(gaussian(16384, 128, seed=width), dim=-1)
    code = RotatedKey(128, width, renormalize=False)
    measured = (code.decode(code.encode(x)) - x).square().sum(-1).mean().item()
    assert measured == pytest.approx({2: 0.11608, 3: 0.03399, 4: 0.00933}[width], rel=0.006)  # of 65,536 vectors
    assert abs(measured - fact) < 0.005 * fact + 5e-5


def test_a_value_on_a_threshold_takes_the_upper_code() -> None:
    # the one threshold that a rotated vector can meet exactly: 0
    x = torch.zeros(128)
    x[0] = x[1] = 1.0  # odd coordinates of the transform are 0, the others sqrt(2 / 128)
    codes = fields(RotatedKey(128, 3).encode(x).tolist()[:48], 3, 128)
    assert codes == [6, 4] * 64


def test_uniform_value_of_flat_and_one_sided_vectors() -> None:
    code = UniformValue(128, 4)
    for x in (torch.full((128,), 0.75), torch.full((128,), -3.0)):
        assert torch.equal(code.decode(code.encode(x)), x)
    x = torch.linspace(100, 115, 128)
    assert (code.decode(code.encode(x)) - x).abs().max().item() <= 0.5001
    x = torch.linspace(0, 2e-3, 128)
    assert (code.decode(code.encode(x)) - x).abs().max().item() <= 1e-4


def test_one_outlier_spoils_a_whole_uniform_value() -> None:
    """What V costs without rotation: its widest values set the step."""
    x = gaussian(200, 128)
    x[:, 10], x[:, 50] = 30.0, -30.0
    code = UniformValue(128, 3)
    others = [d for d in range(128) if d not in (10, 50)]
    error = (code.decode(code.encode(x)) - x)[:, others]
    assert error.square().mean().item() > 0.9  # as much as the values themselves
