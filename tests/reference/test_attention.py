from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from unrotated import dequantize_unrotated

from octave_gen.errors import OctaveError
from octave_gen.formats import cache_dtype
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codec import quantize
from octave_gen.formats.octave.rotation import rotate_inverse
from octave_gen.kernels.splits import tokens_per_split
from octave_gen.reference.attention import decode, decode_partials, reduce_partials
from octave_gen.reference.query import QueryMode, prepare_query
from octave_gen.reference.store import cache_store

K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4 = 3, 4, 19, 20, 51
PUBLIC = ("octave_k3v3_compact", "octave_k3v3", "octave_k3v4")
POISON = 0xFF  # as an fp16 scale: NaN


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@dataclass
class Case:
    """A paged cache of several requests whose unused rows, blocks and table entries are poison."""

    layout: SlotLayout
    query: torch.Tensor
    cache: torch.Tensor
    block_table: torch.Tensor
    q_to_req: torch.Tensor
    q_to_klen: torch.Tensor
    slots: list[torch.Tensor]  # per request, by token
    sm_scale: float

    def args(self) -> tuple[torch.Tensor | SlotLayout | float, ...]:
        return (
            self.query,
            self.cache,
            self.block_table,
            self.q_to_req,
            self.q_to_klen,
            self.layout,
            self.sm_scale,
        )


def make_case(
    layout: SlotLayout,
    lengths: list[int],
    rows: list[tuple[int, int]],
    *,
    kv_heads: int = 2,
    group: int = 3,
    block_size: int = 16,
    dtype: torch.dtype = torch.float16,
) -> Case:
    """rows: (request, klen) of each query token."""
    head = layout.head_size
    needed = [-(-n // block_size) for n in lengths]
    order = torch.randperm(sum(needed) + 2, generator=torch.Generator().manual_seed(1)).tolist()
    cache = torch.full((len(order), kv_heads, block_size, layout.slot_bytes), POISON, dtype=torch.uint8)
    block_table = torch.full((len(lengths), max(needed) + 1), -(2**31), dtype=torch.int32)
    slots = []
    for request, length in enumerate(lengths):
        key = gaussian(length, kv_heads, head, seed=10 + request).to(dtype)
        value = gaussian(length, kv_heads, head, seed=50 + request).to(dtype)
        blocks = [order.pop() for _ in range(needed[request])]
        block_table[request, : len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
        mapping = [blocks[t // block_size] * block_size + t % block_size for t in range(length)]
        cache_store(key, value, cache, torch.tensor(mapping, dtype=torch.int64), layout)
        slots.append(quantize(key, value, layout))
    query = gaussian(len(rows), kv_heads * group, head, seed=3).to(dtype)
    maps = torch.tensor(rows, dtype=torch.int32).reshape(-1, 2)
    return Case(layout, query, cache, block_table, maps[:, 0], maps[:, 1], slots, head**-0.5)


def plain_attention(case: Case) -> torch.Tensor:
    """Unrotated, in float64, one query token and head at a time."""
    out = torch.zeros(case.query.shape, dtype=torch.float64)
    group = case.query.shape[1] // case.cache.shape[1]
    for i, (request, klen) in enumerate(zip(case.q_to_req.tolist(), case.q_to_klen.tolist(), strict=True)):
        if not 0 <= request < len(case.slots) or klen == 0:
            continue
        k, v = dequantize_unrotated(case.slots[request][:klen], case.layout, torch.float64)
        for head in range(case.query.shape[1]):
            scores = k[:, head // group] @ case.query[i, head].double() * case.sm_scale
            weights = (scores - scores.max()).exp()
            out[i, head] = weights @ v[:, head // group] / weights.sum()
    return out


def partials(case: Case, splits: int, mode: QueryMode = "exact", dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The partials with each query's own splits."""
    *_, q_to_klen, _, _ = case.args()
    widths = [tokens_per_split(klen, splits) if splits else 0 for klen in q_to_klen.flatten().tolist()]
    return decode_partials(*case.args(), splits, widths, mode, dtype)


def row_error(out: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest error relative to the largest value of its row; rows of zeros must be zeros."""
    size = expected.double().abs().amax(-1, keepdim=True)
    return float(((out.double() - expected).abs() / torch.where(size > 0, size, 2.0**-200)).max())


ROWS = [(0, 37), (1, 1), (2, 200), (0, 36), (0, 5), (-1, 7), (1, 0), (3, 9), (2, 16)]
LENGTHS = [37, 1, 200]


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("shape", [(256, 64), (128, 64)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-6)])
def test_golden_outputs(
    golden: np.lib.npyio.NpzFile, name: str, shape: tuple[int, int], dtype: torch.dtype, tolerance: float
) -> None:
    head, rotary = shape
    data = {key: torch.from_numpy(golden[f"{name}_{head}_{rotary}.{key}"]) for key in GOLDEN_KEYS}
    layout = SlotLayout.of(head, rotary, cache_dtype(name).fmt)
    cache = torch.full((3, 1, 16, layout.slot_bytes), POISON, dtype=torch.uint8)
    for t in range(20):
        cache[data["block_table"][0, t // 16], :, t % 16] = data["slots"][t]
    out = decode(
        data["query"],
        cache,
        data["block_table"],
        data["q_to_req"],
        data["q_to_klen"],
        layout,
        head**-0.5,
        "exact",
        dtype,
    )
    assert out.dtype == dtype
    # measured: at most 1.06e-6 of the row's largest value in fp32, 4.2e-7 in fp64 (the golden outputs' own rounding)
    assert row_error(out, data["out"].double()) < tolerance
    assert not out[2].any()


GOLDEN_KEYS = ("slots", "block_table", "query", "q_to_req", "q_to_klen", "out")


@pytest.mark.parametrize("fmt", [K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4])
@pytest.mark.parametrize(("head", "rotary"), [(64, 64), (128, 64), (256, 64), (256, 128), (512, 128)])
def test_exact_decode_is_plain_attention(head: int, rotary: int, fmt: int) -> None:
    case = make_case(SlotLayout.of(head, rotary, fmt), LENGTHS, ROWS)
    expected = plain_attention(case)
    assert row_error(decode(*case.args(), "exact", torch.float64), expected) < 1e-13
    assert row_error(decode(*case.args()), expected) < 3e-6


def test_heads_that_are_no_power_of_two() -> None:
    case = make_case(SlotLayout.of(192, 64, K3V4), LENGTHS, ROWS)
    assert row_error(decode(*case.args(), "exact", torch.float64), plain_attention(case)) < 1e-13


@pytest.mark.parametrize("block_size", [1, 16, 784, 1568])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (2, 6), (3, 16)])
def test_block_sizes_dtypes_and_groups(block_size: int, dtype: torch.dtype, kv_heads: int, group: int) -> None:
    layout = SlotLayout.of(128, 64, K3V3)
    case = make_case(layout, LENGTHS, ROWS, kv_heads=kv_heads, group=group, block_size=block_size, dtype=dtype)
    assert row_error(decode(*case.args(), "exact", torch.float64), plain_attention(case)) < 1e-13


@pytest.mark.parametrize("mode", ["exact", "int8"])
@pytest.mark.parametrize("fmt", [K3V3, COMPACT])
def test_padding_rows_are_exact_zeros(mode: str, fmt: int) -> None:
    case = make_case(SlotLayout.of(256, 64, fmt), LENGTHS, [*ROWS, (2**31 - 1, 4), (-(2**31), 4), (0, -3)])
    padding = [5, 6, 7, 9, 10, 11]
    case.query[5:8] = float("nan")
    out = decode(*case.args(), mode)
    assert not out[padding].any()
    assert not out[padding].signbit().any()
    used = [i for i in range(len(out)) if i not in padding]
    assert out[used].abs().amax(-1).min() > 0
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("fmt", [K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4])
def test_one_token_gives_its_value(fmt: int) -> None:
    case = make_case(SlotLayout.of(256, 64, fmt), [1], [(0, 1)])
    _, v = dequantize_unrotated(case.slots[0], case.layout, torch.float64)
    out = decode(*case.args(), "int8", torch.float64)
    assert torch.allclose(out[0], v[0].repeat_interleave(3, 0), rtol=0, atol=1e-14)


@pytest.mark.parametrize("mode", ["exact", "int8"])
def test_tokens_behind_klen_never_matter(mode: str) -> None:
    layout = SlotLayout.of(256, 64, K3V3)
    case = make_case(layout, [40], [(0, 40), (0, 17), (0, 16), (0, 1)])
    expected = decode(*case.args(), mode)
    # tokens 17.. are visible to the first row only; poison them and the shorter rows must not notice
    poisoned = case.cache.clone()
    for t in range(17, 40):
        poisoned[case.block_table[0, t // 16], :, t % 16] = POISON
    out = decode(*replace(case, cache=poisoned).args(), mode)
    assert torch.equal(out[1:], expected[1:])
    assert out[0].isnan().all()


def test_the_block_table_is_not_read_behind_the_last_block() -> None:
    layout = SlotLayout.of(128, 64, K3V3)
    case = make_case(layout, [32], [(0, 32)])
    assert case.block_table[0, 2] < 0  # poison right behind the two blocks in use
    exact_width = replace(case, block_table=case.block_table[:, :2])
    assert torch.equal(decode(*case.args()), decode(*exact_width.args()))


def test_any_strides_of_the_cache() -> None:
    case = make_case(SlotLayout.of(128, 64, K3V4), LENGTHS, ROWS)
    expected = decode(*case.args())
    blocks, heads, rows, slot = case.cache.shape
    tokens_first = case.cache.transpose(1, 2).contiguous().transpose(1, 2)
    room = torch.full((2 * blocks, heads + 1, rows + 3, slot + 8), POISON, dtype=torch.uint8)
    inside = room[::2, 1:, 3:, 4:-4]
    inside.copy_(case.cache)
    for cache in (tokens_first, inside):
        assert not cache.is_contiguous()
        assert torch.equal(decode(*replace(case, cache=cache).args()), expected)


@pytest.mark.parametrize("mode", ["exact", "int8"])
@pytest.mark.parametrize("fmt", [K3V3, COMPACT])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_non_finite_query_row_spoils_itself_alone(mode: str, fmt: int, bad: float) -> None:
    case = make_case(SlotLayout.of(256, 64, fmt), LENGTHS, [(0, 37), (1, 1), (2, 40)])
    clean = decode(*case.args(), mode)
    for token, head in ((0, 4), (1, 0), (2, 5)):
        case.query[token, head, 77] = bad
    for out in (decode(*case.args(), mode), reduce_partials(partials(case, 3, mode), case.layout)):
        for token, head in ((0, 4), (1, 0), (2, 5)):
            assert out[token, head].isnan().all()
            out[token, head] = clean[token, head]
        assert torch.allclose(out, clean, rtol=0, atol=1e-6)


@pytest.mark.parametrize("fmt", [K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4])
def test_int8_mode_is_attention_with_the_quantized_query(fmt: int) -> None:
    layout = SlotLayout.of(256, 64, fmt)
    case = make_case(layout, LENGTHS, ROWS)
    rounded = rotate_inverse(prepare_query(case.query, layout, "int8", torch.float64), layout.k_block_size)
    expected = plain_attention(replace(case, query=rounded))
    assert row_error(decode(*case.args(), "int8", torch.float64), expected) < 1e-13
    assert row_error(decode(*case.args(), "int8"), expected) < 3e-6
    # and its distance from the exact query is what 8 bits cost: measured 1.2 % to 1.7 % of the row's largest value
    assert 1e-4 < row_error(expected, plain_attention(case)) < 0.04


@pytest.mark.parametrize("splits", [1, 3, 7, 64])
@pytest.mark.parametrize("mode", ["exact", "int8"])
@pytest.mark.parametrize("fmt", [K3V3, COMPACT])
def test_partials_reduce_to_decode(splits: int, mode: str, fmt: int) -> None:
    case = make_case(SlotLayout.of(256, 64, fmt), LENGTHS, ROWS)
    mid_o = partials(case, splits, mode)
    assert mid_o.shape == (len(ROWS), 6, splits, 258)
    assert mid_o.dtype == torch.float32
    expected = decode(*case.args(), mode, torch.float64)
    out = reduce_partials(mid_o, case.layout)
    assert out.dtype == torch.float32
    assert row_error(out, expected) < 3e-6
    assert not out[5:8].any()
    assert not out[5:8].signbit().any()
    # partials are fp32 even when computed in float64
    in_double = reduce_partials(partials(case, splits, mode, torch.float64), case.layout, torch.float64)
    assert row_error(in_double, expected) < 1e-6


def test_partials_hold_what_the_kernels_exchange() -> None:
    layout = SlotLayout.of(128, 64, K3V3)
    case = make_case(layout, [40], [(0, 40)], kv_heads=1, group=2)
    mid_o = partials(case, 4)
    k, _ = dequantize_unrotated(case.slots[0], layout, torch.float64)
    scores = torch.einsum("hd,td->ht", case.query[0].double(), k[:, 0]) * case.sm_scale * np.log2(np.e)
    for split in range(3):
        part = scores[:, split * 16 : split * 16 + 16]
        assert torch.allclose(mid_o[0, :, split, 128].double(), part.amax(-1), rtol=0, atol=1e-5)
        total = torch.exp2(part - part.amax(-1, keepdim=True)).sum(-1)
        assert torch.allclose(mid_o[0, :, split, 129].double(), total, rtol=1e-5)
    assert not mid_o[0, :, 3, :128].any()
    assert torch.all(mid_o[0, :, 3, 128] == -torch.inf)
    assert not mid_o[0, :, 3, 129].any()


def test_given_split_widths_are_used() -> None:
    case = make_case(SlotLayout.of(128, 64, K3V3), [40], [(0, 40), (0, 39)])
    mid_o = decode_partials(*case.args(), 3, [16, 32])
    filled = mid_o[:, 0, :, 129] > 0
    assert filled.tolist() == [[True, True, True], [True, True, False]]
    assert row_error(reduce_partials(mid_o, case.layout), plain_attention(case)) < 3e-6
    with pytest.raises(OctaveError, match="do not hold 40"):
        decode_partials(*case.args(), 2, [16, 16])


def test_reduce_ignores_wider_rows_and_what_empty_splits_hold() -> None:
    case = make_case(SlotLayout.of(128, 64, K3V3), [40], [(0, 40), (0, 0)])
    mid_o = partials(case, 5)
    wide = torch.full((*mid_o.shape[:-1], 200), float("nan"))
    wide[..., :130] = mid_o
    wide[..., :128][mid_o[..., 129] == 0] = float("nan")
    assert torch.equal(reduce_partials(wide, case.layout), reduce_partials(mid_o, case.layout))


def test_other_signs_rotate_query_and_output() -> None:
    layout = SlotLayout.of(128, 64, K3V3)
    k_signs, v_signs = torch.arange(4, dtype=torch.int32), torch.arange(4, 8, dtype=torch.int32)
    key, value, query = gaussian(16, 1, 128), gaussian(16, 1, 128, seed=1), gaussian(1, 2, 128, seed=2)
    cache = torch.zeros(1, 1, 16, layout.slot_bytes, dtype=torch.uint8)
    cache_store(key, value, cache, torch.arange(16), layout, k_signs, v_signs)
    maps = [torch.tensor(x, dtype=torch.int32) for x in ([[0]], [0], [16])]
    k, v = dequantize_unrotated(cache[0, 0], layout, torch.float64, k_signs, v_signs)
    expected = torch.softmax(query[0].double() @ k.T * 0.1, dim=-1) @ v
    out = decode(query, cache, *maps, layout, 0.1, "exact", torch.float64, k_signs, v_signs)
    assert row_error(out[0], expected) < 1e-13
    mid_o = decode_partials(query, cache, *maps, layout, 0.1, 2, [16], k_signs=k_signs)
    assert row_error(reduce_partials(mid_o, layout, v_signs=v_signs)[0], expected) < 3e-6


def test_no_queries() -> None:
    case = make_case(SlotLayout.of(128, 64, K3V3), [4], [])
    assert decode(*case.args()).shape == (0, 6, 128)
    assert reduce_partials(partials(case, 2), case.layout).shape == (0, 6, 128)


def test_what_does_not_fit_is_named() -> None:
    case = make_case(SlotLayout.of(128, 64, K3V3), [20], [(0, 20)])
    wrong = [
        (replace(case, query=case.query[..., :64]), "query is"),
        (replace(case, query=case.query[:, :5]), "5 query heads"),
        (replace(case, cache=case.cache[..., :-8]), "cache is"),
        (replace(case, cache=case.cache.to(torch.int32)), "cache is"),
        (replace(case, block_table=case.block_table[0]), "block_table is"),
        (replace(case, q_to_req=case.q_to_req.repeat(2)), "q_to_req is"),
        (replace(case, q_to_klen=case.q_to_klen[None]), "q_to_klen is"),
        (replace(case, q_to_klen=torch.tensor([49], dtype=torch.int32)), "49 tokens.*ends at 48"),
        (replace(case, q_to_klen=torch.tensor([33], dtype=torch.int32)), "outside"),
        (replace(case, block_table=case.block_table + 100), "outside"),
    ]
    for broken, message in wrong:
        with pytest.raises(OctaveError, match=message):
            decode(*broken.args())
        with pytest.raises(OctaveError, match=message):
            partials(broken, 2)
    with pytest.raises(OctaveError, match="num_kv_splits is 0"):
        partials(case, 0)
