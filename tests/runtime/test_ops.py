from __future__ import annotations

import importlib
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.library import opcheck
from unrotated import dequantize_unrotated

import octave_gen.ops
from octave_gen.errors import OctaveError
from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.octave import DEFAULT_ENCODER, ENCODERS, SlotLayout
from octave_gen.kernels.splits import query_groups, split_widths
from octave_gen.ops import sign_tensor, workspace_bytes, workspace_shape
from octave_gen.reference import attention, prefill, rotate, store
from octave_gen.runtime import registration

GOLDEN = Path(__file__).parents[1] / "data" / "octave_golden.npz"
SCHEMAS = {
    "cache_store": "octave::cache_store(Tensor key, Tensor value, Tensor(a!) cache, Tensor slot_mapping, "
    "Tensor k_signs, Tensor v_signs, int fmt, str? encoder=None, Tensor? k_center=None) -> ()",
    "decode": "octave::decode(Tensor(a!) out, Tensor query, Tensor cache, Tensor block_table, Tensor q_to_req, "
    "Tensor q_to_klen, Tensor(b!) mid_o, Tensor k_signs, Tensor v_signs, float sm_scale, int num_kv_splits, int fmt, "
    "int query_group, bool use_wmma, Tensor? group_starts=None, str? tier=None) -> ()",
    "prefill": "octave::prefill(Tensor(a!) out, Tensor q, Tensor k, Tensor v, Tensor cache, Tensor block_table, "
    "Tensor cu_seqlens_q, Tensor seq_lens, int max_query_len, float sm_scale, int fmt, Tensor(b!)? workspace=None, "
    "int num_kv_splits=1, str? tier=None) -> ()",
    "rotate": "octave::rotate(Tensor(a!) x, Tensor signs, bool k_layout, bool inverse, Tensor? center=None) -> ()",
}
LAYOUT = SlotLayout.of(128, 64, 3)
Arguments = dict[str, Any]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema(name: str) -> None:
    operator = getattr(torch.ops.octave, name).default
    assert str(operator._schema) == SCHEMAS[name]
    assert torch.Tag.pt2_compliant_tag in operator.tags


def test_importing_again_is_harmless(rotate_arguments: Arguments) -> None:
    importlib.reload(octave_gen.ops)
    registration.register()
    torch.ops.octave.rotate(**rotate_arguments)


def test_ops_of_another_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_library", None)
    with pytest.raises(OctaveError, match=r"torch.ops.octave is defined already[\s\S]*no other package"):
        registration.register()


def copied(arguments: Arguments) -> Arguments:
    return {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in arguments.items()}


def test_cache_store_is_the_reference(store_arguments: Arguments) -> None:
    expected = store_arguments["cache"].clone()
    store.cache_store(
        store_arguments["key"], store_arguments["value"], expected, store_arguments["slot_mapping"], LAYOUT
    )
    torch.ops.octave.cache_store(**store_arguments, encoder="plain")
    assert torch.equal(store_arguments["cache"], expected)
    assert expected.any()


def test_cache_store_reads_no_padding_tokens(store_arguments: Arguments) -> None:
    padded = copied(store_arguments)
    for name in ("key", "value"):
        padded[name] = torch.cat([padded[name], torch.full((5, 2, 128), torch.nan, dtype=torch.float16)])
    torch.ops.octave.cache_store(**store_arguments)
    torch.ops.octave.cache_store(**padded)
    assert torch.equal(padded["cache"], store_arguments["cache"])


def test_the_default_encoder(store_arguments: Arguments) -> None:
    named = copied(store_arguments)
    torch.ops.octave.cache_store(**store_arguments)
    torch.ops.octave.cache_store(**named, encoder=DEFAULT_ENCODER)
    assert torch.equal(named["cache"], store_arguments["cache"])


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_centered_store_is_the_reference(encoder: str, store_arguments: Arguments) -> None:
    a = store_arguments
    k_center = torch.stack([a["key"][0, 0], -3 * a["key"][1, 1]])
    expected = torch.zeros_like(a["cache"])
    rows = (a["key"], a["value"], expected, a["slot_mapping"], LAYOUT)
    store.cache_store(*rows, encoder=encoder, k_center=k_center)
    torch.ops.octave.cache_store(**a, encoder=encoder, k_center=k_center)
    assert torch.equal(a["cache"], expected)
    # the first token's first head is its center: nothing is left of K, and V is not centered
    slot = a["cache"][40 // 16, 0, 40 % 16]
    assert not slot[LAYOUT.k_scales.offset : LAYOUT.k_scales.end].any()
    assert slot[LAYOUT.v_scale.offset : LAYOUT.v_scale.end].any()


def test_positional_arguments_of_the_public_op(store_arguments: Arguments, rotate_arguments: Arguments) -> None:
    """Those that ours adds come last."""
    positional = copied(store_arguments)
    torch.ops.octave.cache_store(*positional.values())
    torch.ops.octave.cache_store(**store_arguments)
    assert torch.equal(positional["cache"], store_arguments["cache"])
    torch.ops.octave.rotate(*rotate_arguments.values())


def test_signs_are_arguments(store_arguments: Arguments) -> None:
    caches = []
    for k_signs, v_signs in ((0, 0), (-1, 0), (0, -1)):
        arguments = copied(store_arguments)
        arguments["k_signs"], arguments["v_signs"] = torch.full((4,), k_signs).int(), torch.full((4,), v_signs).int()
        torch.ops.octave.cache_store(**arguments)
        caches.append(arguments["cache"])
    assert not torch.equal(caches[0], caches[1])
    assert not torch.equal(caches[0], caches[2])
    assert not torch.equal(caches[1], caches[2])


@pytest.mark.parametrize("dtype", ["octave_k3v3_compact", "octave_k3v3", "octave_k3v4"])
@pytest.mark.parametrize("head_size", [128, 256])
def test_golden_data(dtype: str, head_size: int) -> None:
    with np.load(GOLDEN) as arrays:
        data = {
            name.partition(".")[2]: torch.from_numpy(arrays[name])
            for name in arrays.files
            if name.startswith(f"{dtype}_{head_size}_64.")
        }
    tokens, fmt, signs = 20, CACHE_DTYPES[dtype].fmt, sign_tensor(head_size)
    cache = torch.zeros(4, 1, 16, data["slots"].shape[-1], dtype=torch.uint8)
    token = torch.arange(tokens)
    slot = data["block_table"][0, token // 16].long() * 16 + token % 16
    torch.ops.octave.cache_store(data["key"], data["value"], cache, slot, signs, signs, fmt, "plain")
    assert torch.equal(cache[slot // 16, 0, slot % 16], data["slots"][:, 0])
    out = torch.full_like(data["query"], torch.nan)
    mid_o = torch.empty(workspace_shape(3, 6, 3, head_size))
    maps = (data["block_table"], data["q_to_req"], data["q_to_klen"])
    torch.ops.octave.decode(
        out, data["query"], cache, *maps, mid_o, signs, signs, head_size**-0.5, 3, fmt, query_group=1, use_wmma=False
    )
    # the golden output has an exact query; int8 costs less than 1 % here
    error = (out.float() - data["out"]).norm() / data["out"].norm()
    assert error < 0.01
    assert not out[2].any()


def test_decode_is_the_reference(decode_arguments: Arguments) -> None:
    a = decode_arguments
    torch.ops.octave.decode(**a)
    operands = (a["query"], a["cache"], a["block_table"], a["q_to_req"], a["q_to_klen"], LAYOUT, a["sm_scale"])
    widths = split_widths(a["q_to_req"].tolist(), a["q_to_klen"].tolist(), 2, 2, query_groups(6, 4))
    partials = attention.decode_partials(*operands, 2, query_mode="int8", tokens_per_split=widths)
    assert torch.equal(a["mid_o"], partials)
    assert torch.equal(a["out"], attention.reduce_partials(partials, LAYOUT).half())
    assert not a["out"][5].any()
    exact = attention.decode(*operands, query_mode="exact", dtype=torch.float64)
    assert ((a["out"].double() - exact).norm() / exact.norm()) < 0.01
    assert not torch.equal(a["out"], exact.half())


def test_decode_with_larger_buffers(decode_arguments: Arguments) -> None:
    larger = copied(decode_arguments)
    mid_o = torch.full((8, 10, 5, 140), 7.0)
    larger["mid_o"] = mid_o
    for name in ("q_to_req", "q_to_klen"):
        larger[name] = torch.cat([larger[name], torch.full((3,), 1, dtype=torch.int32)])
    wide = torch.zeros(6, 16, 256, dtype=torch.float16)
    larger["out"] = wide[:, ::2, :128]
    torch.ops.octave.decode(**decode_arguments)
    torch.ops.octave.decode(**larger)
    assert torch.equal(larger["out"], decode_arguments["out"])
    assert torch.equal(mid_o[:6, :8, :2, :130], decode_arguments["mid_o"])
    mid_o[:6, :8, :2, :130] = 7.0
    assert torch.equal(mid_o, torch.full_like(mid_o, 7.0))
    assert not wide[:, 1::2].any()
    assert not wide[..., 128:].any()


def test_decode_in_bf16(decode_arguments: Arguments) -> None:
    arguments = copied(decode_arguments)
    arguments["query"] = arguments["query"].bfloat16()
    arguments["out"] = torch.empty_like(arguments["query"])
    torch.ops.octave.decode(**decode_arguments)
    torch.ops.octave.decode(**arguments)
    assert torch.allclose(arguments["out"].float(), decode_arguments["out"].float(), atol=0.02)


def test_prefill_is_the_reference(prefill_arguments: Arguments) -> None:
    a = prefill_arguments
    torch.ops.octave.prefill(**a)
    operands = (a["q"], a["k"], a["v"], a["cache"], a["block_table"], a["cu_seqlens_q"], a["seq_lens"])
    expected = prefill.prefill(*operands, LAYOUT, a["sm_scale"])
    assert torch.equal(a["out"][:8], expected[:8].half())
    assert a["out"][8].isnan().all()
    assert a["workspace"].isnan().all()
    exact = prefill.prefill(*operands, LAYOUT, a["sm_scale"], dtype=torch.float64)[:8]
    assert (a["out"][:8].double() - exact).norm() < 1e-3 * exact.norm()


@pytest.mark.parametrize("sm_scale", [1e20, 1e36, 1e38, -1e38, 3.4e38])
@pytest.mark.parametrize("op", ["decode", "prefill"])
def test_a_row_is_right_while_its_scores_fit_fp32_and_nan_behind_that(
    op: str, sm_scale: float, request: pytest.FixtureRequest
) -> None:
    a = request.getfixturevalue(f"{op}_arguments") | {"sm_scale": sm_scale}
    getattr(torch.ops.octave, op)(**a)
    if op == "decode":
        maps = (a["block_table"], a["q_to_req"], a["q_to_klen"])
        exact = attention.decode(a["query"], a["cache"], *maps, LAYOUT, sm_scale, "int8", torch.float64)[:5]
    else:
        maps = (a["block_table"], a["cu_seqlens_q"], a["seq_lens"])
        exact = prefill.prefill(a["q"], a["k"], a["v"], a["cache"], *maps, LAYOUT, sm_scale, dtype=torch.float64)[:8]
    found = a["out"][: len(exact)]
    right = found.isfinite().all(-1)
    assert found[~right].isnan().all()
    assert torch.allclose(found[right].double(), exact[right], atol=4e-3)
    assert right.all() if abs(sm_scale) < 1e37 else not right.all()


def test_prefill_takes_the_arguments_of_the_public_op(prefill_arguments: Arguments) -> None:
    out = torch.full_like(prefill_arguments["out"], torch.nan)
    positional = list(prefill_arguments.values())[:11]
    torch.ops.octave.prefill(out, *positional[1:])
    torch.ops.octave.prefill(**prefill_arguments)
    assert torch.equal(out[:8], prefill_arguments["out"][:8])


def test_a_layer_of_a_chunk(store_arguments: Arguments, prefill_arguments: Arguments) -> None:
    """rotate, prefill, rotate back: near attention over what was stored, with the chunk itself unquantized."""
    heads, tokens, context = 2, 40, 32
    key, value, query = (torch.randn(tokens, n, 128, generator=torch.Generator().manual_seed(n)) for n in (2, 3, 8))
    key, value, query = key.half(), value[:, :heads].half(), query.half()
    signs = sign_tensor(128)
    cache = torch.zeros(3, heads, 16, 112, dtype=torch.uint8)
    torch.ops.octave.cache_store(key, value, cache, torch.arange(tokens), signs, signs, 3)
    q, k, v = (x[context:].clone() for x in (query, key, value))
    for x, k_layout in ((q, True), (k, True), (v, False)):
        torch.ops.octave.rotate(x, signs, k_layout, False)
    out = torch.empty_like(q)
    table = torch.arange(3, dtype=torch.int32)[None]
    bounds, lengths = (torch.tensor(x, dtype=torch.int32) for x in ([0, 8], [40]))
    torch.ops.octave.prefill(out, q, k, v, cache, table, bounds, lengths, 8, 128**-0.5, 3)
    torch.ops.octave.rotate(out, signs, False, True)
    plain = torch.zeros(8, 8, 128, dtype=torch.float64)
    for i in range(8):
        stored_k, stored_v = dequantize_unrotated(cache.transpose(1, 2).flatten(0, 1)[:context], LAYOUT, torch.float64)
        all_k = torch.cat([stored_k, key[context : context + i + 1].double()])
        all_v = torch.cat([stored_v, value[context : context + i + 1].double()])
        for head in range(8):
            scores = all_k[:, head // 4] @ query[context + i, head].double() * 128**-0.5
            plain[i, head] = scores.softmax(0) @ all_v[:, head // 4]
    assert (out.double() - plain).norm() < 2e-3 * plain.norm()


@pytest.mark.parametrize(("k_layout", "block"), [(True, 64), (False, 128)])
def test_rotate_is_the_reference(k_layout: bool, block: int, rotate_arguments: Arguments) -> None:
    rotate_arguments["k_layout"] = k_layout
    before = rotate_arguments["x"].clone()
    expected = before.clone()
    rotate.rotate(expected, block=block == 64, inverse=False)
    torch.ops.octave.rotate(**rotate_arguments)
    assert torch.equal(rotate_arguments["x"], expected)
    rotate_arguments["inverse"] = True
    torch.ops.octave.rotate(**rotate_arguments)
    assert torch.allclose(rotate_arguments["x"], before, atol=1e-2)


@pytest.mark.parametrize(("k_layout", "block"), [(True, 64), (False, 128)])
def test_a_centered_rotate_is_the_reference(k_layout: bool, block: int, rotate_arguments: Arguments) -> None:
    rotate_arguments["k_layout"] = k_layout
    center = rotate_arguments["x"][2].clone()
    expected = rotate_arguments["x"].clone()
    rotate.rotate(expected, block=block == 64, inverse=False, center=center)
    torch.ops.octave.rotate(**rotate_arguments, center=center)
    assert torch.equal(rotate_arguments["x"], expected)
    assert not expected[2].any()


def test_a_layer_of_a_chunk_with_centered_k(store_arguments: Arguments) -> None:
    """Prefill is right when the chunk's K is centered as the prefix's is: all scores of a row lose the same number."""
    heads, tokens, context = 2, 40, 32
    key, value, query = (torch.randn(tokens, n, 128, generator=torch.Generator().manual_seed(n)) for n in (2, 3, 8))
    k_center = 4 * torch.randn(heads, 128, generator=torch.Generator().manual_seed(9))
    k_center = k_center.half()
    key, value, query = (key + k_center).half(), value[:, :heads].half(), query.half()
    signs = sign_tensor(128)
    outs = []
    for center, of_chunk in ((None, None), (k_center, k_center), (k_center, None)):
        cache = torch.zeros(3, heads, 16, 112, dtype=torch.uint8)
        torch.ops.octave.cache_store(key, value, cache, torch.arange(tokens), signs, signs, 3, k_center=center)
        q, k, v = (x[context:].clone() for x in (query, key, value))
        torch.ops.octave.rotate(q, signs, True, False)
        torch.ops.octave.rotate(k, signs, True, False, of_chunk)
        torch.ops.octave.rotate(v, signs, False, False)
        out = torch.empty_like(q)
        table = torch.arange(3, dtype=torch.int32)[None]
        bounds, lengths = (torch.tensor(x, dtype=torch.int32) for x in ([0, 8], [40]))
        torch.ops.octave.prefill(out, q, k, v, cache, table, bounds, lengths, 8, 128**-0.5, 3)
        torch.ops.octave.rotate(out, signs, False, True)
        outs.append(out.double())
    exact = torch.zeros(8, 8, 128, dtype=torch.float64)
    for i, head in product(range(8), range(8)):
        seen = context + i + 1
        scores = key[:seen, head // 4].double() @ query[context + i, head].double() * 128**-0.5
        exact[i, head] = scores.softmax(0) @ value[:seen, head // 4].double()
    plain, centered, mixed = (float((out - exact).norm() / exact.norm()) for out in outs)
    assert centered < 0.5 * plain < mixed


def test_nothing_to_prefill(prefill_arguments: Arguments) -> None:
    for name in ("out", "q", "k", "v"):
        prefill_arguments[name] = prefill_arguments[name][:0]
    prefill_arguments["cu_seqlens_q"] = torch.zeros(4, dtype=torch.int32)
    torch.ops.octave.prefill(**prefill_arguments)
    prefill_arguments |= {"seq_lens": prefill_arguments["seq_lens"][:0], "max_query_len": 0}
    prefill_arguments["cu_seqlens_q"] = prefill_arguments["cu_seqlens_q"][:1]
    torch.ops.octave.prefill(**prefill_arguments)


def test_nothing_to_do(store_arguments: Arguments, rotate_arguments: Arguments, decode_arguments: Arguments) -> None:
    for name in ("key", "value", "slot_mapping"):
        store_arguments[name] = store_arguments[name][:0]
    torch.ops.octave.cache_store(**store_arguments)
    assert not store_arguments["cache"].any()
    rotate_arguments["x"] = rotate_arguments["x"][:0]
    torch.ops.octave.rotate(**rotate_arguments)
    for name in ("out", "query", "q_to_req", "q_to_klen"):
        decode_arguments[name] = decode_arguments[name][:0]
    torch.ops.octave.decode(**decode_arguments)
    assert decode_arguments["mid_o"].isnan().all()


@pytest.mark.parametrize("tier", ["portable", "mfma", "wmma", "flydsl"])
def test_a_tier_changes_nothing_on_cpu(decode_arguments: Arguments, prefill_arguments: Arguments, tier: str) -> None:
    for op, arguments in ((torch.ops.octave.decode, decode_arguments), (torch.ops.octave.prefill, prefill_arguments)):
        outs = []
        for chosen in ({}, {"tier": tier}):
            if op is torch.ops.octave.prefill and tier == "portable" and chosen:
                continue
            out = torch.full_like(arguments["out"], torch.nan)
            op(**{**arguments, **chosen, "out": out})
            outs.append(out)
        assert all(torch.equal(outs[0].nan_to_num(), out.nan_to_num()) for out in outs)


def test_a_tier_that_no_chip_has(decode_arguments: Arguments, prefill_arguments: Arguments) -> None:
    with pytest.raises(OctaveError, match=r"no tier 'fast' of decode[\s\S]*tiers: portable, mfma, wmma, flydsl"):
        torch.ops.octave.decode(**decode_arguments, tier="fast")
    with pytest.raises(OctaveError, match=r"no tier 'portable' of prefill[\s\S]*tiers: mfma, wmma, flydsl"):
        torch.ops.octave.prefill(**prefill_arguments, tier="portable")


def test_no_matrix_tier_on_cpu(decode_arguments: Arguments) -> None:
    decode_arguments["use_wmma"] = True
    with pytest.raises(OctaveError, match="no matrix tier for cpu"):
        torch.ops.octave.decode(**decode_arguments)
    assert decode_arguments["out"].isnan().all()


@pytest.mark.parametrize("name", SCHEMAS)
def test_opcheck(name: str, request: pytest.FixtureRequest) -> None:
    arguments = request.getfixturevalue(f"{name.removeprefix('cache_')}_arguments")
    for written in {"out", "mid_o", "workspace"} & set(arguments):
        arguments[written].zero_()  # opcheck compares what was not written too, and NaN is not itself
    results = opcheck(getattr(torch.ops.octave, name).default, (), arguments)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", ["cache_store", "rotate"])
def test_opcheck_and_compile_with_a_center(name: str, request: pytest.FixtureRequest) -> None:
    operator = getattr(torch.ops.octave, name)
    eager = request.getfixturevalue(f"{name.removeprefix('cache_')}_arguments")
    if name == "cache_store":
        eager |= {"encoder": "search", "k_center": torch.ones(2, 128, dtype=torch.float16)}
    else:
        eager["center"] = torch.ones(3, 128, dtype=torch.float16)
    compiled = copied(eager)
    torch.compile(lambda arguments: operator(**arguments), fullgraph=True, backend="aot_eager")(compiled)
    assert set(opcheck(operator.default, (), copied(eager)).values()) == {"SUCCESS"}
    operator(**eager)
    written = "cache" if name == "cache_store" else "x"
    assert torch.equal(compiled[written], eager[written])


@pytest.mark.parametrize("name", SCHEMAS)
def test_compile(name: str, request: pytest.FixtureRequest) -> None:
    operator = getattr(torch.ops.octave, name)
    eager = request.getfixturevalue(f"{name.removeprefix('cache_')}_arguments")
    compiled = copied(eager)
    step = torch.compile(lambda arguments: operator(**arguments), fullgraph=True, backend="aot_eager")
    step(compiled)
    operator(**eager)
    for argument, x in eager.items():
        if isinstance(x, torch.Tensor):
            assert torch.equal(compiled[argument].nan_to_num(), x.nan_to_num()), argument


def test_compile_without_the_arguments_that_have_defaults(prefill_arguments: Arguments) -> None:
    for name in ("workspace", "num_kv_splits"):
        del prefill_arguments[name]
    prefill_arguments["out"].zero_()
    results = opcheck(torch.ops.octave.prefill.default, (), prefill_arguments)
    assert set(results.values()) == {"SUCCESS"}
    compiled = copied(prefill_arguments)
    step = torch.compile(lambda a: torch.ops.octave.prefill(**a), fullgraph=True, backend="aot_eager")
    step(compiled)
    torch.ops.octave.prefill(**prefill_arguments)
    assert torch.equal(compiled["out"], prefill_arguments["out"])


def test_compile_with_dynamic_shapes(rotate_arguments: Arguments) -> None:
    step = torch.compile(
        lambda x, signs: torch.ops.octave.rotate(x * 2, signs, True, False),
        fullgraph=True,
        dynamic=True,
        backend="aot_eager",
    )
    for tokens in (5, 4, 3):
        step(rotate_arguments["x"][:tokens], rotate_arguments["signs"])


def test_meta_tensors(rotate_arguments: Arguments) -> None:
    x = rotate_arguments["x"].to("meta")
    torch.ops.octave.rotate(x, rotate_arguments["signs"].to("meta"), True, False)


def test_groups_start_where_they_are_told(decode_arguments: Arguments) -> None:
    """A group's queries share their splits, so another grouping gives other partials and the same output."""
    a = decode_arguments
    a["q_to_req"] = torch.zeros(6, dtype=torch.int32)
    a["q_to_klen"] = torch.tensor([20, 24, 33, 40, 16, 0], dtype=torch.int32)
    torch.ops.octave.decode(**a)
    out, mid_o = a["out"].clone(), a["mid_o"].clone()
    torch.ops.octave.decode(**a, group_starts=torch.arange(6, dtype=torch.int32))
    assert not torch.equal(a["mid_o"], mid_o)
    assert torch.allclose(a["out"], out, atol=1e-3)


@pytest.mark.parametrize("starts", [[], [1, 5], [0, 5], [0, 4, 3, 6], [0, 4, 7]])
def test_wrong_group_starts(decode_arguments: Arguments, starts: list[int]) -> None:
    with pytest.raises(OctaveError, match=r"group_starts is .* for 6 queries"):
        torch.ops.octave.decode(**decode_arguments, group_starts=torch.tensor(starts, dtype=torch.int32))


def test_workspace() -> None:
    assert workspace_shape(6, 8, 2, 128) == (6, 8, 2, 130)
    assert workspace_bytes(6, 8, 2, 128) == 4 * math.prod(workspace_shape(6, 8, 2, 128))
    for splits in (0, 1025):
        with pytest.raises(OctaveError, match="1 to 1024"):
            workspace_shape(1, 1, splits, 128)
