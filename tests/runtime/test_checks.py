"""Wrong arguments: the CPU op and the GPU path refuse the same ones, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from octave_gen.errors import OctaveError
from octave_gen.formats import CACHE_DTYPES
from octave_gen.runtime import checks, gpu
from octave_gen.runtime.dispatch import Registry

Arguments = dict[str, Any]
Edit = Callable[[Arguments], Any]
NOWHERE = gpu.Place("gfx942", stream=0, registry=Registry())


def edit(**changes: Callable[[Any], Any] | Any) -> Edit:
    """Replaces arguments: by a value, or by what a function makes of the old one."""

    def apply(arguments: Arguments) -> None:
        for name, change in changes.items():
            arguments[name] = change(arguments[name]) if callable(change) else change

    return apply


def misaligned(cache: torch.Tensor) -> torch.Tensor:
    storage = torch.zeros(cache.numel() + 8, dtype=torch.uint8)
    offset = -storage.data_ptr() % 4 + 2
    return storage[offset : offset + cache.numel()].view(cache.shape)


def strided(cache: torch.Tensor) -> torch.Tensor:
    """The same shape with rows one byte further apart."""
    blocks, heads, rows, slot = cache.shape
    return torch.zeros(blocks, heads, rows, slot + 1, dtype=torch.uint8)[..., :slot]


def sparse(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(*x.shape, 2, dtype=x.dtype)[..., 0]


STORE = [
    (edit(key=lambda x: x.float()), "key is torch.float32, not torch.float16 or torch.bfloat16"),
    (edit(value=lambda x: x.bfloat16()), "value is torch.bfloat16, key torch.float16"),
    (edit(key=lambda x: x[0]), "key has 2 dimensions, not 3"),
    (edit(value=lambda x: x[:, :1]), r"value is \[7, 1, 128\], key \[7, 2, 128\]"),
    (edit(value=lambda x: x[:6]), r"value is \[6, 2, 128\], key \[7, 2, 128\]"),
    (edit(key=lambda x: x[:6], value=lambda x: x[:6]), "slot_mapping names 7 slots for 6 tokens"),
    (edit(key=lambda x: x[:, :1], value=lambda x: x[:, :1]), "key has 1 heads, the cache 2"),
    (edit(key=sparse), "last dimension of key has stride 2, not 1"),
    (edit(value=sparse), "last dimension of value has stride 2, not 1"),
    (edit(slot_mapping=lambda x: x.int()), "slot_mapping is torch.int32, not torch.int64"),
    (edit(slot_mapping=lambda x: x.repeat(2)[::2]), "last dimension of slot_mapping has stride 2, not 1"),
    (edit(cache=lambda x: x.view(torch.int8)), "cache is torch.int8, not torch.uint8"),
    (edit(cache=lambda x: x[:, 0]), "cache has 3 dimensions, not 4"),
    (edit(cache=lambda x: x[..., :104]), r"no slot of head size 128 and fmt 3 has 104 bytes[\s\S]*112 \(rotary 64\)"),
    (edit(cache=misaligned), "cache begins at an address that is no multiple of 4"),
    (edit(cache=strided), r"cache has strides \[3616, 1808, 113, 1\], not multiples of 4 bytes"),
    (edit(cache=sparse), "the bytes of a cache slot are 2 apart, not 1"),
    (edit(cache=lambda x: x[:, :, :0]), r"cache is \[3, 2, 0, 112\]: it has no heads or no rows"),
    (
        edit(fmt=5),
        r"^octave.cache_store: fmt 5 is no cache format[\s\S]*3 \(octave_k3v3\)[\s\S]*4 \(octave_k3v4\)",
    ),
    (edit(fmt=4), r"^octave.cache_store: no slot of head size 128 and fmt 4 has 112 bytes"),
    (edit(key=lambda x: x[..., :96], value=lambda x: x[..., :96]), "head_size 96 is not a multiple of 64"),
    (edit(k_signs=lambda x: x.long()), "k_signs is torch.int64, not torch.int32"),
    (edit(v_signs=lambda x: x[:3]), "v_signs has 3 words, head_size 128 needs 4"),
    (edit(k_signs=lambda x: x.repeat(2)), "k_signs has 8 words, head_size 128 needs 4"),
    (edit(v_signs=lambda x: x.repeat(2)[::2]), "last dimension of v_signs has stride 2, not 1"),
    (edit(k_center=torch.zeros(2, 128)), "k_center is torch.float32, not torch.float16 or torch.bfloat16"),
    (edit(k_center=torch.zeros(2, 128).bfloat16()), "k_center is torch.bfloat16, key torch.float16"),
    (edit(k_center=torch.zeros(256).half()), "k_center has 1 dimensions, not 2"),
    (edit(k_center=torch.zeros(1, 128).half()), r"k_center is \[1, 128\], not \[2, 128\] \(heads and head of key\)"),
    (edit(k_center=torch.zeros(2, 64).half()), r"k_center is \[2, 64\], not \[2, 128\]"),
    (edit(k_center=torch.zeros(2, 136).half()[:, :128]), r"k_center has strides \[136, 1\], not dense ones"),
    (edit(k_center=torch.zeros(1, 128).half().expand(2, -1)), r"k_center has strides \[0, 1\], not dense ones"),
    (edit(encoder="serch"), r"there is no encoder 'serch' \(did you mean search\?\)[\s\S]*encoders: plain, search"),
    (edit(encoder=""), "there is no encoder ''"),
]
ROTATE = [
    (edit(x=lambda x: x.double()), "x is torch.float64, not"),
    (edit(x=lambda x: x[0]), "x has 2 dimensions, not 3"),
    (edit(x=lambda x: x[..., :96]), "x has head_size 96, no multiple of 64 up to 512"),
    (edit(x=lambda x: x.repeat(1, 1, 5)), "x has head_size 640, no multiple of 64 up to 512"),
    (edit(x=sparse), "last dimension of x has stride 2, not 1"),
    (edit(signs=lambda x: x[:2]), "signs has 2 words, head_size 128 needs 4"),
    (edit(signs=lambda x: x[None]), "signs has 2 dimensions, not 1"),
    (edit(center=torch.zeros(3, 128)), "center is torch.float32, not torch.float16 or torch.bfloat16"),
    (edit(center=torch.zeros(3, 128).bfloat16()), "center is torch.bfloat16, x torch.float16"),
    (edit(center=torch.zeros(2, 128).half()), r"center is \[2, 128\], not \[3, 128\] \(heads and head of x\)"),
    (edit(center=torch.zeros(128, 3).half().T), r"center has strides \[1, 3\], not dense ones"),
    (
        edit(center=torch.zeros(3, 128).half(), inverse=True),
        "center is subtracted before the rotation: inverse takes none",
    ),
]
DECODE = [
    (edit(query=lambda x: x.float(), out=lambda x: x.float()), "query is torch.float32, not"),
    (edit(out=lambda x: x.bfloat16()), "out is torch.bfloat16, query torch.float16"),
    (edit(out=lambda x: x[:5]), r"out is \[5, 8, 128\], query \[6, 8, 128\]"),
    (edit(query=lambda x: x[:, :7], out=lambda x: x[:, :7]), "7 query heads are no multiple of 2 kv heads"),
    (edit(query=lambda x: x[:, :0], out=lambda x: x[:, :0]), "0 query heads are no multiple of 2 kv heads"),
    (edit(query=lambda x: x[..., :64], out=lambda x: x[..., :64]), "no slot of head size 64 and fmt 3 has 112 bytes"),
    (edit(out=sparse), "last dimension of out has stride 2, not 1"),
    (edit(query=sparse), "last dimension of query has stride 2, not 1"),
    (edit(cache=strided), "not multiples of 4 bytes"),
    (edit(cache=misaligned), "cache begins at an address"),
    (edit(cache=lambda x: x[:, :0]), "it has no heads or no rows"),
    (edit(block_table=lambda x: x.long()), "block_table is torch.int64, not torch.int32"),
    (edit(block_table=lambda x: x[0]), "block_table has 1 dimensions, not 2"),
    (edit(block_table=sparse), "last dimension of block_table has stride 2, not 1"),
    (edit(q_to_req=lambda x: x[:5]), "q_to_req has 5 entries for 6 queries"),
    (edit(q_to_klen=lambda x: x[:5]), "q_to_klen has 5 entries for 6 queries"),
    (edit(q_to_klen=lambda x: x.long()), "q_to_klen is torch.int64, not torch.int32"),
    (edit(q_to_req=lambda x: x.repeat(2)[::2]), "last dimension of q_to_req has stride 2, not 1"),
    (edit(mid_o=lambda x: x.half()), "mid_o is torch.float16, not torch.float32"),
    (edit(mid_o=lambda x: x[:5]), r"mid_o is \[5, 8, 2, 130\], at least \[6, 8, 2, 130\] is needed"),
    (edit(mid_o=lambda x: x[:, :7]), r"mid_o is \[6, 7, 2, 130\], at least"),
    (edit(mid_o=lambda x: x[..., :129]), r"mid_o is \[6, 8, 2, 129\], at least"),
    (edit(mid_o=sparse), "last dimension of mid_o has stride 2, not 1"),
    (edit(mid_o=lambda x: x[:1].expand(6, -1, -1, -1)), "mid_o has strides .*: entries share their memory"),
    (edit(out=lambda x: x[:, :1].expand(-1, 8, -1)), "out has strides .*: entries share their memory"),
    (edit(num_kv_splits=3), r"mid_o is \[6, 8, 2, 130\], at least \[6, 8, 3, 130\] is needed"),
    (edit(num_kv_splits=0), "num_kv_splits is 0, not 1 to 1024"),
    (edit(num_kv_splits=1025), "num_kv_splits is 1025, not 1 to 1024"),
    (edit(query_group=0), "query_group is 0, not 1 to 16"),
    (edit(query_group=17), "query_group is 17, not 1 to 16"),
    (edit(sm_scale=float("nan")), "sm_scale is nan, not a finite fp32 number"),
    (edit(sm_scale=float("-inf")), "sm_scale is -inf, not a finite fp32 number"),
    (edit(sm_scale=1e300), "sm_scale is 1e\\+300, not a finite fp32 number"),
    (edit(sm_scale=-3.5e38), "sm_scale is -3.5e\\+38, not a finite fp32 number"),
    (edit(fmt=0), "^octave.decode: fmt 0 is no cache format"),
    (edit(k_signs=lambda x: x[:2]), "k_signs has 2 words"),
    (edit(v_signs=lambda x: x[:2]), "v_signs has 2 words"),
]


def wide(x: torch.Tensor) -> torch.Tensor:
    """The same shape with rows four elements further apart."""
    return torch.zeros(*x.shape[:2], x.shape[2] + 4, dtype=x.dtype)[..., : x.shape[2]]


def shifted(x: torch.Tensor) -> torch.Tensor:
    """The same shape, four elements behind an aligned address."""
    storage = torch.zeros(x.numel() + 16, dtype=x.dtype)
    offset = -storage.data_ptr() // 2 % 8 + 4
    return storage[offset : offset + x.numel()].view(x.shape)


PREFILL = [
    *((edit(**{name: lambda x: x.float()}), f"{name} is torch.float32, not") for name in ("out", "q", "k", "v")),
    *((edit(**{name: lambda x: x[0]}), f"{name} has 2 dimensions, not 3") for name in ("out", "q", "k", "v")),
    *((edit(**{name: sparse}), f"last dimension of {name} has stride 2, not 1") for name in ("out", "q", "k", "v")),
    *(
        (edit(**{name: wide}), rf"{name} has strides \[{stride}, 132, 1\], not multiples of 8 elements")
        for name, stride in (("out", 1056), ("q", 1056), ("k", 264), ("v", 264))
    ),
    *(
        (edit(**{name: shifted}), f"{name} begins at an address that is no multiple of 16")
        for name in ("out", "q", "k", "v")
    ),
    *((edit(**{name: lambda x: x.bfloat16()}), f"{name} is torch.bfloat16, q torch.float16") for name in "kv"),
    (edit(out=lambda x: x.bfloat16()), "out is torch.bfloat16, q torch.float16"),
    (edit(out=lambda x: x[:1].expand(9, -1, -1)), "out has strides .*: entries share their memory"),
    (edit(out=lambda x: x[:5]), r"out is \[5, 8, 128\], q \[9, 8, 128\]"),
    (edit(k=lambda x: x[:8]), r"k is \[8, 2, 128\], beside q and the cache it must be \[9, 2, 128\]"),
    (edit(v=lambda x: x[:, :1]), r"v is \[9, 1, 128\], beside q and the cache it must be \[9, 2, 128\]"),
    (edit(v=lambda x: x[..., :64]), r"v is \[9, 2, 64\], beside q and the cache"),
    (edit(q=lambda x: x[:, :7], out=lambda x: x[:, :7]), "7 query heads are no multiple of 2 kv heads"),
    (edit(q=lambda x: x[..., :64], out=lambda x: x[..., :64]), "no slot of head size 64 and fmt 3 has 112 bytes"),
    (edit(cache=strided), "not multiples of 4 bytes"),
    (edit(cache=misaligned), "cache begins at an address"),
    (edit(cache=lambda x: x[:, :0]), "it has no heads or no rows"),
    (edit(cache=lambda x: x.view(torch.int8)), "cache is torch.int8, not torch.uint8"),
    (edit(block_table=lambda x: x.long()), "block_table is torch.int64, not torch.int32"),
    (edit(block_table=lambda x: x[:2]), "block_table has 2 rows for 3 requests"),
    (edit(block_table=sparse), "last dimension of block_table has stride 2, not 1"),
    (edit(cu_seqlens_q=lambda x: x.long()), "cu_seqlens_q is torch.int64, not torch.int32"),
    (edit(cu_seqlens_q=lambda x: x[:3]), "cu_seqlens_q has 3 entries, 3 requests need 4"),
    (edit(cu_seqlens_q=lambda x: x.repeat(2)[::2]), "last dimension of cu_seqlens_q has stride 2, not 1"),
    (edit(seq_lens=lambda x: x.long()), "seq_lens is torch.int64, not torch.int32"),
    (edit(seq_lens=lambda x: x[:2]), "cu_seqlens_q has 4 entries, 2 requests need 3"),
    (edit(seq_lens=lambda x: x[:, None]), "seq_lens has 2 dimensions, not 1"),
    (edit(max_query_len=-1), "max_query_len is -1, not 0 or more"),
    (edit(workspace=lambda x: x.half()), "workspace is torch.float16, not torch.float32"),
    (edit(workspace=lambda x: x[:8]), r"workspace is \[8, 8, 2, 130\], at least \[9, 8, 2, 130\] is needed"),
    (edit(workspace=lambda x: x[..., :129]), r"workspace is \[9, 8, 2, 129\], at least"),
    (edit(workspace=sparse), "last dimension of workspace has stride 2, not 1"),
    (edit(num_kv_splits=3), r"workspace is \[9, 8, 2, 130\], at least \[9, 8, 3, 130\] is needed"),
    (edit(num_kv_splits=0), "num_kv_splits is 0, not 1 to 1024"),
    (edit(num_kv_splits=1025, workspace=None), "num_kv_splits is 1025, not 1 to 1024"),
    (edit(sm_scale=float("nan")), "sm_scale is nan, not a finite fp32 number"),
    (edit(fmt=7), "^octave.prefill: fmt 7 is no cache format"),
]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (name, change, message)
        for name, cases in (("store", STORE), ("rotate", ROTATE), ("decode", DECODE), ("prefill", PREFILL))
        for change, message in cases
    ],
)
def test_refused(name: str, change: Edit, message: str, request: pytest.FixtureRequest) -> None:
    arguments: Arguments = request.getfixturevalue(f"{name}_arguments")
    op = "cache_store" if name == "store" else name
    change(arguments)
    before = {key: x.clone() for key, x in arguments.items() if isinstance(x, torch.Tensor)}
    with pytest.raises(OctaveError, match=message) as on_cpu:
        getattr(torch.ops.octave, op)(**arguments)
    with pytest.raises(OctaveError, match=message) as on_gpu:
        getattr(gpu, op)(**arguments, place=NOWHERE)
    assert str(on_cpu.value) == str(on_gpu.value)
    for key, x in before.items():
        assert torch.equal(arguments[key].nan_to_num(), x.nan_to_num()), key


def test_all_problems_in_one_report(store_arguments: Arguments) -> None:
    edit(key=lambda x: x.float(), slot_mapping=lambda x: x.int(), k_signs=lambda x: x[None])(store_arguments)
    with pytest.raises(OctaveError) as raised:
        torch.ops.octave.cache_store(**store_arguments)
    assert str(raised.value) == (
        "octave.cache_store: these arguments do not fit:\n"
        "  key is torch.float32, not torch.float16 or torch.bfloat16\n"
        "  slot_mapping is torch.int32, not torch.int64\n"
        "  k_signs has 2 dimensions, not 1"
    )


def test_all_problems_of_a_prefill_in_one_report(prefill_arguments: Arguments) -> None:
    edit(k=lambda x: x[:8], v=sparse, cu_seqlens_q=lambda x: x[:2], workspace=lambda x: x[:1])(prefill_arguments)
    with pytest.raises(OctaveError) as raised:
        torch.ops.octave.prefill(**prefill_arguments)
    assert str(raised.value) == (
        "octave.prefill: these arguments do not fit:\n"
        "  k is [8, 2, 128], beside q and the cache it must be [9, 2, 128]\n"
        "  cu_seqlens_q has 2 entries, 3 requests need 4\n"
        "  the last dimension of v has stride 2, not 1\n"
        "  workspace is [1, 8, 2, 130], at least [9, 8, 2, 130] is needed (ops.workspace_shape)"
    )


def test_the_workspace_is_where_the_tensors_are(prefill_arguments: Arguments) -> None:
    prefill_arguments["workspace"] = prefill_arguments["workspace"].to("meta")
    with pytest.raises(OctaveError, match="seq_lens on cpu, workspace on meta"):
        checks.check_prefill(checks.PrefillArguments(**prefill_arguments))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit(max_query_len=4), "max_query_len is 4, and a request has 5 query tokens"),
        (edit(seq_lens=lambda x: x - 1), "request 2 has 3 query tokens, and seq_lens 2"),
        (edit(cu_seqlens_q=lambda x: x + 2), "at most 9, the tokens of q"),
        (edit(seq_lens=lambda x: x + 19), "the block table of request 0 ends at 48"),
    ],
)
def test_what_only_the_reference_can_see_of_a_prefill(change: Edit, message: str, prefill_arguments: Arguments) -> None:
    change(prefill_arguments)
    with pytest.raises(OctaveError, match=f"^octave.prefill: .*{message}"):
        torch.ops.octave.prefill(**prefill_arguments)
    assert prefill_arguments["out"].isnan().all()


def test_other_devices(store_arguments: Arguments) -> None:
    store_arguments["cache"] = store_arguments["cache"].to("meta")
    with pytest.raises(OctaveError, match=r"different devices: key on cpu, value on cpu, cache on meta"):
        checks.check_cache_store(**store_arguments)


def test_a_center_on_another_device(store_arguments: Arguments, rotate_arguments: Arguments) -> None:
    center = torch.zeros(3, 128, dtype=torch.float16, device="meta")
    with pytest.raises(OctaveError, match="v_signs on cpu, k_center on meta"):
        checks.check_cache_store(**store_arguments, k_center=center[:2])
    with pytest.raises(OctaveError, match="signs on cpu, center on meta"):
        checks.check_rotate(rotate_arguments["x"], rotate_arguments["signs"], False, center)


def test_slot_beyond_the_cache(store_arguments: Arguments) -> None:
    store_arguments["slot_mapping"][2] = 48
    with pytest.raises(OctaveError, match=r"^octave\.cache_store: slot 48 is beyond the cache's 48 slots"):
        torch.ops.octave.cache_store(**store_arguments)
    assert not store_arguments["cache"].any()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("q_to_klen", (0, 49), "query 0 sees 49 tokens, the block table of request 0 ends at 48"),
        ("block_table", ((0, 1), 6), "the block table of request 0 names a block outside 0 .. 5"),
    ],
)
def test_what_only_the_reference_can_see_names_the_op(
    name: str, change: tuple[Any, int], message: str, decode_arguments: Arguments
) -> None:
    place, value = change
    decode_arguments[name][place] = value
    with pytest.raises(OctaveError, match=f"^octave.decode: {message}"):
        torch.ops.octave.decode(**decode_arguments)
    assert decode_arguments["out"].isnan().all()


@pytest.mark.parametrize("change", [{"sm_scale": 3.4028234663852886e38}, {"sm_scale": 1e-300}, {"query_group": 16}])
def test_the_largest_scale_and_group_are_accepted(change: Arguments, decode_arguments: Arguments) -> None:
    checks.check_decode(checks.DecodeArguments(**{**decode_arguments, **change}))


def test_every_cache_dtype_of_the_ops_family_has_a_code_of_its_own() -> None:
    mine = [dtype for dtype in CACHE_DTYPES.values() if dtype.family == checks.FAMILY.name]
    assert [checks.dtype_of_fmt(dtype.fmt) for dtype in mine] == mine


def test_arguments_are_those_of_the_schema() -> None:
    for op, fields in (("decode", checks.DecodeArguments), ("prefill", checks.PrefillArguments)):
        arguments = getattr(torch.ops.octave, op).default._schema.arguments
        assert fields._fields == tuple(argument.name for argument in arguments)
        defaults = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
        assert fields._field_defaults == defaults


def test_strides_of_single_entries_do_not_matter(store_arguments: Arguments) -> None:
    odd = torch.zeros(2 * 16 * 112, dtype=torch.uint8).as_strided((1, 2, 16, 112), (7, 16 * 112, 112, 1))
    store_arguments["cache"] = odd
    store_arguments["slot_mapping"] = torch.tensor([3])
    torch.ops.octave.cache_store(**store_arguments)
    assert odd[0, :, 3].any()


def test_layout(store_arguments: Arguments, decode_arguments: Arguments, prefill_arguments: Arguments) -> None:
    assert checks.check_prefill(checks.PrefillArguments(**prefill_arguments)).slot_bytes == 112
    assert checks.check_cache_store(**store_arguments).slot_bytes == 112
    assert checks.check_decode(checks.DecodeArguments(**decode_arguments)).rotary_dims == 64
