"""inputs: the same for the same seed, and with every edge."""

from __future__ import annotations

import pytest
import torch

from octave_gen.formats.octave.rotation import sign_tensor
from octave_gen.verify.inputs import POISON, center, edge_vectors, gaussian, place, place_pair, signs


def test_values_depend_on_seed_and_role_alone() -> None:
    first = gaussian(1, "key", (3, 4), torch.float16)
    assert torch.equal(first, gaussian(1, "key", (3, 4), torch.float16))
    assert not torch.equal(first, gaussian(2, "key", (3, 4), torch.float16))
    assert not torch.equal(first, gaussian(1, "value", (3, 4), torch.float16))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_edge_is_there(dtype: torch.dtype) -> None:
    found = edge_vectors(1, "x", 42, 64, dtype)
    single = found.float()
    info = torch.finfo(dtype)
    assert found.dtype == dtype
    assert torch.equal(found.view(torch.int16), edge_vectors(1, "x", 42, 64, dtype).view(torch.int16))
    rows = {
        "zero": (single == 0).all(-1),
        "nan": single.isnan().any(-1),
        "inf": (single == torch.inf).any(-1),
        "-inf": (single == -torch.inf).any(-1),
        "65504": (found == torch.tensor(65504.0).to(dtype)).all(-1),
        "largest": (single == info.max).all(-1),
        "denormal": ((single != 0) & (single.abs() < info.smallest_normal)).any(-1),
        "plain": single.isfinite().all(-1) & (single.abs().amax(-1) > 1e-5) & (single.abs().amax(-1) < 1e5),
    }
    assert all(bool(which.any()) for which in rows.values()), {name: int(which.sum()) for name, which in rows.items()}
    assert (found.view(torch.int16)[single == 0] < 0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_centers(dtype: torch.dtype) -> None:
    assert center(1, 3, 64, dtype, "absent") is None
    plain, edges = (center(1, 7, 64, dtype, choice) for choice in ("gaussian", "edges"))
    assert plain is not None
    assert edges is not None
    assert plain.dtype == edges.dtype == dtype
    assert plain.isfinite().all()
    assert torch.equal(edges[::6], plain[::6])
    assert [int(head.isnan().sum()) for head in edges] == [0, 1, 0, 0, 0, 0, 0]
    assert [int(head.isinf().sum()) for head in edges] == [0, 0, 0, 0, 1, 0, 0]
    assert (edges[2].float() >= 65504).all()
    assert not edges[5].any()
    assert (edges[3].abs() < torch.finfo(dtype).smallest_normal).all()
    assert edges[3].any()


def test_strided_memory_has_odd_strides_and_poison_between() -> None:
    values = gaussian(1, "x", (4, 3, 8), torch.float16)
    x = place(values, "strided")
    assert torch.equal(x, values)
    assert x.stride() == (44, 13, 1)
    assert x.as_strided((5,), (1,), x.storage_offset() + 8).view(torch.uint8).tolist() == [POISON] * 10


def test_a_strided_cache_has_its_rows_outside_of_its_heads_and_keeps_its_alignment() -> None:
    cache = place(torch.zeros(3, 2, 16, 100, dtype=torch.uint8), "strided", order=(0, 2, 1), pad=12, dims=2)
    assert cache.stride(2) > cache.stride(1)
    assert all(stride % 4 == 0 for stride in cache.stride()[:3])
    assert cache.data_ptr() % 4 == 0


@pytest.mark.parametrize("memory", ["dense", "strided", "far"])
def test_a_pair_holds_the_values_of_both(memory: str) -> None:
    first, second = (gaussian(1, role, (5, 2, 8), torch.bfloat16) for role in ("key", "value"))
    placed = place_pair(first, second, memory)
    assert torch.equal(placed[0], first)
    assert torch.equal(placed[1], second)
    shared = placed[0].untyped_storage().data_ptr() == placed[1].untyped_storage().data_ptr()
    assert shared == (memory == "strided")


def test_signs() -> None:
    assert torch.equal(signs(1, "k_signs", 128, "own"), sign_tensor(128))
    random = signs(1, "k_signs", 128, "random")
    assert (random.dtype, random.shape) == (torch.int32, (4,))
    assert not torch.equal(random, sign_tensor(128))
