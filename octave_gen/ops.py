"""``torch.ops.octave``: importing this module defines the ops.

``cache_store(key, value, cache, slot_mapping, k_signs, v_signs, fmt, encoder=None, k_center=None)``
    Rotates, quantizes and packs token i of key and value, fp16 or bf16 [tokens, kv_heads, head_size], into slot
    slot_mapping[i] (int64 [tokens]; a negative one skips the token). encoder: ``plain`` or ``search``, None for the
    default. k_center: of key's dtype, dense [kv_heads, head_size], subtracted from key in fp32 before the signs.
``decode(out, query, cache, block_table, q_to_req, q_to_klen, mid_o, k_signs, v_signs, sm_scale, num_kv_splits, fmt,
query_group, use_wmma, group_starts=None, tier=None)``
    Attention of query, fp16 or bf16 [queries, q_heads, head_size], over the first q_to_klen[i] tokens of request
    q_to_req[i] (int32 [queries]; klen 0 or a request out of range is padding and gives zeros) into out, of query's
    shape and dtype. block_table: int32 [requests, blocks]. mid_o: fp32 workspace, at least ``workspace_shape(…)``.
    query_group: consecutive queries that are served together. use_wmma: the chip's matrix tier, not the portable one.
    group_starts: int32 [groups], where each group starts (`QueryGroups`); without it group i starts at i * query_group.
    tier: one of the chip's by its name, in place of what use_wmma says; on a CPU it changes nothing else.
``prefill(out, q, k, v, cache, block_table, cu_seqlens_q, seq_lens, max_query_len, sm_scale, fmt, workspace=None,
num_kv_splits=1, tier=None)``
    Attention of the chunks of several requests, each over its packed prefix and causally over its own k and v. All is
    rotated: q and k like K (``rotate``, k_layout for block K), v and out like V. q, out: fp16 or bf16 [tokens, q_heads,
    head_size]; k, v: [tokens, kv_heads, head_size]; rows at multiples of 16 bytes. Request r has the tokens
    cu_seqlens_q[r] … cu_seqlens_q[r + 1] - 1 (int32 [requests + 1]), at most max_query_len, of its seq_lens[r] (int32
    [requests]); those before them are in the cache. block_table: int32 [≥ requests, blocks]. workspace: fp32 scratch,
    at least ``workspace_shape(tokens, q_heads, num_kv_splits, head_size)``; without one, the op takes it from torch's
    allocator for the call. Rows of out behind the last request are not written. tier: as of decode.
``rotate(x, signs, k_layout, inverse, center=None)``
    Rotates x, fp16 or bf16 [tokens, heads, head_size], in place: blocks of 64 dims (k_layout) or the whole head.
    center: of x's dtype, dense [heads, head_size], subtracted from x in fp32 before; forward only.

cache: uint8 [blocks, kv_heads, block_size, slot_bytes] of any strides that are multiples of 4 bytes; slot s is row
s % block_size of block s // block_size. fmt: 3 octave_k3v3, 4 octave_k3v4, 19 octave_k3v3_compact, 20
octave_k3v4_compact, 51 octave_k4v3_compact; the rotary dims follow from slot_bytes. Signs: int32 [head_size / 32],
``sign_tensor(head_size)``.

CPU tensors go to the reference. GPU tensors go to a kernel of a library that ``octave_gen.load`` has loaded. Arguments
that do not fit, and a kernel that is not there, raise ``octave_gen.errors.OctaveError``.
"""

from __future__ import annotations

from octave_gen.formats.octave.rotation import sign_tensor
from octave_gen.kernels.split_policy import kv_splits, prefix_splits
from octave_gen.kernels.splits import MAX_KV_SPLITS, workspace_bytes, workspace_shape
from octave_gen.runtime.metadata import QueryGroups, QueryMaps, group_capacity, map_capacity
from octave_gen.runtime.registration import register

__all__ = [
    "MAX_KV_SPLITS",
    "QueryGroups",
    "QueryMaps",
    "group_capacity",
    "kv_splits",
    "map_capacity",
    "prefix_splits",
    "sign_tensor",
    "workspace_bytes",
    "workspace_shape",
]

register()
