"""prefill: against a plain loop over unrotated vectors' rotated forms, and against decode on unrotated data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from octave_gen.errors import OctaveError
from octave_gen.formats.octave import SlotLayout
from octave_gen.formats.octave.codec import dequantize, quantize
from octave_gen.formats.octave.rotation import rotate_forward, rotate_inverse
from octave_gen.kernels.splits import tokens_per_split
from octave_gen.reference import attention
from octave_gen.reference.prefill import attend_chunk, chunks, prefill, prefix_partials, rounded
from octave_gen.reference.query import QueryMode, prepare_query, prepare_rotated, quantize_rotated
from octave_gen.reference.store import cache_store

K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4 = 3, 4, 19, 20, 51
POISON = 0xFF  # as an fp16 scale: NaN
CONTEXTS, CHUNKS = (0, 37, 5, 200, 1), (7, 4, 0, 3, 1)


def gaussian(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@dataclass
class Case:
    """Several requests; unused rows, blocks and table entries are poison."""

    layout: SlotLayout
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    cache: torch.Tensor
    block_table: torch.Tensor
    cu_seqlens_q: torch.Tensor
    seq_lens: torch.Tensor
    slots: list[torch.Tensor]  # per request, by token of its prefix
    sm_scale: float

    def run(self, mode: QueryMode = "exact", dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return prefill(self.q, self.k, self.v, *self.prefix, self.layout, self.sm_scale, mode, dtype)

    @property
    def prefix(self) -> tuple[torch.Tensor, ...]:
        return self.cache, self.block_table, self.cu_seqlens_q, self.seq_lens

    def partials(self, splits: int, mode: QueryMode = "exact", dtype: torch.dtype = torch.float64) -> torch.Tensor:
        new = self.cu_seqlens_q.diff().tolist()
        widths = [tokens_per_split(n - m, splits) for n, m in zip(self.seq_lens.tolist(), new, strict=True)]
        return prefix_partials(self.q, *self.prefix, self.layout, self.sm_scale, splits, widths, mode, dtype)


def make_case(
    layout: SlotLayout,
    contexts: tuple[int, ...] = CONTEXTS,
    new: tuple[int, ...] = CHUNKS,
    *,
    kv_heads: int = 2,
    group: int = 3,
    block_size: int = 16,
    dtype: torch.dtype = torch.float16,
    padding: int = 2,
) -> Case:
    head = layout.head_size
    needed = [-(-n // block_size) for n in contexts]
    order = torch.randperm(sum(needed) + 2, generator=torch.Generator().manual_seed(1)).tolist()
    cache = torch.full((len(order), kv_heads, block_size, layout.slot_bytes), POISON, dtype=torch.uint8)
    block_table = torch.full((len(contexts), max(needed, default=0) + 1), -(2**31), dtype=torch.int32)
    slots = []
    for request, length in enumerate(contexts):
        key = gaussian(length, kv_heads, head, seed=10 + request).to(dtype)
        value = gaussian(length, kv_heads, head, seed=50 + request).to(dtype)
        blocks = [order.pop() for _ in range(needed[request])]
        block_table[request, : len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
        mapping = [blocks[t // block_size] * block_size + t % block_size for t in range(length)]
        cache_store(key, value, cache, torch.tensor(mapping, dtype=torch.int64), layout)
        slots.append(quantize(key, value, layout))
    tokens = sum(new) + padding
    q = gaussian(tokens, kv_heads * group, head, seed=3).to(dtype)
    k, v = (gaussian(tokens, kv_heads, head, seed=seed).to(dtype) for seed in (4, 5))
    bounds = torch.tensor([0, *new]).cumsum(0).to(torch.int32)
    lengths = torch.tensor([c + n for c, n in zip(contexts, new, strict=True)], dtype=torch.int32)
    return Case(layout, q, k, v, cache, block_table, bounds, lengths, slots, head**-0.5)


def plain(case: Case) -> torch.Tensor:
    """In float64, one query token and head at a time."""
    out = torch.zeros(case.q.shape, dtype=torch.float64)
    group = case.q.shape[1] // case.k.shape[1]
    bounds = case.cu_seqlens_q.tolist()
    for request in range(len(bounds) - 1):
        prefix_k, prefix_v = dequantize(case.slots[request], case.layout, torch.float64)
        for token in range(bounds[request], bounds[request + 1]):
            own = slice(bounds[request], token + 1)
            k = torch.cat([prefix_k, case.k[own].double()])
            v = torch.cat([prefix_v, case.v[own].double()])
            for head in range(case.q.shape[1]):
                scores = k[:, head // group] @ case.q[token, head].double() * case.sm_scale
                weights = (scores - scores.max()).exp()
                out[token, head] = weights @ v[:, head // group] / weights.sum()
    return out


def row_error(out: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest error relative to the largest value of its row; rows of zeros must be zeros."""
    size = expected.double().abs().amax(-1, keepdim=True)
    return float(((out.double() - expected).abs() / torch.where(size > 0, size, 2.0**-200)).max())


@pytest.mark.parametrize("fmt", [K3V3, K3V4, COMPACT, COMPACT_V4, COMPACT_K4])
@pytest.mark.parametrize(("head", "rotary"), [(64, 64), (128, 64), (256, 64), (512, 128)])
def test_it_is_plain_attention(head: int, rotary: int, fmt: int) -> None:
    case = make_case(SlotLayout.of(head, rotary, fmt))
    expected = plain(case)
    assert row_error(case.run(), expected) < 1e-13
    found = case.run(dtype=torch.float32)
    assert found.dtype == torch.float32
    assert row_error(found, expected) < 3e-6
    assert not found[sum(CHUNKS) :].any()


@pytest.mark.parametrize("block_size", [1, 16, 1568])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (2, 6), (3, 16)])
def test_block_sizes_dtypes_and_groups(block_size: int, dtype: torch.dtype, kv_heads: int, group: int) -> None:
    layout = SlotLayout.of(128, 64, K3V3)
    case = make_case(layout, kv_heads=kv_heads, group=group, block_size=block_size, dtype=dtype)
    assert row_error(case.run(), plain(case)) < 1e-13


@pytest.mark.parametrize("fmt", [K3V3, COMPACT])
@pytest.mark.parametrize(("contexts", "new"), [((23, 40), (1, 1)), ((23, 40), (6, 3)), ((0,), (9,))])
def test_it_is_decode_of_unrotated_data_through_rotate(contexts: Any, new: Any, fmt: int) -> None:
    """decode sees the chunk in the cache, quantized; so prefill is given the dequantized K and V of the same slots."""
    layout = SlotLayout.of(128, 64, fmt)
    lengths = tuple(c + n for c, n in zip(contexts, new, strict=True))
    whole = make_case(layout, lengths, new, padding=0)  # the cache holds the chunks too
    stored = [dequantize(slots, layout, torch.float64) for slots in whole.slots]
    k, v = (torch.cat([x[i][-n:] for x, n in zip(stored, new, strict=True)]) for i in (0, 1))
    query = whole.q.double()
    rows = [(r, c + i + 1) for r, (c, n) in enumerate(zip(contexts, new, strict=True)) for i in range(n)]
    q_to_req, q_to_klen = torch.tensor(rows, dtype=torch.int32).unbind(1)
    expected = attention.decode(
        query, whole.cache, whole.block_table, q_to_req, q_to_klen, layout, whole.sm_scale, "exact", torch.float64
    )
    rotated = rotate_forward(query, layout.k_block_size)
    case = replace(whole, q=rotated, k=k, v=v, seq_lens=torch.tensor(lengths, dtype=torch.int32))
    found = rotate_inverse(case.run(), layout.v_block_size)
    assert row_error(found, expected) < 1e-13


@pytest.mark.parametrize("splits", [1, 2, 3, 20])
def test_partials_go_on_in_the_chunk(splits: int) -> None:
    case = make_case(SlotLayout.of(128, 64, K3V4))
    partials = case.partials(splits)
    assert partials.shape == (17, 6, splits, 130)
    maps = (case.cu_seqlens_q, case.seq_lens)
    found = attend_chunk(case.q, case.k, case.v, partials, *maps, case.sm_scale, torch.float64)
    assert row_error(found, plain(case)) < 1e-13
    for chunk in chunks(*maps, len(case.q)):
        used = -(-chunk.prefix // tokens_per_split(chunk.prefix, splits)) if chunk.prefix else 0
        rest = partials[chunk.tokens, :, used:]
        assert (rest[..., -2] == -torch.inf).all()
        assert not rest[..., -1].any()
        assert (partials[chunk.tokens, :, :used, -1] >= 1).all()


@pytest.mark.parametrize("mode", ["int8", "int16"])
def test_partials_are_those_of_decode(mode: QueryMode) -> None:
    """Every token of a chunk sees the whole prefix: the same as decode's query tokens that see so many."""
    layout = SlotLayout.of(128, 64, COMPACT)
    case = make_case(layout, (37, 0, 70), (2, 1, 3), padding=1)
    rows = torch.tensor([(0, 37), (0, 37), (1, 0), (2, 70), (2, 70), (2, 70), (-1, 0)], dtype=torch.int32)
    widths = [tokens_per_split(klen, 3) for _, klen in rows.tolist()]
    query = rotate_inverse(case.q.float(), layout.k_block_size)
    expected = attention.decode_partials(
        query, case.cache, case.block_table, *rows.unbind(1), layout, case.sm_scale, 3, widths, mode
    )
    exact_again = prepare_query(query, layout, "exact", torch.float32)
    found = replace(case, q=exact_again).partials(3, mode, torch.float32)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("mode", "least", "most"), [("int8", 1e-3, 1e-2), ("int16", 5e-6, 1e-4)])
def test_forms_of_the_query_meet_the_prefix_alone(mode: QueryMode, least: float, most: float) -> None:
    case = make_case(SlotLayout.of(128, 64, K3V3), (0, 40), (5, 5), padding=0)
    exact, found = case.run(), case.run(mode)
    assert torch.equal(found[:5], exact[:5])
    error = float((found[5:] - exact[5:]).norm() / exact[5:].norm())
    assert least < error < most


def test_a_rotated_query_has_the_form_of_one_that_is_still_to_be_rotated() -> None:
    layout = SlotLayout.of(256, 64, COMPACT)
    query = gaussian(3, 2, 256)
    rotated = prepare_query(query, layout, "exact", torch.float32)
    modes: tuple[QueryMode, ...] = ("int8", "int16")
    for mode in modes:
        assert torch.equal(
            prepare_rotated(rotated, mode, torch.float64), prepare_query(query, layout, mode, torch.float64)
        )
    codes, scale = quantize_rotated(rotated, "int16")
    assert codes.shape == query.shape
    assert scale.shape == (3, 2, 1)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("which", ["k", "v"])
def test_a_bad_token_reaches_only_those_that_see_it(which: str, bad: float) -> None:
    case = make_case(SlotLayout.of(128, 64, K3V3), (20, 0), (6, 4), padding=0)
    expected = case.run(dtype=torch.float32)
    vectors = getattr(case, which).clone()
    vectors[3, 1] = bad  # the second kv head's fourth token of the first request
    found = replace(case, **{which: vectors}).run(dtype=torch.float32)
    touched = torch.zeros(10, 6, dtype=torch.bool)
    touched[3:6, 3:] = True
    assert torch.equal(found[~touched], expected[~touched])
    assert not found[touched].isfinite().all(-1).any()


def test_a_bad_slot_reaches_its_request_and_head_alone() -> None:
    case = make_case(SlotLayout.of(128, 64, K3V3), (20, 33), (3, 4), padding=0)
    expected = case.run(dtype=torch.float32)
    cache = case.cache.clone()
    cache[case.block_table[1, 2], 0, 0] = POISON  # its last token
    found = replace(case, cache=cache).run(dtype=torch.float32)
    assert found[3:, :3].isnan().all()
    found[3:, :3] = expected[3:, :3]
    assert torch.equal(found, expected)


def test_nothing_to_do() -> None:
    layout = SlotLayout.of(64, 64, K3V3)
    no_tokens = make_case(layout, (5, 0), (0, 0), padding=0)
    assert no_tokens.run().shape == (0, 6, 64)
    no_requests = replace(
        make_case(layout, (5,), (2,), padding=0),
        block_table=torch.zeros(0, 1, dtype=torch.int32),
        cu_seqlens_q=torch.zeros(1, dtype=torch.int32),
        seq_lens=torch.zeros(0, dtype=torch.int32),
    )
    assert not no_requests.run().any()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cu_seqlens_q": torch.tensor([0, 3, 2, 6])}, "cu_seqlens_q does not rise"),
        ({"cu_seqlens_q": torch.tensor([0, 3, 5, 9])}, "at most 8, the tokens of q"),
        ({"cu_seqlens_q": torch.tensor([-1, 3, 5, 8])}, "cu_seqlens_q does not rise"),
        ({"cu_seqlens_q": torch.tensor([0, 3, 5])}, "3 entries for 3 requests"),
        ({"seq_lens": torch.tensor([10, 1, 10])}, "request 1 has 2 query tokens, and seq_lens 1"),
        ({"seq_lens": torch.tensor([40, 2, 10])}, "the block table of request 0 ends at 32"),
        ({"block_table": torch.full((3, 2), 99, dtype=torch.int32)}, "names a block outside"),
        ({"block_table": torch.zeros(2, 2, dtype=torch.int32)}, r"block_table is \[2, 2\], expected \[3 requests"),
        ({"q": torch.zeros(8, 6, 128)}, r"q is \[8, 6, 128\], expected \[tokens, heads, 64\]"),
        ({"q": torch.zeros(8, 5, 64)}, "5 query heads are no multiple of 2 kv heads"),
        ({"cache": torch.zeros(2, 2, 16, 60, dtype=torch.uint8)}, "cache is torch.uint8"),
    ],
)
def test_what_does_not_fit(change: dict[str, torch.Tensor], problem: str) -> None:
    case = make_case(SlotLayout.of(64, 64, K3V3), (16, 0, 16), (3, 2, 3), padding=0)
    with pytest.raises(OctaveError, match=problem):
        replace(case, **change).run()


def test_splits_that_do_not_hold_the_prefix() -> None:
    case = make_case(SlotLayout.of(64, 64, K3V3), (40,), (3,))
    with pytest.raises(OctaveError, match="request 0: 2 splits of 16 tokens do not hold 40"):
        prefix_partials(case.q, *case.prefix, case.layout, 0.125, 2, [16])


def test_finite_outputs_stay_finite() -> None:
    x = torch.tensor([1.0 + 2**-11, 70000.0, -1e30, torch.inf, -torch.inf, torch.nan, -0.0])
    expected = torch.tensor([1.0, 65504.0, -65504.0, torch.inf, -torch.inf, torch.nan, -0.0]).half()
    assert torch.equal(rounded(x, torch.float16).view(torch.int16), expected.view(torch.int16))
    assert rounded(x, torch.bfloat16)[1] == 70144
