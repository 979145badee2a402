"""executor: which bytes a kernel may touch, and that it works on the tensors themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from octave_gen.errors import OctaveError
from octave_gen.kernels import KINDS
from octave_gen.verify.arena import allocate, dense_strides, far_strides
from octave_gen.verify.executor import regions, written
from octave_gen.verify.inputs import place, place_pair


def test_a_dense_tensor_is_one_region_of_all_its_bytes() -> None:
    x = allocate((4, 3, 8), torch.float16)
    (region,) = regions({"x": x}, {"x"})
    assert (region.name, region.address, region.size, region.valid) == ("x", x.data_ptr(), 192, None)
    region.bytes[-2:] = np.frombuffer(np.float16(5).tobytes(), np.uint8)
    assert float(x[-1, -1, -1]) == 5


def test_dims_in_another_order_and_of_one_entry_are_dense_too() -> None:
    (region,) = regions({"x": torch.zeros(4, 3, 8).transpose(0, 1)}, ())
    assert (region.size, region.valid, region.writable) == (4 * 3 * 8 * 4, None, False)
    (region,) = regions({"x": torch.zeros(6, 8).as_strided((1, 1, 8), (999, 5, 1))}, ())
    assert (region.size, region.valid) == (32, None)


def test_holes_are_not_valid() -> None:
    x = torch.zeros(3, 5, dtype=torch.int16)[:, 1:3]
    (region,) = regions({"x": x}, ())
    assert region.valid is not None
    assert region.valid.tolist() == ([True] * 4 + [False] * 6) * 2 + [True] * 4


def test_far_parts_are_regions_of_their_own() -> None:
    x = allocate((3, 2, 4), torch.float32, strides=far_strides((3, 2, 4), 4, dense_strides((3, 2, 4)), 1))
    found = regions({"x": x}, {"x"})
    assert [region.address for region in found] == [x[i].data_ptr() for i in range(3)]
    assert {region.size for region in found} == {32}
    assert next(region.name for region in found) == "x"
    assert found[2].name == f"x + {x[2].data_ptr() - x.data_ptr():#x}"


def test_tensors_that_interleave_are_one_region_of_the_bytes_of_both() -> None:
    key, value = place_pair(torch.ones(3, 2, 4), torch.zeros(3, 2, 4), "strided")
    (region,) = regions({"key": key, "value": value}, ())
    assert region.name == "key, value"
    assert region.valid is not None
    assert int(region.valid.sum()) == 2 * 3 * 2 * 4 * 4
    assert region.address == key.data_ptr()
    assert region.end == value.data_ptr() + 4 * (value.stride(0) * 2 + value.stride(1) + 4)


def test_empty_tensors_and_repeated_entries() -> None:
    assert regions({"x": torch.empty(0, 4)}, {"x"}) == []
    (region,) = regions({"x": torch.zeros(1, 4).expand(9, 4)}, ())
    assert region.size == 16


def test_an_output_inside_an_input_is_refused() -> None:
    x = torch.zeros(4, 8)
    with pytest.raises(OctaveError, match="share memory, and only one of them is an output"):
        regions({"x": x[:, :4], "y": x[:, 4:]}, {"y"})


def test_an_output_without_a_tensor_is_refused() -> None:
    with pytest.raises(OctaveError, match="no tensor is given for out"):
        regions({"x": torch.zeros(4)}, {"out"})


@pytest.mark.parametrize(
    ("kind", "outputs"), [("store", {"cache"}), ("rotate", {"x"}), ("decode", {"mid_o"}), ("reduce", {"out"})]
)
def test_what_a_kernel_writes_follows_from_its_arguments(kind: str, outputs: set[str]) -> None:
    assert written(KINDS[kind].tiers[0].arguments) == outputs


def test_a_placed_cache_is_as_large_as_its_slots() -> None:
    cache = place(torch.zeros(3, 2, 4, 100, dtype=torch.uint8), "strided", order=(0, 2, 1), pad=12, dims=2)
    (region,) = regions({"cache": cache}, {"cache"})
    assert region.valid is not None
    assert int(region.valid.sum()) == cache.numel()
