"""A variant under check: what its name says about the inputs it takes and the results it owes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from octave_gen.arch import PORTABLE
from octave_gen.formats import CACHE_DTYPES
from octave_gen.formats.octave.layout import SlotLayout
from octave_gen.kernels import KINDS
from octave_gen.kernels.base import Accuracy
from octave_gen.runtime.checks import QUERY_DTYPES
from octave_gen.runtime.library import LoadedVariant, VariantKey

_DTYPES = {name: dtype for dtype, name in QUERY_DTYPES.items()}


@dataclass(frozen=True)
class Subject:
    """``merge``: the kernel that the partials of decode (reduce) or of a prefix (chunk) go to; None: its library has
    none, or the variant leaves no partials."""

    variant: LoadedVariant
    merge: LoadedVariant | None = None

    @property
    def kind(self) -> str:
        return self.variant.key.kind

    @property
    def head_size(self) -> int:
        return self.variant.key.head_size

    @property
    def dtype(self) -> torch.dtype:
        return _DTYPES[self.variant.key.query_dtype]

    @property
    def layout(self) -> SlotLayout:
        """Of the cache that the variant works on."""
        key = self.variant.key
        assert key.cache_dtype is not None
        assert key.slot_bytes is not None
        return SlotLayout.from_slot_bytes(key.head_size, key.slot_bytes, CACHE_DTYPES[key.cache_dtype].fmt)

    @property
    def encoder(self) -> str:
        assert self.variant.key.encoder is not None
        return self.variant.key.encoder

    @property
    def gqa_group(self) -> int:
        assert self.variant.key.gqa_group is not None
        return self.variant.key.gqa_group

    @property
    def query_group(self) -> int:
        assert self.variant.key.query_group is not None
        return self.variant.key.query_group

    @property
    def accuracy(self) -> Accuracy:
        return _accuracy(self.variant)

    @property
    def accuracies(self) -> tuple[Accuracy, ...]:
        """Of the variant and of the kernel behind it."""
        return tuple(_accuracy(variant) for variant in (self.variant, self.merge) if variant)


def _accuracy(variant: LoadedVariant) -> Accuracy:
    return KINDS[variant.key.kind].tier(variant.key.tier).accuracy


def subjects(variants: Sequence[LoadedVariant]) -> list[Subject]:
    """One for each variant; with the kernel that the operator launches behind it, if there is one and it is there."""
    known = {
        (variant.key.kind, variant.key.tier, variant.key.head_size, variant.key.query_dtype): variant
        for variant in variants
    }
    behind = [_behind(variant.key) for variant in variants]
    return [Subject(one, known.get(merge) if merge else None) for one, merge in zip(variants, behind, strict=True)]


def _behind(key: VariantKey) -> tuple[str, str, int, str] | None:
    """Kind, tier, head size and query dtype of the kernel that merges what ``key``'s leaves."""
    if key.kind == "decode":
        return "reduce", PORTABLE, key.head_size, key.query_dtype
    if key.kind == "prefill_prefix":
        return "prefill_chunk", key.tier, key.head_size, key.query_dtype
    return None
