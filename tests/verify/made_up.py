"""Subjects of a made-up library, and an executor that computes what the reference states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from octave_gen import arch as archs
from octave_gen.formats import CACHE_DTYPES, cache_dtype, family_of
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import SCALARS, Shape
from octave_gen.kernels.splits import tokens_per_split
from octave_gen.reference.attention import decode_partials, reduce_partials
from octave_gen.reference.prefill import attend_chunk, prefix_partials, rounded
from octave_gen.reference.rotate import rotate
from octave_gen.reference.store import cache_store
from octave_gen.runtime.library import LoadedVariant, VariantKey
from octave_gen.verify.operators import Attention, Chunked, Prefill
from octave_gen.verify.subject import Subject

SubjectMaker = Callable[..., Subject]


def make_subject(
    kind: str,
    query_dtype: str = "fp16",
    head_size: int = 64,
    dtype: str = "octave_k3v3",
    gqa_group: int = 2,
    query_group: int = 4,
    with_reduce: bool = True,
    encoder: str = "plain",
) -> Subject:
    """A subject of gfx942, in the portable tier where there is one; decode comes with its reduce unless told otherwise,
    and a prefix with its chunk."""
    known = cache_dtype(dtype)
    uses_cache, attends = kind in ("store", "decode", "prefill_prefix"), kind == "decode"
    slot = family_of(known).layout(CACHE_DTYPES[dtype], head_size, 64).slot_bytes
    tier = KINDS[kind].tiers[0]
    shape = Shape(
        family="octave",
        head_size=head_size,
        scalar=SCALARS[query_dtype],
        cache_dtype=dtype if uses_cache else None,
        rotary_dims=64 if uses_cache else None,
        gqa_group=gqa_group if attends else None,
        query_group=query_group if attends else None,
        encoder=encoder if kind == "store" else None,
    )
    key = VariantKey(
        arch="gfx942",
        kind=kind,
        tier=tier.name,
        query_dtype=query_dtype,
        head_size=head_size,
        cache_dtype=shape.cache_dtype,
        slot_bytes=slot if uses_cache else None,
        gqa_group=shape.gqa_group,
        query_group=shape.query_group,
        encoder=shape.encoder,
    )
    name = f"{kind}_made_up_{query_dtype}"
    variant = LoadedVariant(name, name, key, tier.arguments, tier.geometry(shape, archs.get("gfx942")))
    behind = {"decode": "reduce", "prefill_prefix": "prefill_chunk"}.get(kind)
    merge = make_subject(behind, query_dtype, head_size).variant if behind and with_reduce else None
    return Subject(variant, merge)


@dataclass
class Right:
    """An executor whose kernels do what the reference says; tests derive executors with one thing wrong from it."""

    def cache_store(
        self,
        variant: LoadedVariant,
        key: Tensor,
        value: Tensor,
        cache: Tensor,
        slot_mapping: Tensor,
        k_signs: Tensor,
        v_signs: Tensor,
        k_center: Tensor | None = None,
    ) -> None:
        subject = Subject(variant)
        rows = (key, value, cache, slot_mapping, subject.layout)
        cache_store(*rows, k_signs, v_signs, subject.encoder, k_center)

    def rotate(
        self,
        variant: LoadedVariant,
        x: Tensor,
        signs: Tensor,
        k_layout: bool,
        inverse: bool,
        center: Tensor | None = None,
    ) -> None:
        rotate(x, k_layout, inverse, signs, center)

    def decode(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Attention) -> None:
        a, subject = arguments, Subject(variant)
        splits = a.num_kv_splits
        widths = [max(1, tokens_per_split(max(0, n), splits)) for n in a.q_to_klen.tolist()]
        partials = decode_partials(
            a.query,
            a.cache,
            a.block_table,
            a.q_to_req,
            a.q_to_klen,
            subject.layout,
            a.sm_scale,
            splits,
            widths,
            subject.accuracy.query_mode,
            torch.float32,
            a.k_signs,
        )
        a.mid_o.copy_(partials)
        if merge is not None:
            self.reduce(merge, a.mid_o, a.out, a.v_signs, splits)

    def reduce(self, variant: LoadedVariant, mid_o: Tensor, out: Tensor, v_signs: Tensor, num_kv_splits: int) -> None:
        layout = make_subject("store", head_size=variant.key.head_size).layout
        out.copy_(reduce_partials(mid_o[:, :, :num_kv_splits], layout, torch.float32, v_signs))

    def prefill(self, variant: LoadedVariant, merge: LoadedVariant | None, arguments: Prefill) -> None:
        a, layout, mode = arguments, Subject(variant).layout, Subject(variant).accuracy.query_mode
        new, splits = a.cu_seqlens_q.diff(), a.num_kv_splits
        widths = [tokens_per_split(n, splits) for n in (a.seq_lens - new).tolist()]
        maps = (a.block_table, a.cu_seqlens_q, a.seq_lens)
        made = prefix_partials(a.q, a.cache, *maps, layout, a.sm_scale, splits, widths, mode)
        a.partials.copy_(made.where((made[..., -1] != 0).unsqueeze(-1), a.partials))
        if merge is not None:
            self.prefill_chunk(merge, a)

    def prefill_chunk(self, variant: LoadedVariant, arguments: Chunked) -> None:
        a = arguments
        partials = a.partials.clone()
        partials[..., -1].nan_to_num_(0.0)  # splits without tokens are not written
        empty = partials[..., -1] == 0
        partials[empty] = 0.0
        partials[..., -2][empty] = -torch.inf
        made = attend_chunk(a.q, a.k, a.v, partials, a.cu_seqlens_q, a.seq_lens, a.sm_scale)
        end = int(a.cu_seqlens_q[-1])
        a.out[:end] = rounded(made[:end], a.out.dtype)
