from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hadamard import hadamard

from octave_gen.formats.codecs import make
from octave_gen.formats.octopus.codebooks import direction_codebook, norm_codebook, square_density
from octave_gen.formats.octopus.codec import OctopusCode, Triplets
from octave_gen.formats.octopus.octahedron import to_direction, to_square

# (word bits, bytes of K's and V's words) at head 128: 43 triplets
WORDS = {2: (7, 38), 3: (10, 54), 4: (13, 70)}
# mean squared error of unit vectors at head 128 in 65,536 of them; the standard error of 16,384 is 0.11, 0.15, 0.19 %
ERROR = {2: 0.08332, 3: 0.02434, 4: 0.00668}


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unit_vectors(count: int, head: int, seed: int = 0) -> torch.Tensor:
    return torch.nn.functional.normalize(gaussian(count, head, seed=seed), dim=-1)


def test_the_map_and_its_inverse() -> None:
    n = torch.nn.functional.normalize(gaussian(10_000, 3).double(), dim=-1)
    xi, eta = to_square(*n.unbind(-1))
    assert max(xi.abs().max().item(), eta.abs().max().item()) <= 1
    assert torch.allclose(to_direction(xi, eta), n, rtol=0, atol=1e-12)
    doubled = to_square(*(3 * n).unbind(-1))
    assert torch.allclose(torch.stack(doubled), torch.stack((xi, eta)), rtol=0, atol=1e-12)


def test_the_map_at_its_corners() -> None:
    axes = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1], [0, 0, 0]])
    points = torch.stack(to_square(*axes.unbind(-1)), dim=-1)
    assert points.tolist() == [[1, 0], [0, 1], [0, 0], [-1, 0], [0, -1], [1, 1], [0, 0]]
    assert torch.equal(to_direction(points[:, 0], points[:, 1])[:6], axes[:6])
    for corner in ([1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]):
        x, y, z = to_direction(*torch.tensor(corner)).tolist()
        assert (abs(x), abs(y), z) == (0, 0, -1)


def test_the_map_is_not_equal_area() -> None:
    """Solid angle over area: 1 where an axis meets the octahedron, sqrt(27) in the middle of a face."""

    def density(xi: float, eta: float) -> float:
        h = 1e-5
        square = torch.tensor([[xi, eta], [xi + h, eta], [xi, eta + h]], dtype=torch.float64)
        n = to_direction(square[:, 0], square[:, 1])
        return float(torch.linalg.cross(n[1] - n[0], n[2] - n[0]).norm()) / h**2

    assert density(1e-4, 1e-4) == pytest.approx(1, rel=1e-3)
    assert density(1 / 3, 1 / 3) == pytest.approx(math.sqrt(27), rel=1e-3)
    assert density(-2 / 3, 2 / 3) == pytest.approx(math.sqrt(27), rel=1e-3)


def test_density_of_a_square_coordinate() -> None:
    points = np.linspace(-1, 1, 200_001)
    density = square_density(points)
    assert float(np.trapezoid(density, points)) == pytest.approx(1, abs=1e-9)
    xi, eta = to_square(*gaussian(400_000, 3).unbind(-1))
    for sample in (xi, eta):
        counts, edges = np.histogram(sample.numpy(), bins=20, range=(-1, 1))
        for count, a, b in zip(counts, edges, edges[1:], strict=False):
            inside = (points >= a) & (points <= b)
            expected = 400_000 * float(np.trapezoid(density[inside], points[inside]))
            assert abs(count - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_norm_codebook_fits_the_sampled_norms(bits: int) -> None:
    book = norm_codebook(bits, 128)
    rho = unit_vectors(100_000, 128)[:, :3].norm(dim=-1)
    centroids, thresholds = torch.tensor(book.centroids), torch.tensor(book.thresholds)
    codes = torch.bucketize(rho, thresholds)
    for code in range(2**bits):
        cell = rho[codes == code]
        assert cell.mean().item() == pytest.approx(
            centroids[code].item(), abs=5 * (cell.std() / len(cell) ** 0.5).item()
        )
    assert (centroids[codes] - rho).square().mean().item() == pytest.approx(book.distortion, rel=0.03)


@pytest.mark.parametrize("bits", [3, 4, 5])
def test_direction_codebook_is_symmetric(bits: int) -> None:
    centroids = direction_codebook(bits).centroids
    assert len(centroids) == 2**bits
    assert list(centroids) == sorted(centroids)
    assert centroids == tuple(-c for c in reversed(centroids))
    assert centroids[-1] < 1


@pytest.mark.parametrize("nominal", [2, 3, 4])
def test_the_3_by_3_search_finds_the_best_of_the_whole_grid(nominal: int) -> None:
    """10,000 of 10,000 random triplets; the whole grid by one product with all directions and all norms, in float64."""
    t = 0.15 * gaussian(10_000, 3, seed=nominal)
    triplets = Triplets(nominal, 128)
    chosen = triplets.decode(triplets.encode(t)).double()
    products = t.double() @ triplets.directions.double().T
    best = torch.full((10_000,), torch.inf, dtype=torch.float64)
    for rho in triplets.norms.double():
        # |rho n - t|**2 of unit n; the table's fp32 directions are 1 in length to 1e-7
        error = rho**2 - 2 * rho * products.max(dim=1).values + t.double().square().sum(-1)
        best = torch.minimum(best, error)
    found = (chosen - t.double()).square().sum(-1)
    assert int((found <= best + 1e-7).sum()) == 10_000
    seeds = triplets.decode(triplets.encode(t, reach=0)).double()
    assert int(((seeds - t.double()).square().sum(-1) <= best + 1e-7).sum()) < 9_000  # the search is needed


@pytest.mark.parametrize(("nominal", "fact"), [(2, 0.0832), (3, 0.0242), (4, 0.0066)])
def test_error_at_128(nominal: int, fact: float) -> None:
    x = unit_vectors(16384, 128, seed=nominal)
    code = OctopusCode(128, nominal)
    measured = (code.decode(code.encode(x)) - x).square().sum(-1).mean().item()
    assert measured == pytest.approx(ERROR[nominal], rel=0.006)
    assert abs(measured - fact) < 0.008 * fact + 5e-5


def test_error_at_128_and_2_bits_without_joint_rounding() -> None:
    triplets = Triplets(2, 128)
    u = torch.nn.functional.pad(unit_vectors(16384, 128), (0, 1))
    measured = (triplets.decode(triplets.encode(u, reach=0)) - u)[:, :128].square().sum(-1).mean().item()
    assert abs(measured - 0.0894) < 0.005 * 0.0894 + 5e-5


def test_padding_costs_a_little() -> None:
    """The last triplet of head 128 holds two values and a zero: worse than the 42 full ones."""
    triplets = Triplets(2, 128)
    u = torch.nn.functional.pad(unit_vectors(16384, 128), (0, 1))
    per_value = (triplets.decode(triplets.encode(u)) - u)[:, :128].square().mean(0) * 128
    assert per_value[:126].mean().item() == pytest.approx(0.0828, rel=0.006)
    assert per_value[126:].mean().item() > 1.2 * per_value[:126].mean().item()


@pytest.mark.parametrize("nominal", [2, 3, 4])
@pytest.mark.parametrize("residual", [False, True])
def test_slots_by_their_byte_map(nominal: int, residual: bool) -> None:
    """Random slots read in plain Python and float64, from the centroids on, give what the codec decodes."""
    codec = make(f"octopus_{nominal}{'_qjl' if residual else ''}", 128, 64)
    key, value = 3 * gaussian(8, 128, seed=1), gaussian(8, 128, seed=2)
    slots = codec.encode(key, value)
    width, word_bytes = WORDS[nominal]
    square, norms = direction_codebook(nominal + 1).centroids, norm_codebook(nominal - 1, 128).centroids
    code = OctopusCode(128, nominal)
    signs, other_signs = code.signs.double().numpy(), code.residual_signs.double().numpy()
    matrix = hadamard(128)

    def rotated_direction(stream: list[int]) -> np.ndarray:
        number = int.from_bytes(bytes(stream), "little")
        values: list[float] = []
        for j in range(43):
            word = number >> width * j & (1 << width) - 1
            xi, eta = (square[word >> shift & (1 << nominal + 1) - 1] for shift in (0, nominal + 1))
            point = np.array([xi, eta, 1 - abs(xi) - abs(eta)])
            if point[2] < 0:
                point[:2] = math.copysign(1 - abs(eta), xi), math.copysign(1 - abs(xi), eta)
            values += list(point / np.linalg.norm(point) * norms[word >> 2 * (nominal + 1)])
        return np.array(values[:128])

    k, v = codec.decode(slots)
    for row, x, x_hat, y, y_hat in zip(slots.tolist(), key.double(), k, value.double(), v, strict=True):
        gamma = float(np.frombuffer(bytes(row[word_bytes : word_bytes + 4]), dtype="<f4")[0])
        assert gamma == pytest.approx(float(x.norm()), rel=1e-7)
        u_hat = rotated_direction(row[:word_bytes])
        if residual:
            stream = int.from_bytes(bytes(row[word_bytes + 4 : word_bytes + 20]), "little")
            sigma = np.array([-1.0 if stream >> j & 1 else 1.0 for j in range(128)])
            left = matrix @ (signs * x.numpy()) / gamma - u_hat
            projected = matrix @ (other_signs * left)
            assert bool(((sigma > 0) == (projected > 0))[np.abs(projected) > 1e-6].all())
            norm = float(np.frombuffer(bytes(row[word_bytes + 20 : word_bytes + 22]), dtype="<f2")[0])
            assert norm == pytest.approx(float(np.linalg.norm(left)), rel=2**-11)
            u_hat = u_hat + math.sqrt(math.pi / 256) * norm * other_signs * (matrix @ sigma)
        assert x_hat.numpy() == pytest.approx(gamma * signs * (matrix @ u_hat), abs=1e-5)
        stored = row[-(word_bytes + 4) :]
        gamma = float(np.frombuffer(bytes(stored[word_bytes:]), dtype="<f4")[0])
        assert gamma == pytest.approx(float(y.norm()), rel=1e-7)
        assert y_hat.numpy() == pytest.approx(
            gamma * signs * (matrix @ rotated_direction(stored[:word_bytes])), abs=1e-5
        )


@pytest.mark.parametrize("nominal", [2, 3, 4])
def test_the_residual_takes_the_bias_out_of_scores(nominal: int) -> None:
    x = unit_vectors(4096, 128, seed=nominal)
    slope = {
        residual: (x * OctopusCode(128, nominal, residual).decode(OctopusCode(128, nominal, residual).encode(x)))
        .sum(-1)
        .mean()
        .item()
        for residual in (False, True)
    }
    assert slope[False] == pytest.approx({2: 0.9245, 3: 0.9771, 4: 0.9937}[nominal], abs=1e-3)  # of 16,384 vectors
    assert slope[True] == pytest.approx(1, abs=0.002)


def test_the_residual_is_of_k_alone() -> None:
    key, value = gaussian(5, 256, seed=1), gaussian(5, 256, seed=2)
    plain, with_residual = (make(name, 256, 64).encode(key, value) for name in ("octopus_3", "octopus_3_qjl"))
    assert torch.equal(with_residual[:, :112], plain[:, :112])
    assert torch.equal(with_residual[:, 112 + 34 :], plain[:, 112:])


def test_signs_are_fixed_and_differ() -> None:
    code = OctopusCode(128, 2)
    assert code.signs[:16].int().tolist() == [-1, 1, 1, 1, -1, -1, 1, -1, -1, 1, -1, 1, 1, 1, -1, 1]
    assert not torch.equal(code.signs, code.residual_signs)
